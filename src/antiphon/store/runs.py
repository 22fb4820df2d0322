"""Published events of an answer in the making, stored before anybody gets them, and what it takes to go on with it.

The record of a run has its head as its first entry, and then a batch for each time that something was published. One
server at a time makes it, under a lease; when that ends, another goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import msgspec

from antiphon.errors import StoreError
from antiphon.structs import ready

from .clock import ConfirmedClock, steady_time
from .memory import MemoryStore
from .store import Key, Lease, Record, Store, Write

KIND = "run"
Recorded = Literal["streams", "background", "none"]
"""Which answers are recorded: those that are streamed and those in the background, the latter alone, or none."""
Form = TypeVar("Form")


class RunLimits(msgspec.Struct, frozen=True):
    """``lifetime``: seconds for which the events of an answer are stored after its last."""

    recorded: Recorded = "streams"
    lifetime: float = 3600.0


class RunState(msgspec.Struct, frozen=True):
    """``attempts``: how often it was taken over since something was published last."""

    status: Literal["queued", "in_progress", "over"]
    attempts: int = 0


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """``events`` as they are sent, and ``inputs``, on which they depend. ``over``: none will come after these."""

    events: list[bytes]
    inputs: bytes = b""
    over: bool = False


@dataclass(slots=True)
class StoredRuns:
    """The runs in a store. ``clock`` gives Unix time in seconds, ``steady`` is `ConfirmedClock`'s."""

    store: Store
    clock: Callable[[], float]
    limits: RunLimits = field(default_factory=RunLimits)
    steady: Callable[[], float] = steady_time
    _confirmed: ConfirmedClock = field(init=False)

    def __post_init__(self) -> None:
        self._confirmed = ConfirmedClock(self.clock, self.steady)

    def records(self, *, background: bool, stream: bool, stored: bool) -> bool:
        """Whether an answer is recorded: one that is ``stored``, in a store that survives this process."""
        recorded = self.limits.recorded
        if isinstance(self.store, MemoryStore) or recorded == "none" or not stored:
            return False
        return background or (stream and recorded == "streams")

    def write(self, key: Key, state: RunState, lease: Lease, *entries: bytes) -> Write:
        """The next write of a run, by the server that makes it."""
        now = self.clock()
        return Write(key, Record(msgspec.msgpack.encode(state), now, now + self.limits.lifetime), entries, lease=lease)

    async def state(self, key: Key) -> RunState | None:
        """The state of the run; None where there is no such run, or its events expired."""
        record = await self.store.get(key)
        if record is None or self._confirmed.expired(record.expires, self.limits.lifetime):
            return None
        return _read(record.value, RunState)

    async def head(self, key: Key, kind: type[Form]) -> Form:
        """The run's first entry. Raises `StoreError` where there is no such run."""
        entries = await self.store.entries(key)
        return _read(entries[0] if entries else b"", kind)

    async def batches(self, key: Key, *, after: int = 0) -> list[Batch]:
        """The batches of a run but its first ``after``; none where there is no such run."""
        entries = await self.store.entries(key, after=1 + after)
        return [_read(entry, Batch) for entry in entries]


def _read(stored: bytes, kind: type[Form]) -> Form:
    try:
        return msgspec.msgpack.decode(stored, type=ready(kind))
    except msgspec.DecodeError as error:
        raise StoreError("A stored run cannot be read.", code="store_corrupt") from error


def entry_of(value: object) -> bytes:
    """A head or a batch as it is stored."""
    return msgspec.msgpack.encode(value)


def published(batches: Sequence[Batch]) -> list[bytes]:
    """All events of the batches, in order."""
    return [event for batch in batches for event in batch.events]
