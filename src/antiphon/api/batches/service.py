"""The batches of a server: making, finding and cancelling them, and going on with those of an earlier run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

from antiphon.errors import AntiphonError, ConflictError, NotFoundError, OverloadedError, Position
from antiphon.http.context import Context
from antiphon.store import Key, Lease, MemoryStore
from antiphon.store.files import FileLimits, Files, StoredFile
from antiphon.store.leases import turn
from antiphon.tenancy import FairRoom
from antiphon.wire.dialect import check_metadata
from antiphon.wire.errors import refused

from .call import Endpoints, LineCaller
from .queue import QUEUE
from .record import KIND, BatchArchive, BatchRecord, log
from .run import BatchRun, Desk
from .schema import ENDED, PREFIX, WINDOW, Batch, BatchCreate, BatchList, BatchState

# Pages of what has ids that sort by the time at which they were made.

_DIGITS = "0-9a-f"


def ids_of_page(ids: Iterable[str], query: Mapping[str, str], prefix: str, *, newest_first: bool) -> list[str]:
    """The ids behind that which ``after`` names, in the order of the list; it may be deleted meanwhile.

    Raises `RequestError` for what cannot have been an id.
    """
    ordered, after = sorted(ids, reverse=newest_first), query.get("after", "")
    if not after:
        return ordered
    if not re.fullmatch(rf"{prefix}[{_DIGITS}]{{30}}", after):
        raise refused("after", f"there is no {after[:80]!r}.")
    return [id for id in ordered if (id < after if newest_first else id > after)]


def page_size(query: Mapping[str, str], *, usual: int, most: int) -> int:
    """``limit``. Raises `RequestError` for one that is no number from 1 to ``most``."""
    limit = query.get("limit", str(usual))
    if not re.fullmatch("[0-9]{1,6}", limit) or not 1 <= int(limit) <= most:
        raise refused("limit", f"must be a number from 1 to {most}.")
    return int(limit)


ACTIVE = 8
"""Batches whose lines are in memory; others wait, their owners in turn."""
CANCEL = "cancel"
_LOOK = 0.1
"""Seconds between two looks at whether another server has cancelled a batch."""


class BatchService:
    """Batches belong to an owner: another's are not there. What is in the store goes on by `take_over`.

    Of several servers over one store each batch is run by one, which has its lease.
    """

    def __init__(self, context: Context, endpoints: Endpoints) -> None:
        config = self._config = context.batches
        self._context = context
        self._endpoints = endpoints
        store, confirmed = context.archive.store, context.archive.confirmed
        # What is in memory makes room for what comes: nobody's files may push out what others store.
        quota = min(config.quota, store.limit // 4) if isinstance(store, MemoryStore) else config.quota
        limits = FileLimits(quota=quota, files=config.max_files, lifetime=config.lifetime)
        self.files = Files(context.leases, limits, context.clock, confirmed)
        self._desk = Desk(context, self.files, LineCaller(context, endpoints), confirmed, FairRoom(lambda: ACTIVE))
        self._stored = BatchArchive(store, confirmed)
        self._runs: dict[tuple[str, str], BatchRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """Stops what is run here; other servers go on with it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def create(self, owner: str, request: BatchCreate) -> Batch:
        """Raises `RequestError` for what no batch can be made of; its lines are looked at later."""
        if request.endpoint not in self._endpoints:
            raise refused("endpoint", f"{request.endpoint[:80]!r} is none of {', '.join(self._endpoints)}.")
        if request.completion_window != WINDOW:
            raise refused("completion_window", f"{request.completion_window[:32]!r} is not possible, only {WINDOW}.")
        check_metadata(request.metadata)
        async with self.files.turn(owner):
            if len(await self._stored.unfinished(owner)) >= self._config.max_batches:
                message = f"This key has {self._config.max_batches} batches that have not ended, as many as it may."
                raise OverloadedError(message, code="rate_limit_exceeded", hint="Wait for one of them, or cancel it.")
            input = await self._input(owner, request.input_file_id)
            run = self._run_of(owner, BatchState.of(request, input, now=self._context.clock()))
            async with self._claimed(run):
                await self.files.prolong(owner, input, float(run.state.batch.expires_at))
                await run.record.create()
        return run.state.batch

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
        found = await self._stored.state(owner, id)
        if found is None:
            raise NotFoundError(f"There is no batch {id[:80]!r}.", position=Position(path="batch_id"))
        return found.batch

    async def find(self, owner: str, id: str) -> Batch | None:
        """Returns the batch; None where this owner has no such one (any more)."""
        found = await self._stored.state(owner, id)
        return found.batch if found else None

    async def ids(self, owner: str) -> list[str]:
        """Returns the ids of all its batches, those that expired included."""
        return await self._stored.ids(owner)

    async def delete(self, owner: str, batch: Batch) -> None:
        """Deletes a batch that has ended, with its files. Raises `ConflictError` for one that has not."""
        found = await self.find(owner, batch.id)
        if found is not None and found.status not in ENDED:
            raise ConflictError("The batch has not ended.", hint="Cancel it, and wait for its end.")
        async with turn(self._context.leases, Key(KIND, owner, batch.id)) as lease:  # Whoever ran it tidies up.
            await self.files.store.delete(lease.key, lease=lease)
        for id in filter(None, (batch.input_file_id, batch.output_file_id, batch.error_file_id)):
            with suppress(NotFoundError):
                await self.delete_file(owner, await self.files.file(owner, id))

    async def page(self, owner: str, query: Mapping[str, str]) -> BatchList:
        """The owner's batches, the newest first."""
        most = page_size(query, usual=20, most=100)
        ids = ids_of_page(await self._stored.ids(owner), query, PREFIX, newest_first=True)
        found: list[Batch] = []
        more = False
        for id in ids:
            state = await self._stored.state(owner, id)
            if state is not None and len(found) == most:
                more = True
                break
            if state is not None:
                found.append(state.batch)
        first, last = (found[0].id, found[-1].id) if found else (None, None)
        return BatchList(data=found, first_id=first, last_id=last, has_more=more)

    async def cancel(self, owner: str, id: str) -> Batch:
        """Raises `NotFoundError`, and `ConflictError` for one that has ended otherwise."""
        asked = 0
        while (batch := await self.batch(owner, id)).status in ("validating", "in_progress"):
            await self._go_on(owner, id)
            if (run := self._runs.get((owner, id))) is not None:
                await run.cancel()
                return run.state.batch
            lease = await self.files.store.lease(Key(KIND, owner, id))
            if lease is not None and lease.fence != asked:
                asked = lease.fence
                await self._context.leases.signal(lease.key, CANCEL)
            await asyncio.sleep(_LOOK)
        if batch.status in ENDED and batch.status != "cancelled":
            raise ConflictError(f"The batch is {batch.status}: nothing of it can be cancelled.")
        return batch

    async def delete_file(self, owner: str, file: StoredFile) -> None:
        """Raises `ConflictError` for a file that a batch reads still."""
        async with self.files.turn(owner):
            for state in await self._stored.unfinished(owner):
                if state.input.id == file.id:
                    message = f"The batch {state.batch.id} reads the file."
                    raise ConflictError(message, hint="Wait for its end, or cancel it.")
            await self.files.delete(owner, file)

    async def take_over(self, queued: Iterable[tuple[str, str]]) -> None:
        """Goes on with those of ``queued`` that nobody runs; each has its owner. Raises `StoreError`."""
        for id, owner in queued:
            await self._go_on(owner, id)

    async def _go_on(self, owner: str, id: str) -> None:
        """Runs the batch, unless it is being run or has ended."""
        if (owner, id) in self._runs or await self.files.store.lease(Key(KIND, owner, id)) is not None:
            return
        state = await self._stored.state(owner, id)
        if state is None or state.batch.status in ENDED:
            await self.files.store.delete(Key(QUEUE, "", id))
            return
        run = self._run_of(owner, state)
        async with self._claimed(run):
            run.record.state = await self._stored.state(owner, id) or state  # As whoever had it before left it.

    def _run_of(self, owner: str, state: BatchState) -> BatchRun:
        return BatchRun(self._desk, owner, BatchRecord(self.files, owner, state))

    @asynccontextmanager
    async def _claimed(self, run: BatchRun) -> AsyncIterator[None]:
        """Runs the batch once the body is through, where no other server has it."""
        leases = self._context.leases

        def cancel(signal: str) -> None:
            """As another server was asked to."""
            self._spawn(_cancelled(run))

        lease = await leases.acquire(run.record.key, signalled=cancel, lost=run.leave)
        run.record.lease = lease
        try:
            yield
        except BaseException:
            if lease is not None:
                await leases.release(lease)
            raise
        if lease is not None:
            self._runs[run.owner, run.state.batch.id] = run
            run.task = self._spawn(self._run(run, lease))

    async def _run(self, run: BatchRun, lease: Lease) -> None:
        try:
            await run.go()
        finally:
            del self._runs[run.owner, run.state.batch.id]
            await self._context.leases.release(lease)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _cancelled(run: BatchRun) -> None:
    try:
        await run.cancel()
    except AntiphonError as error:
        log.warning("the batch %s is not cancelled: %s", run.state.batch.id, error.code)
