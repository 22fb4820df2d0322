"""How much each key may request: requests and tokens a minute, and requests at once.

The accounts are this process's; `SharedRates` makes them agree with those of other servers, once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from antiphon.errors import OverloadedError
from antiphon.http.rules import Rules
from antiphon.store import Key, Leases, Record
from antiphon.store.store import until_written
from antiphon.structs import ready

from .keys import Keyring


class Bucket:
    """``rate`` a minute, which may be taken at once when they were saved up. Times are in seconds."""

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self.taken: int = 0
        """Since it was `settle`d last."""
        self._level = float(rate)
        self._at = now

    def level(self, now: float) -> float:
        self._level = min(self.rate, self._level + (now - self._at) * self.rate / 60)
        self._at = now
        return self._level

    def take(self, amount: int, now: float) -> None:
        """May leave a debt: what an answer costs is known when it is whole."""
        self._level = self.level(now) - amount
        self.taken += amount

    def settle(self, level: float, taken: int, now: float) -> None:
        """``level`` is what all servers left of it, ``taken`` of this one included."""
        self.taken -= taken
        self._level, self._at = level - self.taken, now

    def wait(self, now: float) -> float:
        """Seconds until one may be taken; 0 is now."""
        return max(0.0, (1 - self.level(now)) * 60 / self.rate)

    def reset(self, now: float) -> float:
        """Seconds until it is full again."""
        return (self.rate - self.level(now)) * 60 / self.rate


@dataclass(slots=True)
class Account:
    """The use of one key. None: without limit; ``most`` 0: any number at once, those ``behind`` included.

    ``elsewhere`` run at other servers, ``elsewhere_behind`` behind their answers.
    ``used``: the key sent something since `Rates.used` was last asked.
    """

    requests: Bucket | None
    tokens: Bucket | None
    most: int
    running: int = 0
    behind: int = 0
    elsewhere: int = 0
    elsewhere_behind: int = 0
    used: bool = True

    @property
    def limited(self) -> bool:
        return bool(self.requests or self.tokens or self.most)


class Rates:
    """The accounts of all keys, by name; a server without keys has one for everybody. ``clock`` never goes back."""

    def __init__(self, rules: Rules, keys: Keyring, clock: Callable[[], float]) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock
        self._accounts: dict[str, Account] = {}

    @contextmanager
    def request(self, name: str) -> Iterator[None]:
        """Runs the body as one request of that key. Raises `OverloadedError` (``rate_limit_exceeded``)."""
        account, now = self._account(name), self._clock()
        account.used = True
        for bucket, what in ((account.requests, "requests"), (account.tokens, "tokens")):
            if bucket is not None and (wait := bucket.wait(now)) > 0:
                message = f"This key may use {bucket.rate} {what} a minute."
                raise OverloadedError(message, code="rate_limit_exceeded", retry_after=wait)
        if account.most and account.running + account.elsewhere >= account.most:
            message = f"This key may have {account.most} requests at once."
            raise OverloadedError(message, code="rate_limit_exceeded")
        if account.requests is not None:
            account.requests.take(1, now)
        account.running += 1
        try:
            yield
        finally:
            account.running -= 1
            account.used = True

    @contextmanager
    def behind(self, name: str) -> Iterator[None]:
        """Runs the body as work of that key that outlives its request: `check` counts it as one that runs."""
        account = self._account(name)
        account.behind += 1
        try:
            yield
        finally:
            account.behind -= 1
            account.used = True

    def check(self, name: str) -> None:
        """Whether a request that runs may start work; to look at what runs in the background is always free.

        Raises `OverloadedError` (``rate_limit_exceeded``).
        """
        account = self._account(name)
        behind = account.behind + account.elsewhere_behind
        if account.most and account.running + account.elsewhere + behind > account.most:
            message = f"This key may have {account.most} requests at once, and {behind} run in the background."
            raise OverloadedError(message, code="rate_limit_exceeded")

    def charge(self, name: str, tokens: int) -> None:
        """That key used so many tokens."""
        account = self._account(name)
        account.used = True
        if account.tokens is not None:
            account.tokens.take(tokens, self._clock())

    def headers(self, name: str) -> dict[str, str]:
        """OpenAI's ``x-ratelimit-…`` headers of a key that has limits."""
        account, now = self._account(name), self._clock()
        headers: dict[str, str] = {}
        for bucket, what in ((account.requests, "requests"), (account.tokens, "tokens")):
            if bucket is not None:
                headers[f"x-ratelimit-limit-{what}"] = str(bucket.rate)
                headers[f"x-ratelimit-remaining-{what}"] = str(max(0, int(bucket.level(now))))
                headers[f"x-ratelimit-reset-{what}"] = duration(bucket.reset(now))
        return headers

    def used(self) -> dict[str, Account]:
        """The accounts with limits of keys that run something, or did since this was asked before."""
        found = {}
        for name, account in self._accounts.items():
            if account.limited and (account.used or account.running or account.behind):
                found[name] = account
            else:
                account.elsewhere = account.elsewhere_behind = 0
            account.used = False
        return found

    def settle(self, bucket: Bucket, left: float, taken: int) -> None:
        """``left`` is what all servers left of a bucket, with ``taken`` of this one."""
        bucket.settle(left, taken, self._clock())

    def _account(self, name: str) -> Account:
        """Made anew when the key's limits were changed."""
        key, limits = self._keys.named(name), self._rules.limits
        own = (key.requests_per_minute, key.tokens_per_minute, key.concurrent) if key else (None, None, None)
        usual = (limits.requests_per_minute, limits.tokens_per_minute, limits.concurrent_per_key)
        requests, tokens, most = (usual[i] if value is None else value for i, value in enumerate(own))
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = Account(None, None, most)
        now = self._clock()
        account.requests = _bucket(account.requests, requests, now)
        account.tokens = _bucket(account.tokens, tokens, now)
        account.most = most
        return account


def _bucket(bucket: Bucket | None, rate: int, now: float) -> Bucket | None:
    if bucket is not None and bucket.rate == rate:
        return bucket
    return Bucket(rate, now) if rate else None


def duration(seconds: float) -> str:
    """As OpenAI writes times: ``17ms``, ``1s``, ``6m0s``."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


# What a key used at all servers of one store, on which they agree once a second.

log = logging.getLogger("antiphon.api")

KIND = "rate"
EVERY = 1.0
"""Seconds between two looks at what other servers let in."""
SKEW = 60.0
"""Seconds by which another server's clock may be ahead."""


class Level(msgspec.Struct, frozen=True):
    """The level of a bucket ``at`` a Unix time in seconds."""

    left: float
    at: float

    def now(self, rate: int, now: float) -> Level:
        """The clock that is ahead counts: were each to count its own, they would fill the bucket together."""
        at = now if self.at > now + SKEW else max(self.at, now)
        return Level(min(rate, self.left + max(0.0, at - self.at) * rate / 60), at)

    def full(self, rate: int) -> float:
        """The time at which it is full again, a Unix time in seconds."""
        return self.at + (rate - self.left) * 60 / rate


class Running(msgspec.Struct, frozen=True):
    """Requests of a key that one server runs, as it reported ``at`` a Unix time."""

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
            await self._write(key, record, shared, self._end(account, shared, now))
        self._settle(account.requests, shared.requests, used[0])
        self._settle(account.tokens, shared.tokens, used[1])
        others = [server for holder, server in shared.servers.items() if holder != self.leases.holder]
        account.elsewhere = sum(server.running for server in others)
        account.elsewhere_behind = sum(server.behind for server in others)

    def _end(self, account: Account, shared: Shared, now: float) -> float:
        """From then on an account says nothing: what it owed is paid off, and its servers are gone."""
        buckets = ((account.requests, shared.requests), (account.tokens, shared.tokens))
        full = [level.full(bucket.rate) for bucket, level in buckets if bucket and level]
        return max([now + self.leases.seconds, *full]) + SKEW

    async def _write(self, key: Key, known: Record | None, shared: Shared, expires: float) -> None:
        record = Record(msgspec.json.encode(shared), self.clock(), expires)
        await self.leases.store.put(key, record, expected=known.version if known else 0)

    def _settle(self, bucket: Bucket | None, level: Level | None, taken: int) -> None:
        if bucket is not None and level is not None:
            self.rates.settle(bucket, level.left, taken)

    def _servers(self, known: Shared, account: Account, now: float) -> dict[str, Running]:
        """The servers that run requests of the key. One that reported longer ago than a lease lasts is gone."""
        stale = self.leases.seconds
        servers = {holder: server for holder, server in known.servers.items() if abs(now - server.at) < stale}
        before = servers.pop(self.leases.holder, None)
        if account.running or account.behind:
            fresh = Running(account.running, account.behind, now)
            same = before is not None and (before.running, before.behind) == (fresh.running, fresh.behind)
            servers[self.leases.holder] = before if before and same and now - before.at < stale / 3 else fresh
        return servers


def _read(record: Record | None) -> Shared:
    """Reads an account; starts a damaged one anew (costs at most a minute of quota)."""
    if record is None:
        return Shared()
    try:
        return msgspec.json.decode(record.value, type=ready(Shared))
    except msgspec.DecodeError:
        return Shared()


def _left(bucket: Bucket | None, known: Level | None, now: float) -> Level | None:
    """The level of a bucket with what was taken here; one that nobody used before was full."""
    if bucket is None:
        return None
    level = (known or Level(float(bucket.rate), now)).now(bucket.rate, now)
    return Level(level.left - bucket.taken, level.at)
