"""Responses that are being made, so that another request can find, follow and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from dataclasses import dataclass, field

from antiphon.api.http.lifecycle import Work
from antiphon.errors import AntiphonError, ConflictError
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.schema import Response


class ResponseCancelled(ConflictError):
    """A client cancelled the response; told only to those who wait for it."""

    default_code = "response_cancelled"


@dataclass(slots=True)
class Run:
    """One response while it is made. ``log`` holds its events, where followers may come late."""

    id: str
    owner: str
    response: Response
    work: Work = field(default_factory=Work)
    log: list[StreamEvent] = field(default_factory=list)
    over: bool = False
    cancelled: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, events: Sequence[StreamEvent], response: Response) -> None:
        self.log += events
        self.response = response
        self._wake()

    def close(self) -> None:
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
            await self._news.wait()

    async def cancel(self) -> None:
        """Stops the work, begun or not; returns when it has ended and its end is kept."""
        self.cancelled = True
        self.work.stop(ResponseCancelled("The response was cancelled."))
        await self._ended.wait()

    def _wake(self) -> None:
        """Wakes all who wait now; who comes later waits for the next news."""
        self._news.set()
        self._news = asyncio.Event()


class Runs:
    """By owner and id; and the tasks of those that run without a client."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, run: Run) -> None:
        self._runs[run.owner, run.id] = run

    def get(self, owner: str, id: str) -> Run | None:
        return self._runs.get((owner, id))

    def remove(self, run: Run) -> None:
        run.close()
        self._runs.pop((run.owner, run.id), None)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """The server stops: what runs in the background ends as failed, and is kept so."""
        for run in tuple(self._runs.values()):
            run.work.stop(AntiphonError("The server stopped before the response was whole.", code="draining"))
        await asyncio.gather(*self._tasks, return_exceptions=True)
