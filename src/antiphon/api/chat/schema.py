"""Chat completions on the wire. Null means absent; fields that are not named here are ignored and counted."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.wire.definitions import GrammarText
from antiphon.wire.prompt_notes import Notes, PromptLogprobs
from antiphon.wire.sampling import SamplingFields, StreamOptions

JsonObject = dict[str, Any]


class ContentPart(msgspec.Struct):
    """``text``, ``input_text``, ``output_text``: their text; ``refusal``: its refusal; ``image_url``: an image, by an
    address or as an object with its ``url``; ``file``: a text, as an object with its ``file_data`` and ``filename``.
    Other types are refused."""

    type: str = "text"
    text: str | None = None
    refusal: str | None = None
    image_url: Any = None
    file: Any = None


Content = str | list[ContentPart] | None


class FunctionCall(msgspec.Struct):
    """``arguments``: the JSON text as the model wrote it; an object is accepted and stored as its own text."""

    name: str
    arguments: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b'""'))


class CustomCall(msgspec.Struct, frozen=True):
    name: str
    input: str


class ToolCall(msgspec.Struct):
    """A call of a function, or of a custom tool, which has one text."""

    id: str
    function: FunctionCall | None = None
    type: Literal["function", "custom"] = "function"
    custom: CustomCall | None = None


class ChatMessage(msgspec.Struct):
    """One message of a request. ``reasoning`` and ``reasoning_content`` are two names of one field."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Content = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None
    function_call: FunctionCall | None = None


class FunctionDefinition(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: JsonObject | bool | None = None
    strict: bool | None = None


class CustomFormat(msgspec.Struct):
    """``text``: any; ``grammar``: what a grammar lets through."""

    type: str
    grammar: GrammarText | None = None


class CustomDefinition(msgspec.Struct):
    name: str
    description: str | None = None
    format: CustomFormat | None = None


class Tool(msgspec.Struct):
    type: str
    function: FunctionDefinition | None = None
    custom: CustomDefinition | None = None


class ToolName(msgspec.Struct):
    name: str


class NamedTool(msgspec.Struct):
    function: ToolName | None = None
    type: Literal["function", "custom"] = "function"
    custom: ToolName | None = None


class AllowedTools(msgspec.Struct):
    tools: list[NamedTool]
    mode: Literal["auto", "required"] = "auto"


class ToolChoiceObject(msgspec.Struct):
    type: Literal["function", "custom", "allowed_tools"]
    function: ToolName | None = None
    custom: ToolName | None = None
    allowed_tools: AllowedTools | None = None


class JsonSchemaFormat(msgspec.Struct):
    name: str
    description: str | None = None
    schema: JsonObject | bool | None = None
    strict: bool | None = None


class ResponseFormatObject(msgspec.Struct):
    """``pattern`` is for ``regex``, ``choices`` for ``choice``, ``grammar`` for ``grammar``.

    ``compact``: JSON is written without blanks.
    """

    type: Literal["text", "json_object", "json_schema", "regex", "choice", "grammar"]
    json_schema: JsonSchemaFormat | None = None
    pattern: str | None = None
    choices: list[str] | None = None
    grammar: str | None = None
    compact: bool | None = None


class ChatRequest(SamplingFields, kw_only=True):
    """The body of POST /v1/chat/completions. With ``session_id``, ``messages`` are a session's next turn."""

    messages: list[ChatMessage]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    prompt_logprobs: int | None = None
    return_token_ids: bool | None = None
    explain_prefix: bool | None = None
    prefix_policy: Literal["bridge", "template"] | None = None
    ignore_eos: bool | None = None
    tools: list[Tool] | None = None
    tool_choice: str | ToolChoiceObject | None = None
    parallel_tool_calls: bool | None = None
    server_tools: bool | list[str] | None = None
    response_format: ResponseFormatObject | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    enable_thinking: bool | None = None
    thinking_token_budget: int | None = None
    chat_template_kwargs: JsonObject | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    error_behavior: Literal["error", "truncate"] | None = None
    user: str | None = None
    metadata: JsonObject | None = None
    store: bool | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None
    session_id: int | str | None = None
    sequence_start: bool | None = None
    sequence_end: bool | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    min_tokens: int | None = None
    include_stop_str_in_output: bool | None = None
    # Honoured in one value only: the others are refused by name (`read.py`), never ignored.
    best_of: int | None = None


class LogprobEntry(msgspec.Struct, frozen=True):
    """``bytes`` has what ``token`` cannot: part of a character."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobEntry(msgspec.Struct, frozen=True):
    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[LogprobEntry]


class ChoiceLogprobs(msgspec.Struct, frozen=True):
    content: list[TokenLogprobEntry] | None = None
    refusal: None = None


class CalledFunction(msgspec.Struct, frozen=True):
    name: str
    arguments: str


class AnswerToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """It has ``function`` or ``custom``, as its ``type`` says."""

    id: str
    type: Literal["function", "custom"] = "function"
    function: CalledFunction | msgspec.UnsetType = msgspec.UNSET
    custom: CustomCall | msgspec.UnsetType = msgspec.UNSET


class AnswerMessage(msgspec.Struct, frozen=True, kw_only=True):
    """``reasoning`` (under both its names) only where the server's owner exposes it."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: msgspec.UnsetType | None = None
    tool_calls: list[AnswerToolCall] | msgspec.UnsetType = msgspec.UNSET
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    message: AnswerMessage
    logprobs: ChoiceLogprobs | msgspec.UnsetType | None = None
    finish_reason: str
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int = 0


class CompletionDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class CompletionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """All choices together; the prompt, which they share, once."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails | msgspec.UnsetType = msgspec.UNSET
    completion_tokens_details: CompletionDetails | msgspec.UnsetType = msgspec.UNSET


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that does not stream. The last four are there where they were requested."""

    id: str
    object: Literal["chat.completion", "chat.completions"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: CompletionUsage
    system_fingerprint: str | msgspec.UnsetType | None = None
    service_tier: str | msgspec.UnsetType = msgspec.UNSET
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    prompt_logprobs: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET
    antiphon: Notes | msgspec.UnsetType = msgspec.UNSET


class FunctionDelta(msgspec.Struct, frozen=True, kw_only=True):
    name: str | msgspec.UnsetType = msgspec.UNSET
    arguments: str


class CustomDelta(msgspec.Struct, frozen=True, kw_only=True):
    name: str | msgspec.UnsetType = msgspec.UNSET
    input: str


class ToolCallDelta(msgspec.Struct, frozen=True, kw_only=True):
    """It has ``function`` or ``custom``, as the call's ``type`` says."""

    index: int
    id: str | msgspec.UnsetType = msgspec.UNSET
    type: Literal["function", "custom"] | msgspec.UnsetType = msgspec.UNSET
    function: FunctionDelta | msgspec.UnsetType = msgspec.UNSET
    custom: CustomDelta | msgspec.UnsetType = msgspec.UNSET


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    role: Literal["assistant"] | msgspec.UnsetType = msgspec.UNSET
    content: str | msgspec.UnsetType = msgspec.UNSET
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET
    tool_calls: list[ToolCallDelta] | msgspec.UnsetType = msgspec.UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | msgspec.UnsetType | None = None
    finish_reason: str | None = None
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET


class ChatChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. ``usage`` is in the last, when the request has ``include_usage``.

    The last two are in the first event, where they were requested; ``service_tier`` is in each, where it was.
    """

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | msgspec.UnsetType = msgspec.UNSET
    system_fingerprint: str | msgspec.UnsetType | None = None
    service_tier: str | msgspec.UnsetType = msgspec.UNSET
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    antiphon: Notes | msgspec.UnsetType = msgspec.UNSET
