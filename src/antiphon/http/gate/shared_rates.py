"""What a key used at all servers of one store, on which they agree once a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from antiphon.store import Key, Leases, Record
from antiphon.store.store import until_written
from antiphon.structs import ready

from .rates import Account, Bucket, Rates

log = logging.getLogger("antiphon.api")

KIND = "rate"
EVERY = 1.0
"""Seconds between two looks at what other servers let in."""
SKEW = 60.0
"""Seconds by which another server's clock may be ahead."""
_LIFETIME = 3600.0


class Level(msgspec.Struct, frozen=True):
    """What was left of a bucket ``at`` a Unix time in seconds."""

    left: float
    at: float

    def now(self, rate: int, now: float) -> Level:
        """The clock that is ahead counts: were each to count its own, they would fill the bucket together."""
        at = now if self.at > now + SKEW else max(self.at, now)
        return Level(min(rate, self.left + max(0.0, at - self.at) * rate / 60), at)


class Running(msgspec.Struct, frozen=True):
    """What one server runs of a key, as it said ``at`` a Unix time."""

    running: int
    behind: int
    at: float


class Shared(msgspec.Struct, frozen=True):
    """The account of a key as it is stored; ``servers`` by the holder of their leases."""

    requests: Level | None = None
    tokens: Level | None = None
    servers: dict[str, Running] = {}


@dataclass(slots=True)
class SharedRates:
    """Between two looks a server lets in what was left at the last one, whatever the others let in meanwhile.

    So ``n`` servers let in at most ``n - 1`` times too much of what one may use within `EVERY` seconds, and that only
    once: it is owed then, and paid off before anything more is let in. ``clock`` gives Unix time in seconds.
    """

    rates: Rates
    leases: Leases
    clock: Callable[[], float]
    _failed: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Agrees with the other servers until the block is left."""
        agreeing = asyncio.ensure_future(self._agree_always())
        try:
            yield
        finally:
            agreeing.cancel()
            with suppress(asyncio.CancelledError):
                await agreeing

    async def _agree_always(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.agree()
            except Exception as error:  # noqa: BLE001 - whatever the store is, requests go on
                if not self._failed:
                    log.warning("limits of keys are this server's alone until the store can be used: %r", error)
                self._failed = True
            else:
                self._failed = False

    async def agree(self) -> None:
        """Tells the others what was used here, and learns what they let in. Raises `StoreError`."""
        for name, account in self.rates.used().items():
            await until_written(partial(self._agree, name, account))

    async def _agree(self, name: str, account: Account) -> None:
        key, now = Key(KIND, name, ""), self.clock()
        record = await self.leases.store.get(key)
        known = _read(record)
        used = [bucket.taken if bucket else 0 for bucket in (account.requests, account.tokens)]
        shared = Shared(
            _left(account.requests, known.requests, now),
            _left(account.tokens, known.tokens, now),
            self._servers(known, account, now),
        )
        if any(used) or shared.servers != known.servers:
            await self._write(key, record, shared, now)
        self._settle(account.requests, shared.requests, used[0])
        self._settle(account.tokens, shared.tokens, used[1])
        others = [server for holder, server in shared.servers.items() if holder != self.leases.holder]
        account.elsewhere = sum(server.running for server in others)
        account.elsewhere_behind = sum(server.behind for server in others)

    async def _write(self, key: Key, known: Record | None, shared: Shared, now: float) -> None:
        record = Record(msgspec.json.encode(shared), now, now + _LIFETIME)
        await self.leases.store.put(key, record, expected=known.version if known else 0)

    def _settle(self, bucket: Bucket | None, level: Level | None, taken: int) -> None:
        if bucket is not None and level is not None:
            self.rates.settle(bucket, level.left, taken)

    def _servers(self, known: Shared, account: Account, now: float) -> dict[str, Running]:
        """Those that run something of the key. One that said so longer ago than a lease lasts is not there any more."""
        stale = self.leases.seconds
        servers = {holder: server for holder, server in known.servers.items() if abs(now - server.at) < stale}
        before = servers.pop(self.leases.holder, None)
        if account.running or account.behind:
            fresh = Running(account.running, account.behind, now)
            same = before is not None and (before.running, before.behind) == (fresh.running, fresh.behind)
            servers[self.leases.holder] = before if before and same and now - before.at < stale / 3 else fresh
        return servers


def _read(record: Record | None) -> Shared:
    """What is damaged is begun anew: it is worth a minute of what a key may use."""
    if record is None:
        return Shared()
    try:
        return msgspec.json.decode(record.value, type=ready(Shared))
    except msgspec.DecodeError:
        return Shared()


def _left(bucket: Bucket | None, known: Level | None, now: float) -> Level | None:
    """What is left of a bucket with what was taken here; one that nobody used before was full."""
    if bucket is None:
        return None
    level = (known or Level(float(bucket.rate), now)).now(bucket.rate, now)
    return Level(level.left - bucket.taken, level.at)
