"""Responses while they are made, here or elsewhere: as they are now, their events, and their end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from msgspec.structs import replace

from antiphon.errors import AntiphonError
from antiphon.http.context import Context
from antiphon.http.following import events_of, making_key
from antiphon.http.journal import run_key
from antiphon.http.runs import EventsResponse, Run
from antiphon.wire.sse import DONE
from antiphon.wire.writer import StreamForm

from .archive import ResponseArchive
from .ending import ResponseCancelled
from .replay import replay
from .schema import Response
from .write import error_bytes, events_bytes

RESPONSES = StreamForm(lambda error: error_bytes(error) + DONE)
"""Streams of responses."""


def _nothing() -> int:
    return 0


@dataclass(slots=True)
class ResponseRun(Run):
    """A response while it is made: ``response``, as it was published last; of one that nobody may follow its end is.

    ``counted`` gives the tokens that the model has written of it, those that no client sees too.
    """

    response: Response = field(kw_only=True)
    counted: Callable[[], int] = field(default=_nothing, kw_only=True)

    @property
    def followed(self) -> bool:
        return not self.over and (self.response.background or (self.recorded and bool(self.log)))

    def cancelled(self) -> AntiphonError:
        return ResponseCancelled("The response was cancelled.")

    def publish(self, events: Sequence[bytes], response: Response) -> None:
        """Publishes events, and the response as it is after them."""
        self.response = response
        self.add(events)


def events_response(context: Context, events: AsyncGenerator[bytes, None], *, watched: bool = False) -> EventsResponse:
    """An answer that is the events of a response; ``watched``: whoever makes it looks whether the client hangs up."""
    return EventsResponse(events, context.rules, RESPONSES, watched=watched)


async def latest(context: Context, owner: str, id: str) -> Response:
    """The response as far as it is made. Raises `NotFoundError` where it is neither stored nor to be followed."""
    run = context.runs.followed(run_key(owner, id))
    if isinstance(run, ResponseRun):
        return run.response
    response = (await ResponseArchive(context.archive).response(owner, id)).response
    state = None
    if response.status in ("queued", "in_progress"):
        state = await context.stored_runs.state(run_key(owner, id))
    if state is not None and state.status != "over":
        return replace(response, status=state.status)
    if state is None and await _made_elsewhere(context, owner, id):
        return response
    return await ResponseArchive(context.archive).finished(owner, id)


async def check_known(context: Context, owner: str, id: str) -> None:
    """Raises `NotFoundError` for a response that is neither stored nor being made."""
    key = run_key(owner, id)
    if context.runs.followed(key) is None and await context.stored_runs.state(key) is None:
        await ResponseArchive(context.archive).response(owner, id)


async def events_after(context: Context, owner: str, id: str, after: int = -1) -> AsyncGenerator[bytes, None] | None:
    """The events of a response that is being made, or whose events are stored; None where there is no such.

    Of one that another server makes and does not record, ``after`` none: they come once it is made.
    """
    key = run_key(owner, id)
    run = context.runs.followed(key)
    if run is not None and not run.recorded:
        return run.follow(after)
    if await context.stored_runs.state(key) is not None:
        return events_of(context, key, after)
    if after < 0 and await _made_elsewhere(context, owner, id):
        return _once_made(context, owner, id)
    return None


async def _made_elsewhere(context: Context, owner: str, id: str) -> bool:
    """Whether another server makes it. A lease of our own is one that a faulty store did not let us release."""
    lease = await context.archive.store.lease(making_key(owner, id))
    return lease is not None and lease.holder != context.leases.holder


async def _once_made(context: Context, owner: str, id: str) -> AsyncGenerator[bytes, None]:
    await context.leases.until_free(making_key(owner, id))
    async with aclosing(replayed(await ResponseArchive(context.archive).finished(owner, id))) as events:
        async for event in events:
            yield event


async def replayed(response: Response) -> AsyncGenerator[bytes, None]:
    yield events_bytes(replay(response))
