"""Interactive sessions: the client sends only its new turn, the history is here (LMD-27, resolution X-28)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from antiphon.conversation import Message
from antiphon.errors import ConflictError, NotFoundError, Position, RequestError

from .codec import pack, unpack
from .store import Key, Record, Store, total

KIND = "session"
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """``lifetime`` seconds after the last turn; ``bytes`` of one history."""

    lifetime: float = 7 * 24 * 3600.0
    bytes: int = 16 << 20


@dataclass(slots=True)
class OpenSession:
    """One turn of a session: its history so far, and the way to add to it."""

    key: Key
    messages: tuple[Message, ...]
    new: bool
    _sessions: Sessions

    @property
    def affinity(self) -> str:
        """What keeps the session on its own cache in the engine."""
        return f"{self.key.owner}/{self.key.name}"

    async def commit(self, messages: Sequence[Message]) -> None:
        """Adds a turn's messages, all or none; when this returned, a crash does not lose them."""
        await self._sessions.append(self.key, messages)
        self.messages = (*self.messages, *messages)


@dataclass(slots=True)
class Sessions:
    """Histories in a store; one active request a session in this process. ``clock`` gives Unix time in seconds."""

    store: Store
    clock: Callable[[], float]
    limits: SessionLimits = field(default_factory=SessionLimits)
    _active: set[Key] = field(default_factory=set)

    @asynccontextmanager
    async def turn(self, name: str, *, owner: str = "", create: bool = True) -> AsyncIterator[OpenSession]:
        """The session, for one request alone.

        Raises `ConflictError` while another request has it, `NotFoundError` for one that is not there and must be,
        `RequestError` for a name that cannot be one.
        """
        key = self._key(name, owner)
        if key in self._active:
            raise ConflictError(
                f"the session {name!r} has a request in progress",
                code="session_busy",
                position=Position(path="session_id"),
                hint="Wait for it, or cancel it.",
            )
        self._active.add(key)
        try:
            known = await self.store.get(key)
            if known is not None and known.expires is not None and known.expires <= self.clock():
                await self.store.delete(key)
                known = None
            if known is None and not create:
                raise _no_session(name)
            entries = await self.store.entries(key) if known else []
            yield OpenSession(key, tuple(map(unpack, entries)), known is None, self)
        finally:
            self._active.discard(key)

    async def append(self, key: Key, messages: Sequence[Message]) -> None:
        packed = [pack(message) for message in messages]
        size = total(await self.store.entries(key)) + total(packed)
        if size > self.limits.bytes:
            raise RequestError(
                f"the session {key.name!r} would hold {size:,} bytes; at most {self.limits.bytes:,} are kept",
                code="session_too_long",
                position=Position(path="session_id"),
                hint="Begin a new session.",
            )
        now = self.clock()
        await self.store.put(key, Record(b"", now, now + self.limits.lifetime), *packed)

    async def end(self, name: str, *, owner: str = "") -> bool:
        """Forgets a session, whether it was there or not; True when it was."""
        return await self.store.delete(self._key(name, owner))

    def _key(self, name: str, owner: str) -> Key:
        if not _NAME.fullmatch(name):
            raise RequestError(
                "a session's name has 1 to 128 letters, digits or _ . : -",
                code="invalid_value",
                position=Position(path="session_id"),
            )
        return Key(KIND, owner, name)


def _no_session(name: str) -> NotFoundError:
    return NotFoundError(
        f"there is no session {name!r}", code="session_not_found", position=Position(path="session_id")
    )
