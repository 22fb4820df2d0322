"""One batch on its way: read and checked whole, run line by line below all requests, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from antiphon.errors import AntiphonError, ConflictError, OverloadedError, StoreError
from antiphon.http.context import Context
from antiphon.http.gate.keys import ANYBODY, Principal, Scope
from antiphon.store.clock import ConfirmedClock
from antiphon.store.files import Files
from antiphon.tenancy import FairRoom

from .call import Answer, LineCaller
from .lines import Lanes, Line, LineReader, body_of
from .record import BatchRecord, Reason, log
from .schema import WINDOW_SECONDS, BatchState, LineFault

_WATCH = 5.0
"""Seconds between two looks at whether a batch that waits or runs has expired."""
_LAST = 600.0
"""Seconds that running lines of a batch that is cancelled or expired may take to end."""
_PAUSES = (0.0, 1.0, 5.0, 30.0)
"""Seconds before a line is tried again for which there was no room, or whose engine was lost."""
_FRAME = 4096
"""Bytes of a line beside its body at most."""


class Desk(msgspec.Struct, frozen=True):
    """Parts that all batches of a server share. ``active`` is the room for batches whose lines are in memory."""

    context: Context
    files: Files
    caller: LineCaller
    confirmed: ConfirmedClock
    active: FairRoom

    def principal(self, owner: str) -> Principal | None:
        """The key of that name as it is now; None where it may not use models any more."""
        keys = self.context.keys
        if keys.open:
            return None if owner else ANYBODY
        key = keys.named(owner)
        if key is None or Scope.INFERENCE not in key.scopes:
            return None
        return Principal(key.name, frozenset(key.scopes))


@dataclass(slots=True, eq=False)
class BatchRun:
    """A batch that has not ended, and that no other server runs. ``task`` is what runs it."""

    desk: Desk
    owner: str
    record: BatchRecord
    task: asyncio.Task[None] | None = None
    _cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    _calls: set[asyncio.Future[Answer]] = field(default_factory=set)
    _writing: set[asyncio.Task[None]] = field(default_factory=set)
    _slots: dict[str | None, tuple[str, int]] = field(default_factory=dict)
    """By the name that lines request, the model's own and how many answers it makes at once."""

    async def go(self) -> None:
        """Runs it to its end. Cancelled, or with the server stopping, it stays in the store as far as it got."""
        try:
            while not await self._attempt():
                log.info("the batch %s goes on from where it is", self.state.batch.id)
        finally:
            await asyncio.gather(*self._writing, return_exceptions=True)

    async def _attempt(self) -> bool:
        """False where the store could not be used: then it is run again, from where it is."""
        usable = True
        try:
            async with AsyncExitStack() as place:
                await self._wait(place)
                if not self.record.ended:
                    await self._go_through(await self._lines())
                if self.record.ended:
                    await self.record.leave_queue()
        except* ConflictError as group:  # Others go on with it.
            log.warning("the batch %s is left: %s", self.state.batch.id, group.exceptions[0])
        except* StoreError as group:
            usable = await self._store_failed(group.exceptions[0])
        except* Exception as group:  # noqa: BLE001 - whatever it is, the owner learns that the batch failed
            log.error("the batch %s failed", self.state.batch.id, exc_info=group)
            await self.record.fail(AntiphonError("The server made a mistake.", code="internal_error"))
        return usable

    async def _store_failed(self, error: BaseException) -> bool:
        """Ends the batch, and returns true, where it is damaged; waits a while for anything else."""
        if isinstance(error, StoreError) and error.code == "store_corrupt":
            await self.record.fail(error)
            return True
        log.warning("the batch %s waits for the store: %s", self.state.batch.id, error)
        await asyncio.sleep(_WATCH)
        return False

    def leave(self) -> None:
        """Ends at once: another server goes on with it."""
        if self.task is not None:
            self.task.cancel()

    async def cancel(self) -> None:
        """Begins no more of its lines."""
        await self.record.cancel()
        self._cancelled.set()

    @property
    def state(self) -> BatchState:
        return self.record.state

    @property
    def _reason(self) -> Reason | None:
        """Why no more lines are begun."""
        batch = self.state.batch
        if batch.status == "cancelling" or self.desk.principal(self.owner) is None:
            return "cancelled"
        return "expired" if self.desk.confirmed.expired(batch.expires_at, WINDOW_SECONDS) else None

    @property
    def _halted(self) -> bool:
        return self._reason is not None or self.desk.context.lifecycle.draining

    async def _wait(self, place: AsyncExitStack) -> None:
        """Until it is this batch's turn; one that only has to be ended needs none."""
        while self._reason is None:
            try:
                room = self.desk.active.places(self.owner, patience=_WATCH)
                await place.enter_async_context(room)
            except TimeoutError:
                continue
            return

    async def _go_through(self, lines: LineReader) -> None:
        if not self.state.done:
            await self._begin(lines)
        if self.record.ended:
            return
        await self._find_models(lines.lines)
        while (left := [line for line in lines.lines if not self.state.is_done(line.number)]) and not self._halted:
            await self._run(left)
        if not left or self._reason is not None:  # else the server stops
            await self.record.end(left, self._reason)

    # Reading

    async def _lines(self) -> LineReader:
        desk, limits = self.desk, self.desk.context.limits
        reader = LineReader({self.state.batch.endpoint}, desk.context.batches.max_lines, limits.max_body + _FRAME)
        async for part in desk.files.content(self.owner, self.state.input):
            await asyncio.to_thread(reader.feed, part)
            if reader.over:
                break
        reader.close()
        return reader

    async def _begin(self, lines: LineReader) -> None:
        """Ends the batch where not all of it can be run; nothing of it was run then."""
        faults = lines.faults or await self._find_models(lines.lines)
        if faults:
            await self.record.refuse(faults)
        else:
            await self.record.begin(len(lines.lines), self._slots[lines.lines[0].model][0])

    async def _find_models(self, lines: Iterable[Line]) -> list[LineFault]:
        """Loads the models that the lines request; what is wrong with those that cannot be."""
        firsts: dict[str | None, Line] = {}
        for line in lines:
            firsts.setdefault(line.model, line)
        faults = []
        for name, line in firsts.items():
            if name not in self._slots:
                try:
                    self._slots[name] = await self._model(line)
                except AntiphonError as error:
                    self._slots[name] = (name or "", 1)  # its lines say what is wrong
                    faults.append(
                        LineFault(code=error.code, message=error.message, line=line.number, param="body.model")
                    )
        return faults

    async def _model(self, line: Line) -> tuple[str, int]:
        source = self.desk.context.source
        usual = source.embedding if line.url.endswith("/embeddings") else None
        while True:
            try:
                model = await self.desk.context.model(usual if line.model is None else line.model)
            except OverloadedError as error:
                if self._halted:
                    raise
                await asyncio.sleep(error.retry_after)
                continue
            return model.name, max(1, model.engine.info.slots)

    # Running

    async def _run(self, lines: Sequence[Line]) -> None:
        """Runs the lines until they have ended, or begins no more of them; returns when those that run have ended."""
        watching = asyncio.ensure_future(self._watch())
        try:
            async with asyncio.TaskGroup() as group:
                for _, same in groupby(sorted(lines, key=self._model_of), key=self._model_of):
                    self._open_lanes(list(same), group)
        finally:
            watching.cancel()

    def _model_of(self, line: Line) -> tuple[str, int]:
        """The model that answers it, and how many answers it makes at once."""
        return self._slots[line.model]

    def _open_lanes(self, lines: Sequence[Line], group: asyncio.TaskGroup) -> None:
        """A lane for each slot of the model but one, which is for requests."""
        count = min(self.desk.context.admission.most_behind(self._model_of(lines[0])[1]), len(lines))
        lanes = Lanes(lines, count, by_prompt=True)
        for lane in range(count):
            group.create_task(self._run_lane(lanes.lines(lane), f"{self.state.batch.id}/{lane}"))

    async def _run_lane(self, lines: Iterator[Line], lane: str) -> None:
        for line in lines:
            async with AsyncExitStack() as place:
                await self._enter(place, line)
                if self._halted:
                    return
                written = await self.desk.files.span(self.owner, self.state.input, line.start, line.end)
                answer = await self._answer(line, body_of(written), lane)
            if answer is not None:
                writing = asyncio.ensure_future(self._write(line, answer))
                self._writing.add(writing)
                writing.add_done_callback(self._writing.discard)
                await asyncio.shield(writing)

    async def _enter(self, place: AsyncExitStack, line: Line) -> None:
        """Waits until requests leave room for the line, or until it is not to be run."""
        model, slots = self._model_of(line)
        places = min(line.places, slots)
        while not self._halted:
            room = self.desk.context.admission.background(
                self.owner, model=model, slots=slots, places=places, patience=_WATCH
            )
            try:
                await place.enter_async_context(room)
            except TimeoutError:
                continue
            return

    async def _watch(self) -> None:
        """Lines that run still, long after their batch was cancelled or expired, are given up."""
        while self._reason is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_WATCH):
                    await self._cancelled.wait()
        await asyncio.sleep(_LAST)
        for call in self._calls:
            call.cancel()

    async def _answer(self, line: Line, body: bytes, lane: str) -> Answer | None:
        """Calls the endpoint; None: the line was not answered, and may be run again."""
        for pause in (*_PAUSES, None):
            principal = self.desk.principal(self.owner)
            if principal is None:
                return None
            call = asyncio.ensure_future(self.desk.caller.call(line.url, body, principal, lane=lane))
            self._calls.add(call)
            try:
                await asyncio.wait({call})
            finally:
                self._calls.discard(call)
                call.cancel()
            if call.cancelled():
                return None
            answer = call.result()
            if answer.passing and self.desk.context.lifecycle.draining:
                return None
            if not answer.passing or pause is None:
                return answer
            await asyncio.sleep(pause)
        return None

    async def _write(self, line: Line, answer: Answer) -> None:
        """Writes an answer; a store that is full or busy is tried again."""
        while True:
            try:
                await self.record.add(line, answer)
                return
            except StoreError as error:
                if error.code == "store_corrupt" or self.desk.context.lifecycle.draining:
                    raise
                log.warning("the batch %s waits for the store: %s", self.state.batch.id, error.code)
                await asyncio.sleep(_WATCH)
