"""The events of a finished response once more: each text in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from msgspec.structs import replace

from .ending import LAST
from .event_schema import (
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
    ResponseCreated,
    ResponseInProgress,
    StreamEvent,
    WebSearchCallCompleted,
    WebSearchCallInProgress,
    WebSearchCallSearching,
)
from .item_schema import (
    CodeInterpreterCallItem,
    CompactionItem,
    CustomToolCallItem,
    FunctionCallItem,
    McpApprovalRequestItem,
    McpCallItem,
    McpListToolsItem,
    MessageItem,
    OutputItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    WebSearchCallItem,
)
from .open_items import Place
from .schema import Response


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
    """What happened between an item's beginning and its end."""
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
        case CompactionItem() | McpApprovalRequestItem():
            pass
        case _:
            assert_never(item)


def _run(
    item: WebSearchCallItem | CodeInterpreterCallItem | McpCallItem | McpListToolsItem, at: dict[str, Any]
) -> Iterator[StreamEvent]:
    """What happened inside a call that ran here, or a listing."""
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
        case WebSearchCallItem():
            return replace(item, status="in_progress")
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
