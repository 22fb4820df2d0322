"""Requests of Anthropic's Messages on the wire. Null means absent; fields that are not named here are noted."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.api.chat.schema import JsonObject, ResponseFormatObject
from antiphon.wire.sampling import SamplingFields


class InputBlock(msgspec.Struct, kw_only=True):
    """A content block of a request; which fields it has goes by its ``type``. ``input`` is an object as it is spelt."""

    type: str
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    tool_use_id: str | None = None
    tool_name: str | None = None
    content: str | list[InputBlock] | InputBlock | None = None
    is_error: bool | None = None
    citations: Any = None
    cache_control: Any = None
    caller: Any = None
    source: Any = None
    title: Any = None
    context: Any = None
    # Of results of the server's own tools.
    url: str | None = None
    page_age: str | None = None
    retrieved_at: str | None = None
    encrypted_content: str | None = None
    error_code: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    return_code: int | None = None


class TextInput(msgspec.Struct, kw_only=True):
    """A text block of ``system``."""

    type: str = "text"
    text: str | None = None
    citations: Any = None
    cache_control: Any = None


class MessageParam(msgspec.Struct, kw_only=True):
    """One message of a request. ``system`` may stand between the others; its text is the operator's."""

    role: str
    content: str | list[InputBlock]


class MessageTool(msgspec.Struct, kw_only=True):
    """A tool; without ``type``, or with ``custom``, it is the client's own, as are ``bash_…``, ``text_editor_…`` and
    ``memory_…``, whose arguments are known; else it runs in the server. ``max_characters``: of a text editor's.

    One with ``defer_loading`` is no part of the prompt until a result refers to it (``tool_reference``).
    """

    name: str | None = None
    description: str | None = None
    input_schema: JsonObject | None = None
    type: str | None = None
    strict: bool | None = None
    input_examples: Any = None
    defer_loading: bool | None = None
    eager_input_streaming: Any = None
    allowed_callers: list[str] | None = None
    cache_control: Any = None
    max_characters: int | None = None
    max_uses: int | None = None
    allowed_domains: list[str] | None = None
    blocked_domains: list[str] | None = None
    user_location: Any = None


class MessageToolChoice(msgspec.Struct, kw_only=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingConfig(msgspec.Struct, kw_only=True):
    """Whether the answer has thinking blocks; ``budget_tokens`` bounds the thinking of ``enabled``.

    ``display``: ``omitted`` leaves their text out; clients have more words for how it is shown.
    """

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None
    display: str | None = None


class OutputConfig(msgspec.Struct, kw_only=True):
    """``format`` is what the answer must be."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: JsonObject | None = None


class ContextEdit(msgspec.Struct, kw_only=True):
    type: str
    keep: Any = None
    trigger: Any = None
    clear_at_least: Any = None
    exclude_tools: Any = None
    clear_tool_inputs: Any = None


class ContextEdits(msgspec.Struct, kw_only=True):
    edits: list[ContextEdit] | None = None


class MessageTokensRequest(SamplingFields, kw_only=True):
    """The body of POST /v1/messages/count_tokens, which is that of the message to come, or the less of it."""

    model: str
    messages: list[MessageParam]
    max_tokens: int | None = None
    system: str | list[TextInput] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    tools: list[MessageTool] | None = None
    tool_choice: MessageToolChoice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    response_format: ResponseFormatObject | None = None
    metadata: Any = None
    cache_control: Any = None
    context_management: ContextEdits | None = None
    # What no answer depends on.
    service_tier: Any = None
    speed: Any = None
    inference_geo: Any = None
    diagnostics: Any = None
    user_profile_id: Any = None
    workspace_id: Any = None
    billing_policy: Any = None
    fallbacks: Any = None
    fallback_credit_token: Any = None
    # What would change what the model can do, and is refused by name where it is there.
    container: Any = None
    mcp_servers: Any = None
    thread: Any = None
    compaction: Any = None


class MessagesRequest(MessageTokensRequest, kw_only=True):
    """The body of POST /v1/messages."""

    max_tokens: int
