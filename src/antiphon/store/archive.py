"""Records for owners, each for its owner alone, until it expires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from antiphon.errors import ConflictError, Position, StoreError
from antiphon.structs import ready

from . import Key, Leases, Record, Store
from .clock import ConfirmedClock, steady_time
from .leases import Exclusive, exclusive

DAY = 24 * 3600.0
SWEEP = 3600.0
MUCH = 2**18
"""Characters of items that take long to write or to read."""

Stored = TypeVar("Stored")
Result = TypeVar("Result")


@dataclass(slots=True)
class Archive:
    """``clock`` gives Unix time in seconds, ``steady`` seconds that nobody can set (`ConfirmedClock`).

    ``leases`` are this process's, None: those of the archive alone. What is stored expires after ``lifetime`` seconds.

    Another owner's things are not there: every read raises `NotFoundError` for them, as for what never was.
    """

    store: Store
    clock: Callable[[], float]
    lifetime: float = 30 * DAY
    steady: Callable[[], float] = steady_time
    leases: Leases | None = None
    _leases: Leases = field(init=False)
    _swept: float = 0.0
    confirmed: ConfirmedClock = field(init=False)
    """By which all that is stored expires."""

    def __post_init__(self) -> None:
        self._leases = self.leases or Leases(self.store)
        self.confirmed = ConfirmedClock(self.clock, self.steady)

    @asynccontextmanager
    async def alone(self, owner: str, id: str) -> AsyncIterator[Exclusive]:
        """Only one request at a time continues a conversation, of all servers. Raises `ConflictError` for a second.

        Without an ``id`` there is nothing to be alone with.
        """
        if not id:
            yield Exclusive()
            return
        async with exclusive(self._leases, Key("conversation", owner, id)) as alone:
            if alone.lease is None:
                raise ConflictError(
                    f"Another response goes on with the conversation {id!r}.",
                    code="conversation_locked",
                    position=Position(path="conversation"),
                    hint="Wait for it, or cancel it.",
                )
            yield alone

    async def sweep(self) -> None:
        """Deletes what expired, at most once in ``SWEEP`` seconds."""
        now = self.steady()
        if self.confirmed.settled and now - self._swept >= SWEEP:
            self._swept = now
            await self.store.expire(self.confirmed())

    def expired(self, record: Record, lifetime: float) -> bool:
        """Whether a record that lives so long expired, by a clock that does not jump."""
        return self.confirmed.expired(record.expires, lifetime)

    async def record(self, key: Key) -> Record | None:
        """The record; None where it expired, too: the sweep deletes it."""
        record = await self.store.get(key)
        return None if record is None or self.expired(record, self.lifetime) else record


@contextmanager
def even_damaged() -> Iterator[None]:
    """Counts an unreadable record as present, so that it can be deleted."""
    try:
        yield
    except StoreError as error:
        if error.code != "store_corrupt":
            raise


def from_json(stored: bytes, kind: type[Stored]) -> Stored:
    """Reads a value that was stored as JSON. Raises `StoreError` where it cannot be read."""
    try:
        return msgspec.json.decode(stored, type=ready(kind))
    except msgspec.DecodeError as error:
        raise StoreError("What is stored here cannot be read.", code="store_corrupt") from error


async def off_loop(work: Callable[[], Result], size: int) -> Result:
    """The result of ``work`` on ``size`` characters; of many, beside the event loop."""
    return work() if size <= MUCH else await asyncio.to_thread(work)
