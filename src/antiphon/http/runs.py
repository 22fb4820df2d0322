"""Responses while they are made, so that other requests can find, follow and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.wire.json import encode
from antiphon.wire.responses.ending import ResponseCancelled
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.replay import replay
from antiphon.wire.responses.schema import Response
from antiphon.wire.responses.write import event_bytes
from antiphon.wire.sse import DONE
from antiphon.wire.writer import EVENT_STREAM, JSON

from .lifecycle import Work
from .sse import headers_of


@dataclass(slots=True)
class Run:
    """One response while it is made. ``log``: its events so far, if it runs in the background.

    ``response`` is the response as it was published last; of one that does not run in the background only the end is.
    """

    id: str
    owner: str
    response: Response
    work: Work = field(default_factory=Work)
    log: list[StreamEvent] = field(default_factory=list)
    over: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, events: Sequence[StreamEvent], response: Response) -> None:
        """Publishes events, and the response as it is after them."""
        self.log += events
        self.response = response
        self._wake()

    def close(self) -> None:
        """There will be no more events."""
        self.over = True
        self._wake()
        self._ended.set()

    async def follow(self, after: int = -1) -> AsyncGenerator[StreamEvent, None]:
        """Its events with a sequence number above ``after``, until it is over."""
        next = after + 1
        while True:
            while next < len(self.log):
                yield self.log[next]
                next += 1
            if self.over:
                return
            await self._changed.wait()

    async def cancel(self) -> None:
        """Stops the work, begun or not; returns when it has ended and its end is stored."""
        self.work.stop(ResponseCancelled("The response was cancelled."))
        await self._ended.wait()

    def _wake(self) -> None:
        """Wakes all followers that wait now; those that come later wait for the next change."""
        self._changed.set()
        self._changed = asyncio.Event()


class Runs:
    """All runs of this server by owner and id, and the tasks of those in the background."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, run: Run) -> None:
        self._runs[run.owner, run.id] = run

    def get(self, owner: str, id: str) -> Run | None:
        return self._runs.get((owner, id))

    def in_background(self, owner: str, id: str) -> Run | None:
        """The run, if others than the client that began it may read it."""
        run = self.get(owner, id)
        return run if run is not None and run.response.background else None

    def remove(self, run: Run) -> None:
        run.close()
        self._runs.pop((run.owner, run.id), None)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """The server stops: what runs in the background ends as failed, and is stored so."""
        for run in tuple(self._runs.values()):
            run.work.stop(AntiphonError("The server stopped before the response was whole.", code="draining"))
        await asyncio.gather(*self._tasks, return_exceptions=True)


class EventsResponse(HttpResponse):
    """Events of a run, or of a finished response; a client that hangs up stops following, and not the run."""

    def __init__(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers_of(EVENT_STREAM)})
        async with aclosing(self._events) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event_bytes(event), "more_body": True})
        await send({"type": "http.response.body", "body": DONE, "more_body": False})


async def replayed(response: Response) -> AsyncGenerator[StreamEvent, None]:
    for event in replay(response):
        yield event


def json_response(value: object) -> HttpResponse:
    return HttpResponse(encode(value), media_type=JSON)
