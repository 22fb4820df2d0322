"""Answers of Anthropic's Messages on the wire: whole, and as events, each with the name of its type."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

StopReason = Literal[
    "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"
]
ServerToolName = Literal["web_search", "web_fetch", "code_execution"]
ServerToolErrorCode = Literal[
    "invalid_tool_input", "unavailable", "max_uses_exceeded", "too_many_requests", "execution_time_exceeded",
    "url_not_accessible",
]  # fmt: skip


class TextBlock(msgspec.Struct, tag="text", kw_only=True):
    text: str


class ThinkingBlock(msgspec.Struct, tag="thinking", kw_only=True):
    """``thinking`` is empty where the server hides reasoning; ``signature`` is the reasoning, encrypted."""

    thinking: str
    signature: str


class ToolUseBlock(msgspec.Struct, tag="tool_use", kw_only=True):
    id: str
    name: str
    input: dict[str, Any]


class ServerToolUseBlock(msgspec.Struct, tag="server_tool_use", kw_only=True):
    """A call that runs here. Pages that are opened, or searched for a text, are ``web_fetch``."""

    id: str
    name: ServerToolName
    input: dict[str, Any]


class WebSearchResult(msgspec.Struct, tag="web_search_result", kw_only=True):
    """A page that was found. The first one's ``encrypted_content`` is all that the model read of the search."""

    url: str
    title: str
    encrypted_content: str
    page_age: str | None = None


class WebSearchError(msgspec.Struct, tag="web_search_tool_result_error"):
    error_code: ServerToolErrorCode


class WebSearchToolResultBlock(msgspec.Struct, tag="web_search_tool_result", kw_only=True):
    tool_use_id: str
    content: list[WebSearchResult] | WebSearchError


class PlainTextSource(msgspec.Struct, tag="text", kw_only=True):
    media_type: Literal["text/plain"] = "text/plain"
    data: str


class DocumentBlock(msgspec.Struct, tag="document", kw_only=True):
    source: PlainTextSource
    title: str | None = None


class WebFetchResult(msgspec.Struct, tag="web_fetch_result", kw_only=True):
    """The part of a page that the model read."""

    url: str
    content: DocumentBlock
    retrieved_at: str | None = None


class WebFetchError(msgspec.Struct, tag="web_fetch_tool_result_error"):
    error_code: ServerToolErrorCode


class WebFetchToolResultBlock(msgspec.Struct, tag="web_fetch_tool_result", kw_only=True):
    tool_use_id: str
    content: WebFetchResult | WebFetchError


class CodeExecutionResult(msgspec.Struct, tag="code_execution_result", kw_only=True):
    """``stdout`` is all that the code printed, errors too; ``return_code`` is 1 where one ended it."""

    stdout: str
    stderr: str = ""
    return_code: int
    content: list[Any] = []


class CodeExecutionError(msgspec.Struct, tag="code_execution_tool_result_error"):
    error_code: ServerToolErrorCode


class CodeExecutionToolResultBlock(msgspec.Struct, tag="code_execution_tool_result", kw_only=True):
    tool_use_id: str
    content: CodeExecutionResult | CodeExecutionError


ServerToolResultBlock = WebSearchToolResultBlock | WebFetchToolResultBlock | CodeExecutionToolResultBlock
AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock | ServerToolUseBlock | ServerToolResultBlock


class OutputTokensDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int


class ServerToolUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How many searches and pages there were."""

    web_search_requests: int
    web_fetch_requests: int


class MessageUsage(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt has all three counts of input together; those of the cache are there where the engine reports them."""

    input_tokens: int
    cache_creation_input_tokens: int | UnsetType = UNSET
    cache_read_input_tokens: int | UnsetType = UNSET
    output_tokens: int
    output_tokens_details: OutputTokensDetails | UnsetType = UNSET
    server_tool_use: ServerToolUsage | UnsetType = UNSET
    service_tier: Literal["standard"] = "standard"


class StopDetails(msgspec.Struct, frozen=True):
    type: Literal["refusal"] = "refusal"
    category: str | None = None
    explanation: str | None = None


class AppliedEdits(msgspec.Struct, frozen=True):
    """The edits of the context that were made for the answer: none."""

    applied_edits: list[dict[str, Any]] = []


class MessageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that does not stream, and what a stream begins with.

    ``context_management`` is there where the request has it.
    """

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    stop_details: StopDetails | UnsetType = UNSET
    usage: MessageUsage
    context_management: AppliedEdits | UnsetType = UNSET


class MessageTokens(msgspec.Struct, frozen=True):
    """How many tokens the prompt of a request has."""

    input_tokens: int


class TextBlockDelta(msgspec.Struct, tag="text_delta"):
    text: str


class ThinkingBlockDelta(msgspec.Struct, tag="thinking_delta"):
    thinking: str


class SignatureDelta(msgspec.Struct, tag="signature_delta"):
    """Takes the place of the block's signature."""

    signature: str


class InputJsonDelta(msgspec.Struct, tag="input_json_delta"):
    partial_json: str


BlockDelta = TextBlockDelta | ThinkingBlockDelta | SignatureDelta | InputJsonDelta


class MessageStart(msgspec.Struct, tag="message_start"):
    message: MessageAnswer


class ContentBlockStart(msgspec.Struct, tag="content_block_start"):
    index: int
    content_block: AnswerBlock


class ContentBlockDelta(msgspec.Struct, tag="content_block_delta"):
    index: int
    delta: BlockDelta


class ContentBlockStop(msgspec.Struct, tag="content_block_stop"):
    index: int


class StopChange(msgspec.Struct, kw_only=True):
    """How the message ended."""

    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: StopDetails | UnsetType = UNSET


class MessageDelta(msgspec.Struct, tag="message_delta"):
    """``usage`` is of the whole message."""

    delta: StopChange
    usage: MessageUsage
    context_management: AppliedEdits | UnsetType = UNSET


class MessageStop(msgspec.Struct, tag="message_stop"):
    """The last event."""


class Ping(msgspec.Struct, tag="ping"):
    """A sign of life."""


MessageEvent = (
    MessageStart | ContentBlockStart | ContentBlockDelta | ContentBlockStop | MessageDelta | MessageStop | Ping
)
