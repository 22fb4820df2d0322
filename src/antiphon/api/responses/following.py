"""Responses while they are made, here or elsewhere: as they are now, their events, and their end."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, assert_never

from msgspec.structs import replace

from antiphon.errors import AntiphonError
from antiphon.http.context import Context
from antiphon.http.following import events_of, making_key
from antiphon.http.journal import run_key
from antiphon.http.runs import EventsResponse, Run
from antiphon.wire.writer import DONE, StreamForm

from .archive import ResponseArchive
from .event_schema import (
    LAST,
    CodeInterpreterCallCodeDelta,
    CodeInterpreterCallCodeDone,
    CodeInterpreterCallCompleted,
    CodeInterpreterCallInProgress,
    CodeInterpreterCallInterpreting,
    ContentPartAdded,
    ContentPartDone,
    CustomToolCallInputDelta,
    CustomToolCallInputDone,
    FunctionCallArgumentsDelta,
    FunctionCallArgumentsDone,
    McpCallArgumentsDelta,
    McpCallArgumentsDone,
    McpCallCompleted,
    McpCallFailed,
    McpCallInProgress,
    McpListToolsCompleted,
    McpListToolsFailed,
    McpListToolsInProgress,
    OutputItemAdded,
    OutputItemDone,
    OutputTextAnnotationAdded,
    OutputTextDelta,
    OutputTextDone,
    ReasoningTextDelta,
    ReasoningTextDone,
    ResponseCancelled,
    ResponseCreated,
    ResponseInProgress,
    StreamEvent,
    WebSearchCallCompleted,
    WebSearchCallInProgress,
    WebSearchCallSearching,
)
from .item_schema import (
    NOTHING,
    ApplyPatchCallItem,
    CodeInterpreterCallItem,
    CompactionItem,
    CustomToolCallItem,
    FunctionCallItem,
    LocalShellCallItem,
    McpApprovalRequestItem,
    McpCallItem,
    McpListToolsItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ShellCallItem,
    ToolSearchCallItem,
    WebSearchCallItem,
)
from .open_items import Place
from .schema import Response
from .write import error_bytes, events_bytes

# The events of a finished response once more: each text in one piece.


def replay(response: Response) -> list[StreamEvent]:
    """The events of a finished response, in the order in which they came when it was made."""
    events = list(_events(response))
    for number, event in enumerate(events):
        event.sequence_number = number
    return events


def _events(response: Response) -> Iterator[StreamEvent]:
    begun = replace(
        response, status="in_progress", output=[], usage=None, completed_at=None, error=None, incomplete_details=None
    )
    yield ResponseCreated(response=begun)
    yield ResponseInProgress(response=begun)
    for index, item in enumerate(response.output):
        yield OutputItemAdded(output_index=index, item=_empty(item))
        yield from _inside(item, Place(item.id, index))
        yield OutputItemDone(output_index=index, item=item)
    assert response.status != "queued", "not finished"
    assert response.status != "in_progress", "not finished"
    yield LAST[response.status](response=response)


def _inside(item: OutputItem, place: Place) -> Iterator[StreamEvent]:
    """Yields the events between an item's beginning and its end."""
    at = place.at
    match item:
        case ReasoningItem():
            for part in item.content:
                yield ContentPartAdded(**at, part=ReasoningText(""))
                yield ReasoningTextDelta(**at, delta=part.text)
                yield ReasoningTextDone(**at, text=part.text)
                yield ContentPartDone(**at, part=part)
        case MessageItem():
            for text in item.content:
                yield from _text(text, place)
        case FunctionCallItem():
            yield FunctionCallArgumentsDelta(**at, delta=item.arguments)
            yield FunctionCallArgumentsDone(**at, name=item.name, arguments=item.arguments)
        case CustomToolCallItem():
            yield CustomToolCallInputDelta(**at, delta=item.input)
            yield CustomToolCallInputDone(**at, input=item.input)
        case WebSearchCallItem() | CodeInterpreterCallItem() | McpCallItem() | McpListToolsItem():
            yield from _run(item, at)
        case (
            CompactionItem()
            | McpApprovalRequestItem()
            | LocalShellCallItem()
            | ShellCallItem()
            | ApplyPatchCallItem()
            | ToolSearchCallItem()
        ):
            pass
        case _:
            assert_never(item)


def _run(
    item: WebSearchCallItem | CodeInterpreterCallItem | McpCallItem | McpListToolsItem, at: dict[str, Any]
) -> Iterator[StreamEvent]:
    """Yields the events inside a call that ran here, or a listing."""
    match item:
        case WebSearchCallItem():
            yield WebSearchCallInProgress(**at)
            yield WebSearchCallSearching(**at)
            yield WebSearchCallCompleted(**at)
        case CodeInterpreterCallItem():
            yield CodeInterpreterCallInProgress(**at)
            yield CodeInterpreterCallCodeDelta(**at, delta=item.code)
            yield CodeInterpreterCallCodeDone(**at, code=item.code)
            yield CodeInterpreterCallInterpreting(**at)
            yield CodeInterpreterCallCompleted(**at)
        case McpCallItem():
            yield McpCallInProgress(**at)
            yield McpCallArgumentsDelta(**at, delta=item.arguments)
            yield McpCallArgumentsDone(**at, arguments=item.arguments)
            yield McpCallCompleted(**at) if item.error is None else McpCallFailed(**at)
        case McpListToolsItem():
            yield McpListToolsInProgress(**at)
            yield McpListToolsCompleted(**at) if item.error is None else McpListToolsFailed(**at)
        case _:
            assert_never(item)


def _text(part: OutputText, place: Place) -> Iterator[StreamEvent]:
    yield ContentPartAdded(**place.at, part=OutputText(text=""))
    yield OutputTextDelta(**place.at, delta=part.text, logprobs=part.logprobs)
    for i, annotation in enumerate(part.annotations):
        yield OutputTextAnnotationAdded(**place.at, annotation_index=i, annotation=annotation)
    yield OutputTextDone(**place.at, text=part.text, logprobs=part.logprobs)
    yield ContentPartDone(**place.at, part=part)


def _empty(item: OutputItem) -> OutputItem:
    """The item as it was when it began."""
    match item:
        case ReasoningItem():
            return ReasoningItem(id=item.id, status="in_progress")
        case MessageItem():
            return replace(item, status="in_progress", content=[])
        case FunctionCallItem():
            return replace(item, status="in_progress", arguments="")
        case CustomToolCallItem():
            return replace(item, status="in_progress", input="")
        case WebSearchCallItem() | LocalShellCallItem() | ShellCallItem() | ApplyPatchCallItem() | ToolSearchCallItem():
            return replace(item, status="in_progress", action=NOTHING.get(type(item), item.action))
        case CodeInterpreterCallItem():
            return replace(item, status="in_progress", code="", outputs=None)
        case McpCallItem():
            return replace(item, status="in_progress", arguments="", output=None, error=None)
        case McpListToolsItem():
            return replace(item, tools=[], error=None)
        case CompactionItem() | McpApprovalRequestItem():
            return item
        case _:
            assert_never(item)


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
