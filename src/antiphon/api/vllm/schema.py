"""Requests of ids, what an engine answers to them, and chats that are made of that, in vLLM's words."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.api.chat.schema import ChatChunk, ChatCompletion, ChatRequest, CompletionUsage
from antiphon.api.completions.schema import Completion, CompletionRequest
from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.openapi.parts import Described, operation, schema
from antiphon.api.responses.schema import ResponsesRequest
from antiphon.wire.prompt_notes import PromptLogprobs
from antiphon.wire.sampling import StreamOptions

# Prompts.


class RenderChatRequest(ChatRequest, kw_only=True):
    """A chat request. ``return_token_offsets``: where in the prompt's text each token stands."""

    request_id: str | None = None
    priority: int | None = None
    return_token_offsets: bool | None = None


class RenderCompletionRequest(CompletionRequest, kw_only=True):
    """A completion request, with the same fields beside."""

    request_id: str | None = None
    priority: int | None = None
    return_token_offsets: bool | None = None


class GenerateRequest(msgspec.Struct, kw_only=True, omit_defaults=False):
    """Ids, and how to sample behind them. ``sampling_params`` has vLLM's fields.

    ``output_mode``: what the answer has beside ids. ``return_token_ids``: it has the prompt's, too.
    """

    request_id: str | None = None
    token_ids: list[int]
    sampling_params: dict[str, Any] = msgspec.field(default_factory=dict)
    model: str | None = None
    token_offsets: list[tuple[int, int]] | None = None
    features: Any = None
    content_parts: Any = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: Any = None
    return_token_ids: bool | None = None
    output_mode: Literal["tokens", "text"] = "tokens"
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    cache_salt: str | None = None
    priority: int = 0
    kv_transfer_params: Any = None
    ec_transfer_params: Any = None


# Replies of ids.


class IdLogprob(msgspec.Struct, kw_only=True):
    """A token by its id, or as ``token_id:N``, as earlier releases have it; its text and bytes in text's answers."""

    logprob: float
    token_id: int | msgspec.UnsetType | None = msgspec.UNSET
    token: str | msgspec.UnsetType | None = msgspec.UNSET
    rank: int | None = None
    bytes: list[int] | msgspec.UnsetType | None = msgspec.UNSET


class SampledLogprob(IdLogprob, kw_only=True):
    top_logprobs: list[IdLogprob] = []


class IdLogprobs(msgspec.Struct):
    content: list[SampledLogprob] | None = None


class GeneratedChoice(msgspec.Struct, kw_only=True):
    """One reply, or more of it. ``text`` only where ``output_mode`` is that."""

    index: int
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    logprobs: IdLogprobs | None = None
    text: str | msgspec.UnsetType = msgspec.UNSET


class Generated(msgspec.Struct, kw_only=True):
    """The answer to a request of ids, or one event of its stream."""

    request_id: str
    output_mode: Literal["tokens", "text"] = "tokens"
    choices: list[GeneratedChoice]
    model: str | msgspec.UnsetType = msgspec.UNSET
    created: int | msgspec.UnsetType = msgspec.UNSET
    usage: CompletionUsage | None = None
    prompt_logprobs: PromptLogprobs | msgspec.UnsetType | None = msgspec.UNSET
    prompt_token_ids: list[int] | msgspec.UnsetType | None = msgspec.UNSET


# Replies of ids as chats and completions.


def _no_request() -> msgspec.Raw:
    """The request that a reply answers is not known."""
    return msgspec.Raw(b"null")


class SampledChoice(msgspec.Struct, kw_only=True):
    """A choice that an engine answered, ids alone."""

    index: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    logprobs: IdLogprobs | None = None


class SampledUsage(msgspec.Struct, kw_only=True):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    total_tokens: int = 0


class SampledReply(msgspec.Struct, kw_only=True):
    """An engine's answer; what else it has is handed on as it is."""

    choices: list[SampledChoice]
    request_id: str = ""
    output_mode: Literal["tokens"] = "tokens"
    usage: SampledUsage | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: Any = None
    kv_transfer_params: Any = None
    metrics: Any = None


class StreamState(msgspec.Struct, kw_only=True):
    """A reply between two of its chunks, for the client to send with the next.

    It has the fields of vLLM's, so that programs that know those carry it. All that counts is the first of
    ``prev_tokens``, which is signed, ``role_sent`` and ``logprob_text_offset``.
    """

    prev_tokens: list[str] = []
    prefix_offset: int = 0
    read_offset: int = 0
    role_sent: bool = False
    logprob_context_token_ids: list[int] = []
    logprob_text_offset: int = 0
    output_token_ids: list[int] = []
    output_chunk_lens: list[int] = []
    tools_streamed: bool = False
    last_tool_call_ids: list[str] = []


class DerenderChatRequest(msgspec.Struct, kw_only=True):
    """A reply to ``chat_request``: whole in ``generate_response``, or with ``stream`` a chunk of it and its state.

    ``prompt_token_ids`` are what it answers, else the chat request's own prompt; ``prompt_tokens`` is for the usage.
    """

    stream: bool = False
    model: str | None = None
    generate_response: SampledReply | None = None
    generate_chunk: SampledReply | None = None
    stream_state: StreamState | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: list[int] | None = None
    chat_request: msgspec.Raw = msgspec.field(default_factory=_no_request)


class DerenderCompletionRequest(msgspec.Struct, kw_only=True):
    """The same for completions, with a reply for each prompt."""

    stream: bool = False
    model: str | None = None
    generate_responses: list[SampledReply] | None = None
    generate_chunk: SampledReply | None = None
    stream_state: StreamState | None = None
    prompt_tokens: int | list[int] | None = None
    prompt_token_ids: list[int | list[int] | None] | None = None
    completion_request: msgspec.Raw = msgspec.field(default_factory=_no_request)


class DerenderedChat(ChatCompletion, frozen=True, kw_only=True):
    """A chat completion, and what the engine had to say beside."""

    prompt_logprobs: Any = None
    kv_transfer_params: Any = None
    metrics: Any = None


class DerenderedChunk(msgspec.Struct, frozen=True):
    chunk: ChatChunk
    stream_state: StreamState


class DerenderedCompletion(Completion, frozen=True, kw_only=True):
    kv_transfer_params: Any = None
    metrics: Any = None


class DerenderedPart(msgspec.Struct, frozen=True):
    chunk: Completion
    stream_state: StreamState


# The part of the API document that describes these routes.


def _either(summary: str, answers: tuple[type, type], body: type) -> dict[str, Any]:
    """A route whose answer is whole, or a chunk."""
    described = operation(summary, answers[0], body=body)
    kinds = [schema(kind)["schema"] for kind in answers]
    described["responses"]["200"]["content"]["application/json"] = {"schema": {"anyOf": kinds}}
    return described


def _several(summary: str, answer: type, body: type) -> dict[str, Any]:
    described = operation(summary, answer, body=body)
    listed = {"schema": {"type": "array", "items": schema(answer)["schema"]}}
    described["responses"]["200"]["content"]["application/json"] = listed
    return described


DESCRIBED = Described(
    (
        RenderChatRequest, RenderCompletionRequest, GenerateRequest, Generated, DerenderChatRequest, DerenderedChat,
        DerenderedChunk, DerenderCompletionRequest, DerenderedCompletion, DerenderedPart,
    ),
    {
        "/v1/chat/completions/render": {
            "post": operation("A chat as a request of ids.", GenerateRequest, body=RenderChatRequest)
        },
        "/v1/messages/render": {
            "post": operation("A message's prompt as a request of ids.", GenerateRequest, body=MessagesRequest)
        },
        "/v1/responses/render": {
            "post": operation("A response's prompt as a request of ids.", GenerateRequest, body=ResponsesRequest)
        },
        "/v1/completions/render": {
            "post": _several("Prompts as requests of ids.", GenerateRequest, RenderCompletionRequest)
        },
        "/v1/chat/completions/derender": {
            "post": _either("A reply of ids as a chat.", (DerenderedChat, DerenderedChunk), DerenderChatRequest)
        },
        "/v1/completions/derender": {
            "post": _either(
                "Replies of ids as completions.", (DerenderedCompletion, DerenderedPart), DerenderCompletionRequest
            )
        },
        "/inference/v1/generate": {
            "post": operation("Samples behind ids.", Generated, body=GenerateRequest, events=Generated)
        },
    },
)  # fmt: skip
