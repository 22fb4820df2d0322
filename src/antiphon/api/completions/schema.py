"""Text completions on the wire (OpenAI's older API). Null means absent; unknown fields are ignored and counted."""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.api.chat.schema import CompletionUsage, ResponseFormatObject
from antiphon.wire.prompt_notes import PromptLogprobs
from antiphon.wire.sampling import SamplingFields, StreamOptions

Prompt = str | list[str | int | list[int]]
"""A text, texts, the ids of one prompt, or the ids of several."""


class CompletionRequest(SamplingFields, kw_only=True):
    """The body of POST /v1/completions.

    ``use_raw_prompt`` false makes each prompt a user's message in the model's format; "force" is for models that were
    never trained without theirs. ``skip_special_tokens`` false spells control tokens out in raw completions.
    """

    prompt: Prompt
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    best_of: int | None = None
    max_tokens: int | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    ignore_eos: bool | None = None
    echo: bool | None = None
    suffix: str | None = None
    use_raw_prompt: bool | Literal["force"] | None = None
    error_behavior: Literal["error", "truncate"] | None = None
    skip_special_tokens: bool | None = None
    user: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None
    response_format: ResponseFormatObject | None = None
    prompt_logprobs: int | None = None
    return_token_ids: bool | None = None
    explain_prefix: bool | None = None


class CompletionLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """One entry a token. ``text_offset`` is in characters of the choice's text, whatever was streamed of it before.

    The first token of an echoed prompt follows none and has null.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """``index`` counts choices, or prompts in dialects that say so; the two others say both.

    The last three are there where they were requested; of a stream ``prompt_token_ids`` in a choice's first event.
    """

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None = None
    prompt_index: int
    sample_index: int
    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    prompt_logprobs: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer, or one event of a stream: they have one shape."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | msgspec.UnsetType | None = msgspec.UNSET
    system_fingerprint: str | None = None
