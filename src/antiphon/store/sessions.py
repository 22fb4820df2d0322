"""Interactive sessions: the client sends only its new turn, the history is here (LMD-27, resolution X-28)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from antiphon.conversation import Message
from antiphon.errors import ConflictError, NotFoundError, Position, RequestError, StoreError

from .clock import ConfirmedClock, steady_time
from .codec import pack, unpack
from .leases import SECONDS, Leases
from .runs import RunLimits
from .store import Delete, Key, Lease, Record, Store, Write, total, unless_changed

# Turns that wait for the results of their calls: all that the model wrote in them, for clients who see less of it.

TURN_KIND = "turn"
_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[bytes] | str] = msgspec.msgpack.Decoder(list[bytes] | str)
"""The messages of a turn, or the name under which they are."""


class TurnLimits(msgspec.Struct, frozen=True):
    """A turn expires ``lifetime`` seconds after it was stored, or last found by then; 0: none is stored.

    ``bytes`` is the largest size of one turn, and ``count`` how many of one owner each server stores, the latest: so
    many servers that share a store, so many times ``count`` there are.
    """

    lifetime: float = 3600.0
    bytes: int = 256 << 10
    count: int = 1000


_Names = tuple[str, ...]
MOST_TOGETHER = 16


@dataclass(slots=True)
class Together:
    """Writes what comes for an owner in one moment as one transaction, which costs more than what is in it.

    `MOST_TOGETHER` writes are enough for one: a server of the store may do them one after the other.
    """

    store: Store
    _waiting: dict[str, tuple[list[Write | Delete], asyncio.Task[None]]] = field(default_factory=dict)

    async def put_all(self, owner: str, writes: Sequence[Write | Delete]) -> None:
        """Returns, or raises `StoreError`, once the transaction is over."""
        if owner not in self._waiting or len(self._waiting[owner][0]) >= MOST_TOGETHER:
            batch: list[Write | Delete] = []
            self._waiting[owner] = batch, asyncio.create_task(self._write(owner, batch))
        waiting, written = self._waiting[owner]
        waiting += writes
        await asyncio.shield(written)

    async def _write(self, owner: str, batch: list[Write | Delete]) -> None:
        if self._waiting[owner][0] is batch:
            del self._waiting[owner]
        await self.store.put_all(*batch)


@dataclass(slots=True)
class UnfinishedTurns:
    """Turns by their owner and a name; what is a name is for the wire to say.

    ``clock`` gives Unix time in seconds, ``steady`` seconds that nobody can set: see `ConfirmedClock`. ``kind`` is that
    of the records, which are written with what else is written ``together``.
    """

    store: Store
    clock: Callable[[], float]
    limits: TurnLimits = field(default_factory=TurnLimits)
    steady: Callable[[], float] = steady_time
    kind: str = TURN_KIND
    together: Together | None = None
    _stored: dict[str, dict[_Names, float]] = field(default_factory=dict)
    """By owner, what this process stored: the names of each turn, and when it expires, the oldest first."""
    _confirmed: ConfirmedClock = field(init=False)
    _together: Together = field(init=False)

    def __post_init__(self) -> None:
        self._confirmed = ConfirmedClock(self.clock, self.steady)
        self._together = self.together or Together(self.store)

    async def put(self, owner: str, names: Sequence[str], messages: Sequence[Message]) -> bool:
        """Store a turn under each of the names, the first of which no other has; False where it is too large or off.

        Once this returned, every server that shares the store finds it. Raises `StoreError`.
        """
        return await self.put_packed(owner, names, [pack(message) for message in messages])

    async def put_packed(self, owner: str, names: Sequence[str], packed: Sequence[bytes]) -> bool:
        """The same for what stands for the messages."""
        if self.limits.lifetime <= 0 or total(packed) > self.limits.bytes:
            return False
        now = self.clock()
        values = {names[0]: _ENCODER.encode(packed)} | dict.fromkeys(names[1:], _ENCODER.encode(names[0]))
        expires = now + self.limits.lifetime
        writes = [Write(Key(self.kind, owner, name), Record(value, now, expires)) for name, value in values.items()]
        await self._together.put_all(owner, [*self._room(owner, now), *writes])
        stored = self._stored.setdefault(owner, {})
        stored.pop(tuple(names), None)
        stored[tuple(names)] = expires
        return True

    async def find(self, owner: str, names: Sequence[str]) -> tuple[Message, ...]:
        """The turn under the first of the names that has one; nothing where none has. Raises `StoreError`."""
        return tuple(map(unpack, await self.find_packed(owner, names)))

    async def find_packed(self, owner: str, names: Sequence[str]) -> Sequence[bytes]:
        """The same, as it was packed."""
        for name in names:
            found = await self._value(owner, name)
            if isinstance(found, str):
                found = await self._value(owner, found)
            if isinstance(found, list):
                return found
        return ()

    async def _value(self, owner: str, name: str) -> list[bytes] | str | None:
        key = Key(self.kind, owner, name)
        record = await self.store.get(key)
        if record is None or self._confirmed.expired(record.expires, self.limits.lifetime):
            return None
        await self._prolong(key, record)
        try:
            return _DECODER.decode(record.value)
        except msgspec.DecodeError as error:
            raise StoreError("A stored turn cannot be read.", code="store_corrupt") from error

    async def _prolong(self, key: Key, record: Record) -> None:
        """Prolongs a record that a turn goes on with: it is needed until that is over, however many calls it has."""
        now = self.clock()
        if record.expires is not None and record.expires - now < self.limits.lifetime / 2:
            longer = Record(record.value, record.created, now + self.limits.lifetime)
            await unless_changed(self.store.put(key, longer, expected=record.version))

    def _room(self, owner: str, now: float) -> Iterator[Delete]:
        """Deletes that make room for one more turn of this owner. A further name stays where a later turn has it."""
        stored = self._stored.get(owner, {})
        while stored and next(iter(stored.values())) <= now:  # The sweep deletes these, unless they were prolonged.
            del stored[next(iter(stored))]
        while len(stored) >= max(1, self.limits.count):
            first, *others = names = next(iter(stored))
            del stored[names]
            yield from (Delete(Key(self.kind, owner, name), _ENCODER.encode(first)) for name in others)
            yield Delete(Key(self.kind, owner, first))


KIND = "session"
CANCEL = "cancel"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """A session expires ``lifetime`` seconds after its last turn; expired ones are deleted every ``sweep`` seconds.

    ``bytes`` is the largest size of one history. ``turns`` are the limits of turns that wait for results of calls.
    ``lease``: seconds after which a server of which nothing is heard has lost what it works on to the others.
    ``runs``: which answers are recorded while they are made."""

    lifetime: float = 7 * 24 * 3600.0
    bytes: int = 16 << 20
    sweep: float = 60.0
    lease: float = SECONDS
    turns: TurnLimits = field(default_factory=TurnLimits)
    runs: RunLimits = field(default_factory=RunLimits)


@dataclass(slots=True)
class _Active:
    """The request that has a session. While ``committing`` it can no longer be cancelled."""

    stop: Callable[[], None]
    committing: bool = False

    def signal(self, signal: str) -> None:
        if not self.committing:
            self.stop()


@dataclass(slots=True)
class OpenSession:
    """One turn of a session: its history so far, of ``size`` bytes in the store, and `commit`, which adds to it."""

    lease: Lease
    messages: tuple[Message, ...]
    size: int
    _sessions: Sessions
    _active: _Active

    @property
    def key(self) -> Key:
        return self.lease.key

    @property
    def new(self) -> bool:
        return not self.size

    @property
    def affinity(self) -> str:
        """The key by which the engine finds the session's own prompt cache again."""
        return f"{self.key.owner}/{self.key.name}"

    async def commit(self, messages: Sequence[Message]) -> None:
        """Append a turn's messages in one transaction; once this returned, a crash does not lose them.

        Raises `RequestError` (``session_too_long``) when the history would exceed its size limit, and `ConflictError`
        (``lease_lost``) where another server took the session over; the history is unchanged then.
        """
        packed = [pack(message) for message in messages]
        self._active.committing = True
        await self._sessions.append(self, packed)
        self.messages = (*self.messages, *messages)
        self.size += total(packed)

    async def end(self) -> None:
        """Delete the session."""
        self._active.committing = True
        await self._sessions.delete(self)


def _nothing() -> None: ...


@dataclass(slots=True)
class Sessions:
    """Sessions in a store, each locked by at most one request of all servers that share it.

    ``clock`` gives Unix time in seconds, ``steady`` seconds that nobody can set: see `ConfirmedClock`. ``leases`` are
    this process's, None: those of sessions alone.
    """

    store: Store
    clock: Callable[[], float]
    limits: SessionLimits = field(default_factory=SessionLimits)
    steady: Callable[[], float] = steady_time
    leases: Leases | None = None
    _leases: Leases = field(init=False)
    _confirmed: ConfirmedClock = field(init=False)

    def __post_init__(self) -> None:
        self._leases = self.leases or Leases(self.store, seconds=self.limits.lease)
        self._confirmed = ConfirmedClock(self.clock, self.steady)

    @asynccontextmanager
    async def turn(
        self,
        name: str,
        *,
        owner: str = "",
        start: bool | None = None,
        stop: Callable[[], None] = _nothing,
        lost: Callable[[], None] = _nothing,
    ) -> AsyncIterator[OpenSession]:
        """The session, locked for one request; `cancel` calls ``stop`` to end that request.

        ``lost`` is called where another server took the session over, because nothing was heard of this one.

        ``start`` (LMD-24): True deletes the history and begins anew, False continues a session that must exist, None
        continues or begins. Raises `ConflictError` while another request has the lock, `NotFoundError`, and
        `RequestError` for a malformed name.
        """
        key, active = self._key(name, owner), _Active(stop)
        async with self._leases.hold(key, signalled=active.signal, lost=lost) as lease:
            if lease is None:
                raise ConflictError(
                    f"the session {name!r} has a request in progress",
                    code="session_busy",
                    position=Position(path="session_id"),
                    hint="Wait for it, or cancel it.",
                )
            entries = await self._entries(lease, start=start)
            yield OpenSession(lease, tuple(map(unpack, entries)), total(entries), self, active)

    async def cancel(self, name: str, *, owner: str = "") -> bool:
        """Cancel the session's request, wherever it runs, and wait for its end; its turn is not stored.

        One that is committing its turn already is left to end. False: there is no request.
        """
        key = self._key(name, owner)
        running = await self._leases.signal(key, CANCEL)
        if running:
            await self._leases.until_free(key)
        return running

    async def append(self, session: OpenSession, packed: Sequence[bytes]) -> None:
        if session.size + total(packed) > self.limits.bytes:
            raise RequestError(
                f"the session {session.key.name!r} would hold more than {self.limits.bytes:,} bytes",
                code="session_too_long",
                position=Position(path="session_id"),
                hint="Begin a new session.",
            )
        now = self.clock()
        record = Record(b"", now, now + self.limits.lifetime)
        await self.store.put(session.key, record, *packed, lease=session.lease)

    async def delete(self, session: OpenSession) -> None:
        await self.store.delete(session.key, lease=session.lease)

    async def sweep(self) -> int:
        """Delete the records that expired, and return how many; none until the clock has `settled`."""
        return await self.store.expire(self._confirmed()) if self._confirmed.settled else 0

    async def _entries(self, lease: Lease, *, start: bool | None) -> list[bytes]:
        key = lease.key
        if start:  # Of a damaged history too.
            await self.store.delete(key, lease=lease)
            return []
        known = await self.store.get(key)
        if known is not None and self._confirmed.expired(known.expires, self.limits.lifetime):
            await self.store.delete(key, lease=lease)
            known = None
        if known is None and start is False:
            raise NotFoundError(
                f"there is no session {key.name!r}", code="session_not_found", position=Position(path="session_id")
            )
        return await self.store.entries(key) if known else []

    def _key(self, name: str, owner: str) -> Key:
        if not _NAME.fullmatch(name):
            raise RequestError(
                "a session's name has 1 to 128 letters, digits or _ . : -",
                code="invalid_value",
                position=Position(path="session_id"),
            )
        return Key(KIND, owner, name)
