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
    min_tokens: int | None = None
    include_stop_str_in_output: bool | None = None
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


class FimRequest(SamplingFields, kw_only=True):
    """The body of POST /v1/fim/completions, as Mistral's clients send it. Without ``suffix`` the text is continued."""

    prompt: str
    model: str | None = None
    suffix: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    min_tokens: int | None = None


class InputFile(msgspec.Struct):
    text: str
    filename: str | None = None


class InfillRequest(SamplingFields, kw_only=True):
    """The body of POST /infill, as clients of llama.cpp's server send it.

    ``prompt`` is more of the prefix. ``input_extra`` are other files, the nearest last: the first ones are left out
    where they do not all fit. ``response_fields`` are the members of the answer that are wanted; ``a/b`` is ``b`` in
    ``a``, under that name. The last four have no effect.
    """

    input_prefix: str
    input_suffix: str
    input_extra: list[InputFile] | None = None
    prompt: str | None = None
    model: str | None = None
    stream: bool | None = None
    max_tokens: int | None = None
    response_format: ResponseFormatObject | None = None
    response_fields: list[str] | None = None
    samplers: list[str] | str | None = None
    n_indent: int | None = None
    t_max_prompt_ms: int | None = None
    t_max_predict_ms: int | None = None


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
    usage: CompletionUsage | msgspec.UnsetType = msgspec.UNSET
    system_fingerprint: str | None = None


class InfillEvent(msgspec.Struct, frozen=True, kw_only=True):
    """More of a middle that is streamed. ``tokens_evaluated`` are those of the prompt."""

    index: int = 0
    content: str
    stop: bool = False
    tokens_predicted: int
    tokens_evaluated: int


class InfillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The whole middle, or the last event of a stream, whose ``content`` is empty.

    ``stop_type`` says what ended it: ``eos``, ``word`` (``stopping_word``, where it was one of the request's) or
    ``limit``. ``tokens_cached`` are those of the prompt that were not read anew.
    """

    index: int = 0
    content: str
    stop: bool = True
    model: str
    tokens_predicted: int
    tokens_evaluated: int
    tokens_cached: int
    has_new_line: bool
    truncated: bool
    stop_type: Literal["eos", "word", "limit"]
    stopping_word: str = ""
