"""The leases that one process has, renewed while it works: what it works on, no other process works on."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon.errors import StoreError

from .clock import steady_time
from .store import Key, Lease, Store

log = logging.getLogger("antiphon.store")

SECONDS = 15.0
"""How long a lease lasts of which nothing is heard."""
EVERY = 1.0
"""Seconds between two renewals, and so until a signal is read."""
LOOKS = 0.05
"""Seconds between two looks at whether another's lease has ended."""


def _nothing() -> None: ...


def _no_signal(signal: str) -> None: ...


@dataclass(slots=True)
class _Held:
    lease: Lease
    signalled: Callable[[str], None]
    lost: Callable[[], None]


@dataclass(slots=True)
class Leases:
    """The leases of one holder, which is this process. They are renewed together, as long as there are any."""

    store: Store
    holder: str = field(default_factory=lambda: secrets.token_hex(8))
    seconds: float = SECONDS
    every: float = EVERY
    _held: dict[Key, _Held] = field(default_factory=dict)
    _renewing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def hold(
        self, key: Key, *, signalled: Callable[[str], None] = _no_signal, lost: Callable[[], None] = _nothing
    ) -> AsyncIterator[Lease | None]:
        """`acquire`, and `release` at the end."""
        lease = await self.acquire(key, signalled=signalled, lost=lost)
        try:
            yield lease
        finally:
            if lease is not None:
                await self.release(lease)

    async def acquire(
        self, key: Key, *, signalled: Callable[[str], None] = _no_signal, lost: Callable[[], None] = _nothing
    ) -> Lease | None:
        """A lease of ``key`` until `release`; None while another has it, in this process or elsewhere.

        ``signalled`` gets what `signal` left, once; ``lost`` is called when the lease is another's, or may be, because
        the store was out of reach for as long as it lasts.
        """
        lease = await self.store.claim(key, self.holder, self.seconds)
        if lease is None:
            return None
        self._held[key] = _Held(lease, signalled, lost)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        return lease

    async def release(self, lease: Lease) -> None:
        """Others may have it now."""
        held = self._held.get(lease.key)
        if held is not None and held.lease.fence == lease.fence:
            del self._held[lease.key]
        await self.store.release(lease)

    async def signal(self, key: Key, signal: str) -> bool:
        """Tells whoever has the key's lease; at once where that is this process. False: nobody has it."""
        held = self._held.get(key)
        if held is not None:
            held.signalled(signal)
            return True
        return await self.store.signal(key, signal)

    async def until_free(self, key: Key) -> None:
        """Returns once the lease that the key has now is over; at once where there is none."""
        now = await self.store.lease(key)
        while now is not None and (later := await self.store.lease(key)) is not None and later.fence == now.fence:
            await asyncio.sleep(LOOKS)

    async def aclose(self) -> None:
        """Releases all of them."""
        if self._renewing is not None:
            self._renewing.cancel()
        for held in tuple(self._held.values()):
            await self.release(held.lease)

    async def _renew(self) -> None:
        heard = steady_time()
        while self._held:
            await asyncio.sleep(self.every)
            before = {held.lease.fence: held for held in self._held.values()}
            began = steady_time()
            try:
                renewed = await self.store.renew([held.lease for held in before.values()], self.seconds)
            except StoreError as error:
                log.warning("leases were not renewed: %s", error.code)
                if steady_time() - heard >= self.seconds:
                    self._lose(before)
                continue
            heard = began
            for lease in renewed:
                self._hear(before.pop(lease.fence), lease)
            self._lose(before)

    def _hear(self, held: _Held, lease: Lease) -> None:
        """One that is still this holder's."""
        signal, held.lease = "" if lease.signal == held.lease.signal else lease.signal, lease
        if signal and self._held.get(lease.key) is held:
            held.signalled(signal)

    def _lose(self, gone: dict[int, _Held]) -> None:
        """Those that are not; what was released meanwhile is nobody's concern."""
        for held in gone.values():
            if self._held.get(held.lease.key) is held:
                del self._held[held.lease.key]
                held.lost()
