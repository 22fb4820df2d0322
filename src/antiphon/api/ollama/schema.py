"""Ollama's chat, generate and embed on the wire. Null means absent; durations are in nanoseconds."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.api.chat.schema import FunctionDefinition, ResponseFormatObject, TokenLogprobEntry
from antiphon.wire.names.translate import PromptFields
from antiphon.wire.sampling import SamplingFields

KeepAlive = int | float | str | None
"""Seconds, or a duration such as ``5m``; negative: for ever."""
Think = bool | str | None


class OllamaOptions(SamplingFields, kw_only=True):
    """Fields of ``options``; other servers' names are read in it, too.

    ``num_ctx`` and ``repeat_last_n`` have no effect: a model's context is its owner's choice, and a penalty is for
    the whole text.
    """

    max_tokens: int | None = None
    num_ctx: int | None = None
    repeat_last_n: int | None = None
    response_format: ResponseFormatObject | None = None


class OllamaRequest(OllamaOptions, kw_only=True):
    """Fields that chat and generate share. The names of ``options`` may stand beside it as well.

    Without ``stream`` false the answer is streamed. ``truncate`` true leaves the oldest messages out of a prompt that
    is too long. ``think`` absent is the model's own choice.
    """

    model: str
    stream: bool | None = None
    options: dict[str, msgspec.Raw] | None = None
    keep_alive: KeepAlive = None
    think: Think = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    truncate: bool | None = None
    shift: bool | None = None


class OllamaFunctionCall(msgspec.Struct):
    """``arguments``: an object; its text is read as it is spelt."""

    name: str
    arguments: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    index: int | None = None


class OllamaToolCall(msgspec.Struct):
    function: OllamaFunctionCall
    id: str | None = None
    type: str | None = None


class OllamaMessage(msgspec.Struct):
    """A result (of role ``tool``) that names no call answers the oldest of its tool that waits, else the oldest."""

    role: str
    content: str | None = None
    thinking: str | None = None
    images: list[str] | None = None
    tool_calls: list[OllamaToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class OllamaTool(msgspec.Struct):
    function: FunctionDefinition
    type: str | None = "function"


class OllamaChatRequest(OllamaRequest, kw_only=True):
    """The body of POST /api/chat; without ``messages`` the model is only loaded."""

    messages: list[OllamaMessage] | None = None
    tools: list[OllamaTool] | None = None


class OllamaGenerateRequest(OllamaRequest, kw_only=True):
    """The body of POST /api/generate; without ``prompt`` the model is only loaded.

    ``raw``: the prompt is read as it stands. With ``suffix`` the answer is what stands between the two.
    """

    prompt: str | None = None
    system: str | None = None
    suffix: str | None = None
    raw: bool | None = None
    template: str | None = None
    context: list[int] | None = None
    images: list[str] | None = None


class OllamaEmbedRequest(PromptFields, kw_only=True):
    """The body of POST /api/embed. ``truncate`` false refuses a text that is too long; else its end is cut off."""

    model: str
    input: str | list[str]
    truncate: bool | None = None
    dimensions: int | None = None
    options: dict[str, msgspec.Raw] | None = None
    keep_alive: KeepAlive = None


class OllamaEmbeddingsRequest(PromptFields, kw_only=True):
    """The body of POST /api/embeddings, which came before /api/embed."""

    model: str
    prompt: str
    options: dict[str, msgspec.Raw] | None = None
    keep_alive: KeepAlive = None


class OllamaCalledFunction(msgspec.Struct, frozen=True, kw_only=True):
    """``arguments``: an object, in one line."""

    index: int
    name: str
    arguments: msgspec.Raw


class OllamaCall(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    function: OllamaCalledFunction


class OllamaAnswerMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``thinking`` only where the server's owner exposes it."""

    role: Literal["assistant"]
    content: str
    thinking: str = ""
    tool_calls: list[OllamaCall] = []


class OllamaAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a stream, or the whole answer. Zeros and what is empty are left out, as Ollama does.

    Durations are measured: ``load_duration`` until the model was there, ``prompt_eval_duration`` from when it was this
    request's turn to the first token, ``eval_duration`` from there to the last.
    """

    model: str
    created_at: str
    done: bool
    done_reason: str = ""
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0
    prompt_eval_duration: int = 0
    eval_count: int = 0
    eval_duration: int = 0
    logprobs: list[TokenLogprobEntry] = []


class OllamaChatAnswer(OllamaAnswer, frozen=True, kw_only=True, omit_defaults=True):
    message: OllamaAnswerMessage


class OllamaGenerateAnswer(OllamaAnswer, frozen=True, kw_only=True, omit_defaults=True):
    response: str
    thinking: str = ""


class OllamaEmbedAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One unit vector a text."""

    model: str
    embeddings: list[tuple[float, ...]]
    total_duration: int = 0
    load_duration: int = 0
    prompt_eval_count: int = 0


class OllamaEmbeddingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    embedding: tuple[float, ...]


class OllamaError(msgspec.Struct, frozen=True):
    """The body of an answer with an error, and the last line of a stream that broke."""

    error: str


class OllamaVersion(msgspec.Struct, frozen=True):
    version: str


class OllamaShowRequest(msgspec.Struct, kw_only=True):
    """The body of POST /api/show. ``name`` is the old word for ``model``."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None


class OllamaPullRequest(msgspec.Struct, kw_only=True):
    """The body of POST /api/pull, and without ``stream`` that of DELETE /api/delete."""

    model: str | None = None
    name: str | None = None
    insecure: bool | None = None
    stream: bool | None = None


class OllamaProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a pull; sizes in bytes."""

    status: str
    digest: str = ""
    total: int = 0
    completed: int = 0


class OllamaDetails(msgspec.Struct, frozen=True, kw_only=True):
    parent_model: str = ""
    format: str = ""
    family: str = ""
    families: list[str] = []
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /api/tags. ``digest`` is of its file where the catalog has one, else of its name, size and time."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: OllamaDetails
    capabilities: list[str]


class OllamaModels(msgspec.Struct, frozen=True, kw_only=True):
    models: list[OllamaModel]


class OllamaRunning(msgspec.Struct, frozen=True, kw_only=True):
    """A model of /api/ps, in memory now. No request unloads it, so ``expires_at`` is the end of time."""

    name: str
    model: str
    size: int
    digest: str
    details: OllamaDetails
    expires_at: str
    context_length: int


class OllamaRunningModels(msgspec.Struct, frozen=True, kw_only=True):
    models: list[OllamaRunning]


class OllamaShown(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of /api/show. ``parameters`` are the model's defaults, one a line."""

    modelfile: str
    parameters: str
    template: str
    license: str
    details: OllamaDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str
