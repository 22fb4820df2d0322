"""Answers while they are made, so that other requests can find, follow and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field

from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.store import Key
from antiphon.store.store import lease_lost
from antiphon.wire.writer import DONE, StreamForm

from .client import while_connected
from .errors import INTERNAL, ClientGone
from .exchange import FAULTS
from .lifecycle import Work, stopped
from .rules import Rules
from .sse import Outbox, fill, send_events

CANCEL = "cancel"
"""The signal for the server that makes a response."""


@dataclass(slots=True)
class Run:
    """One answer while it is made. ``log``: its events so far, as they are sent, where others may follow it.

    ``recorded``: its events are stored before they are published, so that others than the client that began it may
    follow it.
    """

    key: Key
    work: Work = field(default_factory=Work)
    log: list[bytes] = field(default_factory=list)
    recorded: bool = False
    over: bool = False
    error: AntiphonError | None = None
    """Why it is over here, where its last event is not published here."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def id(self) -> str:
        return self.key.name

    @property
    def owner(self) -> str:
        return self.key.owner

    @property
    def followed(self) -> bool:
        """Whether others than the client that began it may read it here. What is over is read from the store."""
        return not self.over and self.recorded and bool(self.log)

    def add(self, events: Sequence[bytes]) -> None:
        """Publishes events."""
        self.log += events
        self._wake()

    def close(self, error: AntiphonError | None = None) -> None:
        """There will be no more events."""
        if self.over:
            return
        self.over, self.error = True, error
        self._wake()
        self._ended.set()

    async def follow(self, after: int = -1) -> AsyncGenerator[bytes, None]:
        """Its events with a number above ``after``, until it is over; raises ``error``."""
        next = after + 1
        while True:
            if next < len(self.log):
                events, next = b"".join(self.log[next:]), len(self.log)
                yield events
                continue
            if self.error is not None:
                raise self.error
            if self.over:
                return
            await self._changed.wait()

    async def cancel(self) -> None:
        """Stops the work, begun or not; returns when it has ended and its end is stored."""
        self.work.stop(self.cancelled())
        await self._ended.wait()

    def signalled(self, signal: str) -> None:
        """Another server left word for the one that makes it."""
        if signal == CANCEL:
            self.work.stop(self.cancelled())

    def cancelled(self) -> AntiphonError:
        """The error that followers get when a client cancelled the run."""
        raise NotImplementedError

    def lose(self) -> None:
        """Another server makes it, or may."""
        self.work.stop(lease_lost())

    def _wake(self) -> None:
        """Wakes all followers that wait now; those that come later wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()


def _nobody(key: Key) -> None:
    """This server takes over nothing."""


class Runs:
    """All runs of this server by their keys, and the tasks of those that no request waits for."""

    def __init__(self) -> None:
        self._runs: dict[Key, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.take_over: Callable[[Key], None] = _nobody
        """Goes on here, soon, with a run that another server has left; nothing happens where there is none."""
        self.resumable: Collection[str] = ()
        """The paths whose streams can be gone on with."""

    def add(self, run: Run) -> None:
        self._runs[run.key] = run

    def get(self, key: Key) -> Run | None:
        return self._runs.get(key)

    def followed(self, key: Key) -> Run | None:
        """The run, if others than the client that began it may read it."""
        run = self.get(key)
        return run if run is not None and run.followed else None

    def remove(self, run: Run) -> None:
        run.close()
        if self.get(run.key) is run:  # This server may have taken it over from itself.
            del self._runs[run.key]

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def aclose(self) -> None:
        """The server stops: what it makes is left to other servers where it is recorded, else it ends as failed."""
        for run in tuple(self._runs.values()):
            run.work.stop(stopped())
        await asyncio.gather(*self._tasks, return_exceptions=True)


class EventsResponse(HttpResponse):
    """Events of a run, or of a finished answer; a client that hangs up stops following, and not the run.

    ``watched``: whoever runs it looks whether the client hangs up. ``end`` comes after the last event.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        rules: Rules,
        form: StreamForm,
        *,
        watched: bool = False,
        end: bytes = DONE,
    ) -> None:
        super().__init__()
        self._events = events
        self._rules = rules
        self._form = form
        self._end = end
        self._watched = watched

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._watched:
            await self._send(send)
            return
        with suppress(ClientGone):
            await while_connected(receive, self._send(send))

    async def _send(self, send: Send) -> None:
        limits = self._rules.limits
        outbox = Outbox(limits.stream_buffer, limits.keep_alive, gather=self._rules.gather)
        following = asyncio.ensure_future(
            fill(outbox, lambda outbox: into(outbox, self._events), lambda: self._end, Work(), _unforeseen)
        )
        try:
            await send_events(outbox, send, self._form)
        finally:
            outbox.close()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def into(outbox: Outbox, events: AsyncGenerator[bytes, None]) -> None:
    """Writes events as they come."""
    async with aclosing(events) as some:
        async for event in some:
            waits = outbox.write(event)
            if waits is not None:
                await waits


def _unforeseen(error: Exception) -> AntiphonError:
    FAULTS.error("a response cannot be followed", exc_info=error)
    return INTERNAL
