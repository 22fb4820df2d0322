"""The events of a streamed response: these names and no others, because clients break on unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from antiphon.api.chat.schema import TokenLogprobEntry
from antiphon.conversation import FinishReason, Usage
from antiphon.errors import AntiphonError, ConflictError, ContextError, OverloadedError, RequestError

from .item_schema import Annotation, OutputItem, OutputText, ReasoningText
from .schema import IncompleteDetails, InputDetails, OutputDetails, Response, ResponseError, ResponseUsage


class StreamEvent(msgspec.Struct, kw_only=True, tag_field="type"):
    """``sequence_number`` counts a response's events from 0; the writer sets it.

    ``token_ids``: what was sampled since the last event that has them, where ids were requested.
    """

    sequence_number: int = -1
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class ResponseQueued(StreamEvent, kw_only=True, tag="response.queued"):
    response: Response


class ResponseCreated(StreamEvent, kw_only=True, tag="response.created"):
    response: Response


class ResponseInProgress(StreamEvent, kw_only=True, tag="response.in_progress"):
    response: Response


class ResponseCompleted(StreamEvent, kw_only=True, tag="response.completed"):
    response: Response


class ResponseIncomplete(StreamEvent, kw_only=True, tag="response.incomplete"):
    response: Response


class ResponseFailed(StreamEvent, kw_only=True, tag="response.failed"):
    response: Response


class StreamError(StreamEvent, kw_only=True, tag="error"):
    code: str | None
    message: str
    param: str | None


class OutputItemAdded(StreamEvent, kw_only=True, tag="response.output_item.added"):
    output_index: int
    item: OutputItem


class OutputItemDone(StreamEvent, kw_only=True, tag="response.output_item.done"):
    output_index: int
    item: OutputItem


class ItemEvent(StreamEvent, kw_only=True):
    """Something happened inside the item ``item_id``, the ``output_index``-th of the response."""

    item_id: str
    output_index: int


class ContentPartAdded(ItemEvent, kw_only=True, tag="response.content_part.added"):
    content_index: int = 0
    part: OutputText | ReasoningText


class ContentPartDone(ItemEvent, kw_only=True, tag="response.content_part.done"):
    content_index: int = 0
    part: OutputText | ReasoningText


class OutputTextDelta(ItemEvent, kw_only=True, tag="response.output_text.delta"):
    content_index: int = 0
    delta: str
    logprobs: list[TokenLogprobEntry] = []


class OutputTextAnnotationAdded(ItemEvent, kw_only=True, tag="response.output_text.annotation.added"):
    content_index: int = 0
    annotation_index: int
    annotation: Annotation


class OutputTextDone(ItemEvent, kw_only=True, tag="response.output_text.done"):
    content_index: int = 0
    text: str
    logprobs: list[TokenLogprobEntry] = []


class ReasoningTextDelta(ItemEvent, kw_only=True, tag="response.reasoning_text.delta"):
    content_index: int = 0
    delta: str


class ReasoningTextDone(ItemEvent, kw_only=True, tag="response.reasoning_text.done"):
    content_index: int = 0
    text: str


class FunctionCallArgumentsDelta(ItemEvent, kw_only=True, tag="response.function_call_arguments.delta"):
    delta: str


class FunctionCallArgumentsDone(ItemEvent, kw_only=True, tag="response.function_call_arguments.done"):
    name: str
    arguments: str


class CustomToolCallInputDelta(ItemEvent, kw_only=True, tag="response.custom_tool_call_input.delta"):
    delta: str


class CustomToolCallInputDone(ItemEvent, kw_only=True, tag="response.custom_tool_call_input.done"):
    input: str


class WebSearchCallInProgress(ItemEvent, kw_only=True, tag="response.web_search_call.in_progress"):
    pass


class WebSearchCallSearching(ItemEvent, kw_only=True, tag="response.web_search_call.searching"):
    pass


class WebSearchCallCompleted(ItemEvent, kw_only=True, tag="response.web_search_call.completed"):
    pass


class CodeInterpreterCallInProgress(ItemEvent, kw_only=True, tag="response.code_interpreter_call.in_progress"):
    pass


class CodeInterpreterCallCodeDelta(ItemEvent, kw_only=True, tag="response.code_interpreter_call_code.delta"):
    delta: str


class CodeInterpreterCallCodeDone(ItemEvent, kw_only=True, tag="response.code_interpreter_call_code.done"):
    code: str


class CodeInterpreterCallInterpreting(ItemEvent, kw_only=True, tag="response.code_interpreter_call.interpreting"):
    pass


class CodeInterpreterCallCompleted(ItemEvent, kw_only=True, tag="response.code_interpreter_call.completed"):
    pass


class McpListToolsInProgress(ItemEvent, kw_only=True, tag="response.mcp_list_tools.in_progress"):
    pass


class McpListToolsCompleted(ItemEvent, kw_only=True, tag="response.mcp_list_tools.completed"):
    pass


class McpListToolsFailed(ItemEvent, kw_only=True, tag="response.mcp_list_tools.failed"):
    pass


class McpCallInProgress(ItemEvent, kw_only=True, tag="response.mcp_call.in_progress"):
    pass


class McpCallArgumentsDelta(ItemEvent, kw_only=True, tag="response.mcp_call_arguments.delta"):
    delta: str


class McpCallArgumentsDone(ItemEvent, kw_only=True, tag="response.mcp_call_arguments.done"):
    arguments: str


class McpCallCompleted(ItemEvent, kw_only=True, tag="response.mcp_call.completed"):
    pass


class McpCallFailed(ItemEvent, kw_only=True, tag="response.mcp_call.failed"):
    pass


# How a response ends: its status, its usage, its error.

LastStatus = Literal["completed", "incomplete", "failed", "cancelled"]
LAST: Mapping[LastStatus, type[ResponseCompleted] | type[ResponseIncomplete] | type[ResponseFailed]] = {
    "completed": ResponseCompleted,
    "incomplete": ResponseIncomplete,
    "cancelled": ResponseIncomplete,
    "failed": ResponseFailed,
}
"""The last event of a response. Clients know none for a cancelled one: only its status differs."""


class ResponseCancelled(ConflictError):
    """A client cancelled the response; raised to those who wait for it."""

    default_code = "response_cancelled"


class Ending(msgspec.Struct, frozen=True):
    status: LastStatus
    details: IncompleteDetails | None = None
    error: ResponseError | None = None


_CUT = Ending("incomplete", IncompleteDetails("max_output_tokens"))
_LOST = Ending("failed", error=ResponseError("server_error", "The answer was not finished."))
ENDINGS: Mapping[FinishReason, Ending] = {
    FinishReason.STOP_EOS: Ending("completed"),
    FinishReason.STOP_SEQUENCE: Ending("completed"),
    FinishReason.TOOL_CALL: Ending("completed"),
    FinishReason.LENGTH_OUTPUT: _CUT,
    FinishReason.LENGTH_CONTEXT: _CUT,
    FinishReason.CONTENT_FILTER: Ending("incomplete", IncompleteDetails("content_filter")),
    FinishReason.CANCELLED: Ending("cancelled"),
    FinishReason.ERROR: _LOST,
    FinishReason.TIMEOUT: _LOST,
}
"""Resolution X-02, in this API's words."""


def response_usage(usage: Usage) -> ResponseUsage:
    """Cached tokens are 0 where the engine does not count them."""
    return ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=InputDetails(usage.cached_tokens or 0),
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputDetails(usage.reasoning_tokens),
        total_tokens=usage.total_tokens,
    )


def response_error(error: AntiphonError) -> ResponseError:
    """The error under the code that clients act on."""
    return ResponseError(_code(error), message_of(error))


def message_of(error: AntiphonError) -> str:
    return f"{error.message} {error.hint}" if error.hint else error.message


def _code(error: AntiphonError) -> str:
    match error:
        case ContextError():
            return "context_length_exceeded"
        case OverloadedError():
            return "rate_limit_exceeded"
        case RequestError():
            return "invalid_prompt"
        case _:
            return "server_error"
