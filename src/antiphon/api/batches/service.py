"""The batches of a server: making, finding and cancelling them, and going on with those of an earlier run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from antiphon.errors import ConflictError, NotFoundError, OverloadedError, Position, StoreError
from antiphon.http.context import Context
from antiphon.store import Key, MemoryStore
from antiphon.store.clock import ConfirmedClock, steady_time
from antiphon.store.files import FileLimits, Files, StoredFile
from antiphon.tenancy import FairRoom
from antiphon.wire.batches.pages import ids_of_page, page_size
from antiphon.wire.batches.schema import ENDED, WINDOW, Batch, BatchCreate, BatchList
from antiphon.wire.batches.state import PREFIX, BatchState
from antiphon.wire.errors import refused
from antiphon.wire.responses.read import check_metadata

from .call import ENDPOINTS, LineCaller
from .record import KIND, QUEUE, BatchRecord, log
from .run import BatchRun, Desk

ACTIVE = 8
"""Batches whose lines are in memory; others wait, their owners in turn."""
_AGAIN = 60.0
"""Seconds before the store is asked again which batches have not ended."""


class BatchService:
    """Batches belong to an owner: another's are not there. What is in the store goes on within `running`."""

    def __init__(self, context: Context) -> None:
        config = self._config = context.batches
        self._context = context
        steady = steady_time if context.clock is time.time else context.clock
        confirmed = ConfirmedClock(context.clock, steady)
        store = context.archive.store
        # What is in memory makes room for what comes: nobody's files may push out what others store.
        quota = min(config.quota, store.limit // 4) if isinstance(store, MemoryStore) else config.quota
        limits = FileLimits(quota=quota, files=config.max_files, lifetime=config.lifetime)
        self.files = Files(store, limits, context.clock, confirmed)
        self._desk = Desk(context, self.files, LineCaller(context), confirmed, FairRoom(lambda: ACTIVE))
        self._runs: dict[tuple[str, str], BatchRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Goes on with the batches that have not ended, beside the requests; they stop when the block is left."""
        self._spawn(self._recover())
        try:
            yield
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def create(self, owner: str, request: BatchCreate) -> Batch:
        """Raises `RequestError` for what no batch can be made of; its lines are looked at later."""
        if request.endpoint not in ENDPOINTS:
            raise refused("endpoint", f"{request.endpoint[:80]!r} is none of {', '.join(ENDPOINTS)}.")
        if request.completion_window != WINDOW:
            raise refused("completion_window", f"{request.completion_window[:32]!r} is not possible, only {WINDOW}.")
        check_metadata(request.metadata)
        if sum(of == owner for of, _ in self._runs) >= self._config.max_batches:
            message = f"This key has {self._config.max_batches} batches that have not ended, as many as it may."
            raise OverloadedError(message, code="rate_limit_exceeded", hint="Wait for one of them, or cancel it.")
        state = BatchState.of(request, await self._input(owner, request.input_file_id), now=self._context.clock())
        run = self._run_of(owner, state)
        self._runs[owner, state.batch.id] = run  # from now on its input stays
        try:
            await self.files.prolong(owner, state.input, float(state.batch.expires_at))
            await run.record.create()
        except BaseException:
            del self._runs[owner, state.batch.id]
            raise
        self._spawn(self._run(run))
        return state.batch

    async def _input(self, owner: str, id: str) -> StoredFile:
        try:
            file = await self.files.file(owner, id)
        except NotFoundError as error:
            raise refused("input_file_id", error.message) from None
        if file.purpose != "batch":
            raise refused("input_file_id", f"the purpose of the file is {file.purpose}, and not batch.")
        return file

    async def batch(self, owner: str, id: str) -> Batch:
        """Raises `NotFoundError` where this owner has no such batch (any more)."""
        found = await self._found(owner, id)
        if found is None:
            raise NotFoundError(f"There is no batch {id[:80]!r}.", position=Position(path="batch_id"))
        return found.batch

    async def find(self, owner: str, id: str) -> Batch | None:
        """None where this owner has no such batch (any more)."""
        found = await self._found(owner, id)
        return found.batch if found else None

    async def ids(self, owner: str) -> list[str]:
        """Of all its batches, those that expired included."""
        return await self.files.store.names(KIND, owner)

    async def delete(self, owner: str, batch: Batch) -> None:
        """Deletes a batch that has ended, with its files. Raises `ConflictError` for one that has not."""
        if (owner, batch.id) in self._runs:
            raise ConflictError("The batch has not ended.", hint="Cancel it, and wait for its end.")
        await self.files.store.delete(Key(KIND, owner, batch.id))
        for id in filter(None, (batch.input_file_id, batch.output_file_id, batch.error_file_id)):
            with suppress(NotFoundError):
                file = await self.files.file(owner, id)
                self.check_unused(owner, file)
                await self.files.delete(owner, file)

    async def page(self, owner: str, query: Mapping[str, str]) -> BatchList:
        """The owner's batches, the newest first."""
        most = page_size(query, usual=20, most=100)
        ids = ids_of_page(await self.ids(owner), query, PREFIX, newest_first=True)
        found: list[Batch] = []
        more = False
        for id in ids:
            state = await self._found(owner, id)
            if state is not None and len(found) == most:
                more = True
                break
            if state is not None:
                found.append(state.batch)
        first, last = (found[0].id, found[-1].id) if found else (None, None)
        return BatchList(data=found, first_id=first, last_id=last, has_more=more)

    async def cancel(self, owner: str, id: str) -> Batch:
        """Raises `NotFoundError`, and `ConflictError` for one that has ended otherwise."""
        run = self._runs.get((owner, id))
        if run is not None:
            await run.cancel()
            return run.state.batch
        batch = await self.batch(owner, id)
        if batch.status != "cancelled":
            raise ConflictError(f"The batch is {batch.status}: nothing of it can be cancelled.")
        return batch

    def check_unused(self, owner: str, file: StoredFile) -> None:
        """Raises `ConflictError` for a file that a batch reads still."""
        for (of, id), run in self._runs.items():
            if of == owner and run.state.input.id == file.id:
                raise ConflictError(f"The batch {id} reads the file.", hint="Wait for its end, or cancel it.")

    async def _found(self, owner: str, id: str) -> BatchState | None:
        run = self._runs.get((owner, id))
        if run is not None:
            return run.state
        record = await self.files.store.get(Key(KIND, owner, id))
        if record is None or record.expires is None:
            return None
        if self._desk.confirmed.expired(record.expires, record.expires - record.created):
            return None
        return msgspec.msgpack.decode(record.value, type=BatchState)

    async def _recover(self) -> None:
        """Goes on with what the store has of an earlier run."""
        while True:
            try:
                for id in await self.files.store.names(QUEUE, ""):
                    await self._go_on(id)
            except StoreError as error:
                log.warning("batches that have not ended cannot be looked for: %s", error.code)
                await asyncio.sleep(_AGAIN)
            else:
                return

    async def _go_on(self, id: str) -> None:
        queued = await self.files.store.get(Key(QUEUE, "", id))
        owner = queued.value.decode() if queued else ""
        if (owner, id) in self._runs:
            return
        state = await self._found(owner, id)
        if state is None or state.batch.status in ENDED:
            await self.files.store.delete(Key(QUEUE, "", id))
            return
        run = self._runs[owner, id] = self._run_of(owner, state)
        self._spawn(self._run(run))

    def _run_of(self, owner: str, state: BatchState) -> BatchRun:
        return BatchRun(self._desk, owner, BatchRecord(self.files, owner, state))

    async def _run(self, run: BatchRun) -> None:
        try:
            await run.go()
        finally:
            del self._runs[run.owner, run.state.batch.id]

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
