"""An answer that is made for whoever follows it: its events are stored first, in batches, then published."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from antiphon.errors import AntiphonError, ConflictError, OverloadedError, StoreError
from antiphon.generation.resume.tape import Input, ReplayLog, pack_inputs
from antiphon.store import Key, Lease, Write
from antiphon.store.runs import KIND, Batch, RunState, entry_of
from antiphon.store.store import lease_lost

from .context import Context
from .errors import INTERNAL
from .exchange import FAULTS, Exchange
from .lifecycle import stopped
from .runs import Run, into
from .sse import Fill

MOST_WAITING = 256 * 2**10
"""Bytes of events that wait to be stored; what is made after them waits, too."""

Store = Callable[[Write], Awaitable[None]]
"""Does a write, with what belongs to it in one transaction."""
Numbered = tuple[int, bytes]
"""An event as it is sent, with its number; they count from 0."""
State = TypeVar("State")
"""The answer as it is after the events with which it is published."""
Status = Literal["queued", "in_progress"]


def run_key(owner: str, id: str) -> Key:
    return Key(KIND, owner, id)


AnyRun = TypeVar("AnyRun", bound=Run)


class AbandonedRun(msgspec.Struct, Generic[AnyRun], frozen=True):
    """A run that another server left: its events so far are in the run's log, and what they depended on is here."""

    run: AnyRun
    lease: Lease
    inputs: Sequence[Input]


class Journal(Generic[State]):
    """Stores what ``run`` publishes, under a lease. ``head`` is what another server needs to make it.

    ``publish`` gives what is stored to those who follow the run, with the state as it was then, whose status is
    ``status``. ``open`` does its first write. ``besides`` are records that are nothing without it. ``left``: it is gone
    on with, and the events in the run's log are stored already. Two writes are as far apart as those to a client are.
    """

    def __init__(
        self,
        context: Context,
        run: Run,
        head: object,
        state: State,
        publish: Callable[[Sequence[bytes], State], None],
        *,
        status: Callable[[State], Status] = lambda state: "in_progress",
        open: Store,
        besides: Sequence[Key] = (),
        left: AbandonedRun[AnyRun] | None = None,
    ) -> None:
        self._runs = context.stored_runs
        self._leases = context.leases
        self._rules = context.rules
        self._run = run
        self._head = head
        self._open = open
        self._publish = publish
        self._status = status
        self._besides = besides
        self._lease = None if left is None else left.lease
        self._waiting: list[bytes] = []
        self._size = 0
        self._inputs: list[Input] = []
        self._state = state
        self._next = len(run.log)
        self._storing = asyncio.Lock()
        self._flushing: asyncio.Future[None] | None = None
        self._begun = self._went_on = left is not None
        self.over = self.lost = False
        self.replay_log = ReplayLog(self._inputs.append, () if left is None else left.inputs)
        run.recorded = True

    @property
    def begun(self) -> bool:
        """Whether anything of it is stored."""
        return self._begun

    def publish(self, events: Iterable[Numbered], state: State) -> asyncio.Future[None] | None:
        """Takes events to store and to publish; those that were are passed over. What it returns is to be awaited."""
        self._take(events, state)
        if self._waiting and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.ensure_future(self._flush())
        return asyncio.shield(self._flushing) if self._flushing and self._size >= MOST_WAITING else None

    def _take(self, events: Iterable[Numbered], state: State) -> None:
        for number, event in events:
            if number >= self._next:
                self._waiting.append(event)
                self._size += len(event)
                self._next = number + 1
        self._state = state

    async def _flush(self) -> None:
        """Stores what waits until nothing does. What goes wrong ends the run."""
        try:
            while self._waiting:
                await self._store()
                await asyncio.sleep(self._rules.gather)
        except AntiphonError as error:
            self._run.work.stop(error)
        except Exception:  # noqa: BLE001 - nobody waits for it: the run itself must end
            FAULTS.exception("%s is not stored", self._run.id)
            self._run.work.stop(INTERNAL)

    async def begin(self, events: Iterable[Numbered], state: State) -> None:
        """Stores the first events, and that the run is there, before this returns."""
        self._take(events, state)
        await _to_its_end(self._store())

    async def end(self, events: Iterable[Numbered], state: State, store: Store) -> None:
        """Stores the last events with what ``store`` writes beside them, and publishes them. Nothing comes after.

        Where that cannot be stored, the error is raised, and the events never were.
        """
        await _to_its_end(self._store(store, last=(tuple(events), state)))

    async def note_attempt(self) -> None:
        """Stores of a run that another server left that it is gone on with once more, before it is."""
        if self._went_on and self._lease is not None:
            state = await self._runs.state(self._run.key)
            again = RunState("in_progress", 1) if state is None else RunState(state.status, state.attempts + 1)
            await self._runs.store.put_all(self._runs.write(self._run.key, again, self._lease))
            FAULTS.info("%s is gone on with here, after %d events", self._run.id, len(self._run.log))

    async def is_not_ours(self, error: AntiphonError) -> bool:
        """Whether a run that ``error`` broke is not to be ended here: it is over, or another server's. It is closed."""
        async with self._storing:  # What is being stored may be its end.
            pass
        if self.over:
            self._run.close()
            return True
        handed_over = error.code == "draining" or (self._went_on and isinstance(error, OverloadedError))
        if handed_over:
            await self.close()
        elsewhere = handed_over or self.lost or error.code == "lease_lost"
        if elsewhere:
            self._run.close(error)
        return elsewhere

    async def discard(self) -> None:
        """Its client left before it was over: nothing of it stays."""
        await _to_its_end(self._discard())

    async def _discard(self) -> None:
        await self._stop_flushing()
        async with self._storing:
            if self._lease is not None and self._begun and not self.over and not self.lost:
                await self._runs.store.delete(self._lease.key, lease=self._lease)
                for key in self._besides:
                    await self._runs.store.delete(key, lease=self._lease)
                self.over = True

    async def close(self) -> None:
        """The lease ends; one of a run that is not over is for another server. A second time does nothing."""
        await self._stop_flushing()
        lease, self._lease = self._lease, None
        if lease is None or self.lost:
            return
        over, self.lost = self.over or not self._begun, True
        try:
            await (self._leases.release(lease) if over else self._leases.abandon(lease))
        except StoreError as error:
            FAULTS.warning("the lease of %s runs out by itself: %s", self._run.id, error.code)

    async def _stop_flushing(self) -> None:
        """Drops what waits; what is being stored is stored to its end."""
        async with self._storing:
            self._waiting.clear()
            self._inputs.clear()
        if self._flushing is not None:
            self._flushing.cancel()

    async def _store(self, store: Store | None = None, *, last: tuple[Sequence[Numbered], State] | None = None) -> None:
        """``last``: they are taken when it is their turn to be stored, so that no write but this one has them."""
        async with self._storing:
            if self.over or self.lost:
                raise lease_lost()
            before, over = (self._waiting, self._next, self._state), last is not None
            if last is not None:
                self._waiting = self._waiting[:]
                self._take(*last)
            events, inputs, state = self._waiting, self._inputs[:], self._state
            self._waiting, self._size = [], 0
            try:
                await self._write(Batch(events, pack_inputs(inputs), over), store)
            except BaseException as error:
                if over:
                    self._waiting, self._next, self._state = before
                else:
                    self._waiting = events + self._waiting
                self.lost = self.lost or (isinstance(error, ConflictError) and error.code == "lease_lost")
                raise
            del self._inputs[: len(inputs)]
            self._begun, self.over = True, over
            self._publish(events, state)
            if over:
                self._run.close()

    async def _write(self, batch: Batch, store: Store | None) -> None:
        entries = [entry_of(batch)]
        if self._lease is None:
            self._lease = await self._leases.acquire(self._run.key, signalled=self._run.signalled, lost=self._run.lose)
            assert self._lease is not None, "an id that is given twice"
        if not self._begun:
            entries.insert(0, entry_of(self._head))
            store = store or self._open
        state = RunState("over" if batch.over else self._status(self._state))
        write = self._runs.write(self._lease.key, state, self._lease, *entries)
        await (store(write) if store is not None else self._runs.store.put_all(write))


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Runs to its end, also where who waits for it is cancelled."""
    await asyncio.shield(asyncio.ensure_future(work))


Make = Callable[[], Coroutine[Any, Any, None]]
"""Makes an answer, but for its end."""


class Answer(Protocol):
    """How an answer ends. Both raise where that cannot be stored."""

    async def settle(self) -> None:
        """Stores and publishes its end, where it has not been."""

    async def fail(self, error: AntiphonError) -> None:
        """Stores and publishes that it ends with ``error``."""


@dataclass(slots=True)
class Recorder:
    """Makes one answer for those who follow ``run``, which says whatever becomes of it.

    ``journal`` stores its events, where they are stored. ``lasting``: where the client that began it leaves, it is made
    to its end if anything of it is stored; else nothing of it stays.
    """

    context: Context
    exchange: Exchange
    run: Run
    journal: Journal[Any] | None
    answer: Answer
    lasting: bool = False
    _discards: bool = False
    _failed: str | None = None
    """The code of the error that it ended with."""

    async def send(self, work: Make, stream: Callable[[Fill], Coroutine[Any, Any, None]]) -> None:
        """Makes it in a task of its own, while ``stream`` sends what is stored of it to the client that began it.

        Raises the error that it ended with before anything was stored.
        """
        runs, goes_on = self.context.runs, False
        runs.add(self.run)
        making = runs.spawn(self.make(work))
        try:
            await stream(lambda outbox: into(outbox, self.run.follow()))
        except AntiphonError:
            raise
        except BaseException:  # The client is gone.
            goes_on = self.lasting and self.journal is not None and self.journal.begun
            if not goes_on:
                self._discards = True
                making.cancel()
            raise
        finally:
            if goes_on:
                runs.spawn(self._behind(making))
            else:
                await asyncio.gather(making, return_exceptions=True)
            self.exchange.error = self.exchange.error or self._failed

    async def _behind(self, making: asyncio.Task[None]) -> None:
        """Counts it among the requests of its key until it is made."""
        with self.context.rates.behind(self.run.owner):
            await asyncio.wait([making])

    async def make(self, work: Make) -> None:
        """Makes it by ``work``, to its end or to an error that its followers get."""
        runs = self.context.runs
        runs.add(self.run)
        try:
            if self.journal is not None:
                await self.journal.note_attempt()
            await self.context.lifecycle.run(work(), self.run.work)
            await self.answer.settle()
        except AntiphonError as error:
            await self._break(error)
        except asyncio.CancelledError:
            if self._discards and self.journal is not None:
                await self.journal.discard()
            self.run.close(stopped())
            raise
        except Exception as error:  # noqa: BLE001 - nobody waits: the answer itself must carry the error
            await self._break(self.exchange.unforeseen(error))
        finally:
            self.run.close()
            if self.journal is not None:
                await self.journal.close()
            runs.remove(self.run)

    async def _break(self, error: AntiphonError) -> None:
        """It does not get to its end: it is another server's, or nobody knows it, or its last event is the error."""
        if self.journal is not None:
            if await self.journal.is_not_ours(error):
                return
            if not self.journal.begun:
                self.run.close(error)
                return
        self._failed = error.code
        try:
            await self.answer.fail(error)
        except Exception as failed:  # noqa: BLE001 - a store of another package
            FAULTS.warning("the end of %s is not stored", self.run.id, exc_info=failed)
            self.run.close(error)
        if self.journal is not None and not self.journal.over:  # Its end was being stored when it broke, and is not.
            self.run.close(error)
