"""Interactive sessions: the client sends only its new turn, the history is here (LMD-27, resolution X-28)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon.conversation import Message
from antiphon.errors import ConflictError, NotFoundError, Position, RequestError

from .clock import ConfirmedClock, steady_time
from .codec import pack, unpack
from .leases import SECONDS, Leases
from .runs import RunLimits
from .store import Key, Lease, Record, Store, total
from .turns import TurnLimits

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
