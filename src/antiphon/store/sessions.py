"""Interactive sessions: the client sends only its new turn, the history is here (LMD-27, resolution X-28)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon.conversation import Message
from antiphon.errors import ConflictError, NotFoundError, Position, RequestError

from .clock import ConfirmedClock, steady_time
from .codec import pack, unpack
from .store import Key, Record, Store, total
from .turns import TurnLimits

KIND = "session"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """A session expires ``lifetime`` seconds after its last turn; expired ones are deleted every ``sweep`` seconds.

    ``bytes`` is the largest size of one history. ``turns`` are the limits of turns that wait for results of calls."""

    lifetime: float = 7 * 24 * 3600.0
    bytes: int = 16 << 20
    sweep: float = 60.0
    turns: TurnLimits = field(default_factory=TurnLimits)


@dataclass(slots=True)
class OpenSession:
    """One turn of a session: its history so far, of ``size`` bytes in the store, and `commit`, which adds to it."""

    key: Key
    messages: tuple[Message, ...]
    size: int
    _sessions: Sessions

    @property
    def new(self) -> bool:
        return not self.size

    @property
    def affinity(self) -> str:
        """The key by which the engine finds the session's own prompt cache again."""
        return f"{self.key.owner}/{self.key.name}"

    async def commit(self, messages: Sequence[Message]) -> None:
        """Append a turn's messages in one transaction; once this returned, a crash does not lose them.

        Raises `RequestError` (``session_too_long``) when the history would exceed its size limit; it is unchanged then.
        """
        packed = [pack(message) for message in messages]
        await self._sessions.append(self, packed)
        self.messages = (*self.messages, *messages)
        self.size += total(packed)

    async def end(self) -> None:
        """Delete the session."""
        await self._sessions.delete(self)


@dataclass(slots=True)
class _Active:
    """The request that a session is locked by. While ``committing`` it can no longer be cancelled."""

    stop: Callable[[], None]
    committing: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Sessions:
    """Sessions in a store, each locked by at most one request of this process.

    ``clock`` gives Unix time in seconds, ``steady`` seconds that nobody can set: see `ConfirmedClock`.
    """

    store: Store
    clock: Callable[[], float]
    limits: SessionLimits = field(default_factory=SessionLimits)
    steady: Callable[[], float] = steady_time
    _active: dict[Key, _Active] = field(default_factory=dict)
    _confirmed: ConfirmedClock = field(init=False)

    def __post_init__(self) -> None:
        self._confirmed = ConfirmedClock(self.clock, self.steady)

    @asynccontextmanager
    async def turn(
        self, name: str, *, owner: str = "", start: bool | None = None, stop: Callable[[], None] = lambda: None
    ) -> AsyncIterator[OpenSession]:
        """The session, locked for one request; `cancel` calls ``stop`` to end that request.

        ``start`` (LMD-24): True deletes the history and begins anew, False continues a session that must exist, None
        continues or begins. Raises `ConflictError` while another request has the lock, `NotFoundError`, and
        `RequestError` for a malformed name.
        """
        key = self._key(name, owner)
        if key in self._active:
            raise ConflictError(
                f"the session {name!r} has a request in progress",
                code="session_busy",
                position=Position(path="session_id"),
                hint="Wait for it, or cancel it.",
            )
        active = self._active[key] = _Active(stop)
        try:
            entries = await self._entries(key, start=start)
            yield OpenSession(key, tuple(map(unpack, entries)), total(entries), self)
        finally:
            del self._active[key]
            active.over.set()

    async def cancel(self, name: str, *, owner: str = "") -> bool:
        """Cancel the session's request, if it has one, and wait for its end; its turn is not stored.

        False where there is no request, and for one that is committing its turn already, which is left to end.
        """
        active = self._active.get(self._key(name, owner))
        if active is None:
            return False
        stopped = not active.committing
        if stopped:
            active.stop()
        await active.over.wait()
        return stopped

    async def append(self, session: OpenSession, packed: Sequence[bytes]) -> None:
        if session.size + total(packed) > self.limits.bytes:
            raise RequestError(
                f"the session {session.key.name!r} would hold more than {self.limits.bytes:,} bytes",
                code="session_too_long",
                position=Position(path="session_id"),
                hint="Begin a new session.",
            )
        self._active[session.key].committing = True
        now = self.clock()
        await self.store.put(session.key, Record(b"", now, now + self.limits.lifetime), *packed)

    async def delete(self, session: OpenSession) -> None:
        self._active[session.key].committing = True
        await self.store.delete(session.key)

    async def sweep(self) -> int:
        """Delete the records that expired, and return how many; none until the clock has `settled`."""
        return await self.store.expire(self._confirmed()) if self._confirmed.settled else 0

    async def _entries(self, key: Key, *, start: bool | None) -> list[bytes]:
        if start:  # Of a damaged history too.
            await self.store.delete(key)
            return []
        known = await self.store.get(key)
        if known is not None and self._confirmed.expired(known.expires, self.limits.lifetime):
            await self.store.delete(key)
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
