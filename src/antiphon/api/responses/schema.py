"""The Responses API on the wire. Null means absent; fields that are not named here are ignored and counted."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.wire.definitions import GrammarText
from antiphon.wire.names.translate import GenerationFields
from antiphon.wire.prompt_notes import Notes
from antiphon.wire.sampling import StreamOptions

from .item_schema import InputItem, JsonObject, OutputItem


class TextFormat(msgspec.Struct, kw_only=True):
    """``pattern`` is for ``regex``, ``choices`` for ``choice``, ``grammar`` for ``grammar``.

    ``compact``: JSON is written without blanks.
    """

    type: Literal["text", "json_object", "json_schema", "regex", "choice", "grammar"]
    name: str | None = None
    description: str | None = None
    schema: JsonObject | bool | None = None
    strict: bool | None = None
    pattern: str | None = None
    choices: list[str] | None = None
    grammar: str | None = None
    compact: bool | None = None


class TextSettings(msgspec.Struct, kw_only=True):
    format: TextFormat | None = None
    verbosity: str | None = None


class ReasoningSettings(msgspec.Struct, kw_only=True):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: str | None = None


class CustomFormat(GrammarText, kw_only=True, omit_defaults=True):
    """The form of a custom tool's text: ``text`` for any, or ``grammar``."""

    type: str


class NamespacedTool(msgspec.Struct, kw_only=True):
    """A function or custom tool inside a ``namespace`` tool."""

    type: str = "function"
    name: str
    description: str | None = None
    parameters: JsonObject | bool | None = None
    strict: bool | None = None
    format: CustomFormat | None = None
    defer_loading: bool | None = None


class McpFilter(msgspec.Struct, kw_only=True):
    """Which tools of an MCP server are offered."""

    tool_names: list[str] | None = None
    read_only: bool | None = None


class McpApproval(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Tools of an MCP server whose calls are ``always`` or ``never`` to be approved; calls of the others always are."""

    always: McpFilter | None = None
    never: McpFilter | None = None


class CodeContainer(msgspec.Struct, kw_only=True):
    """The container in which code runs."""

    type: Literal["auto"]
    file_ids: list[str] | None = None
    memory_limit: str | None = None
    network_policy: JsonObject | None = None


class ResponsesTool(msgspec.Struct, kw_only=True):
    """``function``, ``custom``, ``namespace``; ``shell``, ``local_shell``, ``apply_patch`` and
    ``tool_search``, which the client runs too; ``web_search``, ``code_interpreter``, ``mcp``. Others are refused."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: JsonObject | bool | None = None
    strict: bool | None = None
    format: CustomFormat | None = None
    environment: JsonObject | None = None
    execution: str | None = None
    defer_loading: bool | None = None
    tools: list[NamespacedTool] | None = None
    server_label: str | None = None
    server_url: str | None = None
    connector_id: str | None = None
    authorization: str | None = None
    own_headers: dict[str, str] | None = msgspec.field(default=None, name="headers")
    allowed_tools: list[str] | McpFilter | None = None
    require_approval: Literal["always", "never"] | McpApproval | None = None
    server_description: str | None = None
    filters: JsonObject | None = None
    external_web_access: bool | None = None
    search_context_size: str | None = None
    user_location: JsonObject | None = None
    container: str | CodeContainer | None = None


class ChosenTool(msgspec.Struct, kw_only=True):
    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None


class ResponsesToolChoice(msgspec.Struct, kw_only=True):
    """``{type: function, name}``, ``{type: custom, name}``, ``{type: allowed_tools, mode, tools}``, or a type alone."""

    type: str
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None
    mode: Literal["auto", "required"] = "auto"
    tools: list[ChosenTool] | None = None


class ConversationRef(msgspec.Struct):
    id: str


class TokensRequest(GenerationFields, kw_only=True):
    """The parts of a prompt: the body of POST /v1/responses/input_tokens."""

    model: str | None = None
    input: str | list[InputItem] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | ConversationRef | None = None
    tools: list[ResponsesTool] | None = None
    tool_choice: str | ResponsesToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningSettings | None = None
    enable_thinking: bool | None = None
    thinking_token_budget: int | None = None
    text: TextSettings | None = None
    truncation: Literal["auto", "disabled"] | None = None


class CompactionSettings(msgspec.Struct, kw_only=True):
    """``compact_threshold``: tokens of a prompt beyond which it is compacted first; by default most of the context."""

    type: Literal["compaction"]
    compact_threshold: int | None = None


class ResponsesRequest(TokensRequest, kw_only=True):
    """The body of POST /v1/responses."""

    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    background: bool | None = None
    include: list[str] | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    finish: Literal["always"] | None = None
    top_logprobs: int | None = None
    return_token_ids: bool | None = None
    explain_prefix: bool | None = None
    prefix_policy: Literal["bridge", "template"] | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None
    service_tier: str | None = None
    context_management: list[CompactionSettings] | None = None


class ResponseError(msgspec.Struct, frozen=True):
    code: str
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    reason: Literal["max_output_tokens", "content_filter"]


class InputDetails(msgspec.Struct, frozen=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, and the settings that it was made with: all keys always, null where the schema allows it.

    Only the last three are there where they were requested alone.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: ConversationRef | None = None
    prompt_cache_key: str | None = None
    reasoning: JsonObject
    safety_identifier: str | None = None
    service_tier: str = "default"
    store: bool = True
    temperature: float
    text: JsonObject
    tool_choice: Any = "auto"
    tools: list[JsonObject] = []
    top_logprobs: int = 0
    top_p: float
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    truncation: Literal["auto", "disabled"] = "disabled"
    usage: ResponseUsage | None = None
    user: str | None = None
    metadata: dict[str, str] = {}
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    antiphon: Notes | msgspec.UnsetType = msgspec.UNSET


class CompactedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """``output`` is the ``input`` to go on with: the messages that stay, and one ``compaction`` item."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[JsonObject]
    usage: ResponseUsage


class DeletedResponse(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["response.deleted"] = "response.deleted"
    deleted: bool = True


class TokenCount(msgspec.Struct, frozen=True, kw_only=True):
    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: dict[str, str] = {}


class DeletedConversation(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


class ConversationCreate(msgspec.Struct, kw_only=True):
    items: list[InputItem] | None = None
    metadata: dict[str, str] | None = None


class ConversationUpdate(msgspec.Struct, kw_only=True):
    metadata: dict[str, str] | None = None


class ItemsCreate(msgspec.Struct, kw_only=True):
    items: list[InputItem]
