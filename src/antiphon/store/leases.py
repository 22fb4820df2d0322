"""The leases that one process has, renewed while it works: what it works on, no other process works on."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.errors import StoreError

from .clock import steady_time
from .store import Key, Lease, Store

# Names of the processes that hold leases, by which others of the same machine see whether one is still there.

_PROCESSES = Path("/proc")
_DEAD = frozenset({"Z", "X"})
"""States of a process that has ended, as the system writes them, although its parent has not asked how."""


def process_name() -> str:
    """A name that no other process has; on Linux it says which process of which namespace this is."""
    token = secrets.token_hex(8)
    begun, space = _begun(os.getpid()), _namespace()
    return token if begun is None or not space else f"{os.getpid()}/{begun}/{space}/{token}"


def is_gone(holder: str) -> bool:
    """Whether that process has ended; False where that cannot be seen from here, as of another container's."""
    match holder.split("/"):
        case [pid, begun, space, _] if space == _namespace() and pid.isdecimal():
            return not _may_be_there(int(pid)) or _begun(int(pid)) not in (begun, None)
    return False


def _namespace() -> str:
    """Which processes are seen here; "" where the system does not say."""
    try:
        return os.readlink("/proc/self/ns/pid") if sys.platform == "linux" else ""
    except OSError:
        return ""


def _may_be_there(pid: int) -> bool:
    """False where the system says that there is no such process; another user's may be hidden otherwise."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _begun(pid: int) -> str | None:
    """When a process began, by the system's ticks, "" for one that has ended; None where that cannot be read."""
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return "" if fields[0] in _DEAD else fields[19]


log = logging.getLogger("antiphon.store")

SECONDS = 15.0
"""How long a lease lasts of which nothing is heard."""
EVERY = 1.0
"""Seconds between two renewals, and so until a signal is read."""
LOOKS, LONGEST_LOOK = 0.05, 0.5
"""Seconds between the first two looks at whether another's lease has ended, and later, when it has not."""


def _nothing() -> None: ...


def _no_signal(signal: str) -> None: ...


@dataclass(slots=True)
class _Held:
    lease: Lease
    signalled: Callable[[str], None]
    lost: Callable[[], None]
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Leases:
    """The leases of one holder, which is this process. They are renewed together, as long as there are any."""

    store: Store
    holder: str = field(default_factory=process_name)
    seconds: float = SECONDS
    every: float = EVERY
    _held: dict[Key, _Held] = field(default_factory=dict)
    _renewing: asyncio.Task[None] | None = None
    _ending: set[asyncio.Task[None]] = field(default_factory=set)

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
        claiming = asyncio.ensure_future(self.store.claim(key, self.holder, self.seconds))
        try:
            lease = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            self._let_go(self._given_back(claiming))
            raise
        if lease is None:
            return None
        self._lose(self._held.get(key))  # Its time was over: nobody has renewed it, and now nobody will.
        self._held[key] = _Held(lease, signalled, lost)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._renew())
        return lease

    async def release(self, lease: Lease) -> None:
        """Others may have it now; where the store is out of reach, in as long as the lease lasts."""
        held = self._held.get(lease.key)
        if held is not None and held.lease.fence == lease.fence:
            del self._held[lease.key]
        if not self._held:
            self._stop()
        ending = self._let_go(self._released(lease))
        if held is not None and held.lease.fence == lease.fence:
            ending.add_done_callback(lambda _: held.over.set())
        await asyncio.shield(ending)

    async def abandon(self, lease: Lease) -> None:
        """Ends the lease as if this process had died: others find what it was for at once, and go on with it."""
        held = self._held.get(lease.key)
        if held is not None and held.lease.fence == lease.fence:
            del self._held[lease.key]
            held.over.set()
        if not self._held:
            self._stop()
        await self.store.renew([lease], 0.0)

    async def signal(self, key: Key, signal: str) -> bool:
        """Tells whoever has the key's lease; at once where that is this process. False: nobody has it."""
        held = self._held.get(key)
        if held is not None:
            held.signalled(signal)
            return True
        return await self.store.signal(key, signal)

    async def until_free(self, key: Key) -> None:
        """Returns once the lease that the key has now is over; at once where there is none."""
        if (held := self._held.get(key)) is not None:
            await held.over.wait()
            return
        known = await self.store.lease(key)
        pause = LOOKS
        while known is not None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
            later = await self.store.lease(key)
            known = later if later is not None and later.fence == known.fence else None

    async def aclose(self) -> None:
        """Releases all of them."""
        for held in tuple(self._held.values()):
            await self.release(held.lease)
        while self._ending:
            await asyncio.wait(self._ending)

    def _stop(self) -> None:
        renewing, self._renewing = self._renewing, None
        if renewing is not None:
            renewing.cancel()

    def _let_go(self, ending: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Ends a lease even where the request that had it is cancelled."""
        task = asyncio.ensure_future(ending)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _released(self, lease: Lease) -> None:
        try:
            await self.store.release(lease)
        except StoreError as error:
            log.warning("a lease was not released, and ends by itself: %s", error.code)

    async def _given_back(self, claiming: asyncio.Future[Lease | None]) -> None:
        with suppress(StoreError):
            lease = await claiming
            if lease is not None:
                await self._released(lease)

    async def _renew(self) -> None:
        """Until it is cancelled, when the last is released. Whatever ends it otherwise, none is thought to be held."""
        try:
            heard = steady_time()
            while self._held:
                await asyncio.sleep(self.every)
                heard = await self._renewed(heard)
        except Exception:
            log.exception("leases are not renewed any more")
            self._lose(*self._held.values())
            raise

    async def _renewed(self, heard: float) -> float:
        """``heard``: when the store was last asked and answered; when it was now."""
        before = {held.lease.fence: held for held in self._held.values()}
        began = steady_time()
        try:
            async with asyncio.timeout(max(0.0, heard + self.seconds - began)):
                renewed = await self.store.renew([held.lease for held in before.values()], self.seconds)
        except (StoreError, TimeoutError) as error:
            log.warning("leases were not renewed: %s", getattr(error, "code", "no answer"))
            if steady_time() - heard >= self.seconds:
                self._lose(*before.values())
            return heard
        for lease in renewed:
            held = before.pop(lease.fence)
            signal, held.lease = "" if lease.signal == held.lease.signal else lease.signal, lease
            if signal and self._held.get(lease.key) is held:
                held.signalled(signal)
        self._lose(*before.values())
        return began

    def _lose(self, *gone: _Held | None) -> None:
        """Ends leases that are another's now; one that was released meanwhile is nobody's concern."""
        for held in gone:
            if held is not None and self._held.get(held.lease.key) is held:
                del self._held[held.lease.key]
                held.over.set()
                held.lost()


# What one request works on alone, of all servers that share a store.


@dataclass(slots=True)
class Exclusive:
    """``lease`` None: there is nothing that it has to itself.

    ``lost`` is called when another server took it over; whoever works on it may set it.
    """

    lease: Lease | None = None
    lost: Callable[[], None] = _nothing


@asynccontextmanager
async def exclusive(leases: Leases, key: Key) -> AsyncIterator[Exclusive]:
    """`Leases.hold`, for work of which it is known only later how it is stopped."""
    claimed = Exclusive()
    async with leases.hold(key, lost=lambda: claimed.lost()) as claimed.lease:
        yield claimed


@asynccontextmanager
async def turn(leases: Leases, key: Key) -> AsyncIterator[Lease]:
    """Runs the body with the key's lease, once those who came before are through. For what is over in a moment."""
    while True:
        async with leases.hold(key) as lease:
            if lease is not None:
                yield lease
                return
        await leases.until_free(key)
