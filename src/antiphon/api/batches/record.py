"""A batch in the store: its state, the files that it writes, and the queue of those that have not ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

import msgspec

from antiphon.errors import AntiphonError, ConflictError, StoreError
from antiphon.store import Key, Lease, Record, Store, Write
from antiphon.store.clock import ConfirmedClock
from antiphon.store.files import Files, StoredFile, part_key
from antiphon.structs import ready

from .call import Answer, output_line
from .lines import Line
from .queue import QUEUE, queued
from .schema import ENDED, BatchState, LineFault, NotRun, Written

# Batches as they are stored, each for its owner alone.

KIND = "batch"
"""A batch's record is its owner's; the name of each that has not ended is in the servers' queue besides."""


class BatchArchive(msgspec.Struct, frozen=True):
    """The stored batches, as any server finds them, whoever runs them."""

    store: Store
    confirmed: ConfirmedClock

    async def state(self, owner: str, id: str) -> BatchState | None:
        """Returns the stored state; None where this owner has no such batch (any more)."""
        record = await self.store.get(Key(KIND, owner, id))
        if record is None or record.expires is None:
            return None
        if self.confirmed.expired(record.expires, record.expires - record.created):
            return None
        return msgspec.msgpack.decode(record.value, type=ready(BatchState))

    async def ids(self, owner: str) -> list[str]:
        """Returns the ids of all its batches, those that expired included."""
        return await self.store.names(KIND, owner)

    async def unfinished(self, owner: str) -> list[BatchState]:
        """The owner's batches that have not ended."""
        states = []
        for id, of in await queued(self.store):
            if of == owner and (state := await self.state(owner, id)) is not None and state.batch.status not in ENDED:
                states.append(state)
        return states


log = logging.getLogger("antiphon.batches")

_LINES_AT_ONCE = 500
"""Lines that were not run and are written in one transaction."""
_SPARE = 3600.0
"""Seconds that the parts of a file stay after it expired at the latest."""

Reason = Literal["cancelled", "expired"]
NOT_RUN: Mapping[Reason, NotRun] = {
    "cancelled": NotRun(code="batch_cancelled", message="The batch was cancelled before this line was run."),
    "expired": NotRun(code="batch_expired", message="The batch expired before this line was run."),
}


@dataclass(slots=True, eq=False)
class BatchRecord:
    """``state`` is what the store has of a batch. Each change is one transaction; they come one after the other.

    Every method raises `StoreError` where the store cannot be written, and `ConflictError` (``lease_lost``) where
    another server has the batch; the state then is what it was. ``lease`` is what lets this one write.
    """

    files: Files
    owner: str
    state: BatchState
    lease: Lease | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def key(self) -> Key:
        return Key(KIND, self.owner, self.state.batch.id)

    @property
    def ended(self) -> bool:
        return self.state.batch.status in ENDED

    async def create(self) -> None:
        """Stores a new batch, and that it has not ended."""
        created = float(self.state.batch.created_at)
        queued = Write(Key(QUEUE, "", self.state.batch.id), Record(self.owner.encode(), created))
        await self._write(self.state, queued)

    async def begin(self, total: int, model: str) -> None:
        """Its input is valid and has ``total`` lines, the first of them for ``model``."""
        async with self._lock:
            await self._write(self.state.begun(total, model, self._now))

    async def refuse(self, faults: Sequence[LineFault]) -> None:
        """Its input cannot be run, or the batch cannot go on: it ends, with what it wrote so far."""
        async with self._lock:
            state = self.state.refused(faults, self._now)
            await self._write(state.ended("failed", self._now), *self._written_files())

    async def cancel(self) -> None:
        async with self._lock:
            if self.state.batch.status in ("validating", "in_progress"):
                await self._write(self.state.at("cancelling", self._now))

    async def add(self, line: Line, answer: Answer) -> None:
        """Writes what was answered, and that it was, together."""
        written = answer.line(line.custom_id)
        async with self._lock:
            file = self.state.output if answer.ok else self.state.error
            state = self.state.with_answer(line.number, len(written), ok=answer.ok, usage=answer.usage)
            await self._write(state, self._append(file, [written]))

    async def end(self, left: Sequence[Line], reason: Reason | None) -> None:
        """The batch has ended, for ``reason`` if lines are ``left`` that are not run; its files are there at once."""
        if left and reason is not None:
            await self._add_not_run(left, NOT_RUN[reason])
        completed = not left and self.state.batch.status != "cancelling"
        async with self._lock:
            if completed:
                await self._write(self.state.at("finalizing", self._now))
            status = "completed" if completed or reason is None else reason
            await self._write(self.state.ended(status, self._now), *self._written_files())

    async def leave_queue(self) -> None:
        """It need not be looked for when the server starts: it has ended."""
        await self.files.store.delete(Key(QUEUE, "", self.state.batch.id), lease=self.lease)

    async def fail(self, error: BaseException) -> None:
        """Ends a batch that cannot go on; where not even that can be written it is tried when the server starts."""
        fault = error if isinstance(error, AntiphonError) else AntiphonError("The batch failed.")
        try:
            await self.refuse([LineFault(code=fault.code, message=fault.message)])
            await self.leave_queue()
        except (StoreError, ConflictError) as unwritten:
            log.warning("the batch %s cannot be ended: %s", self.state.batch.id, unwritten.code)

    async def _add_not_run(self, lines: Sequence[Line], error: NotRun) -> None:
        pending = iter(lines)
        while some := list(islice(pending, _LINES_AT_ONCE)):
            written = [output_line(line.custom_id, None, error=error) for line in some]
            numbers, size = [line.number for line in some], sum(map(len, written))
            async with self._lock:
                append = self._append(self.state.error, written)
                await self._write(self.state.without_answers(numbers, size), append)

    @property
    def _now(self) -> float:
        return self.files.clock()

    @property
    def _lifetime(self) -> float:
        return self.state.output_lifetime or self.files.limits.lifetime

    def _append(self, file: Written, lines: Sequence[bytes]) -> Write:
        expires = self.state.batch.expires_at + self._lifetime + _SPARE
        return Write(part_key(self.owner, file.id, file.at.part), Record(b"", self._now, expires), lines)

    def _written_files(self) -> Iterator[Write]:
        """Yields the writes that make files of the parts that were written."""
        for written, kind in ((self.state.output, "output"), (self.state.error, "errors")):
            if written.bytes:
                yield self.files.write(self.owner, self._file(written, kind))

    def _file(self, written: Written, kind: str) -> StoredFile:
        return StoredFile(
            id=written.id,
            filename=f"{self.state.batch.id}_{kind}.jsonl",
            purpose="batch_output",
            bytes=written.bytes,
            parts=written.parts,
            created=self._now,
            expires=self._now + self._lifetime,
        )

    async def _write(self, state: BatchState, *more: Write) -> None:
        """Stores the state with what belongs to it; whoever calls has the lock."""
        created = float(state.batch.created_at)
        record = Record(msgspec.msgpack.encode(state), created, state.batch.expires_at + self.files.limits.lifetime)
        await self.files.store.put_all(Write(self.key, record, lease=self.lease), *more)
        self.state = state
