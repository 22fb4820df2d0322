"""LMDeploy's interactive chat on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from antiphon.api.chat.schema import ChatMessage, ResponseFormatObject
from antiphon.wire.errors import ErrorDetail
from antiphon.wire.names.translate import GenerationFields


class InteractiveRequest(GenerationFields, kw_only=True):
    """The body of POST /v1/chat/interactive. ``session_id`` -1 or "": a new session.

    Without ``interactive_mode`` the session ends with this turn. ``stop`` true is the first clients' word for
    ``cancel``, and false for no stop strings.
    """

    prompt: str | list[ChatMessage] = ""
    model: str | None = None
    session_id: int | str | None = None
    interactive_mode: bool = False
    stream: bool = False
    cancel: bool = False
    request_output_len: int | None = None
    stop: str | list[str] | bool | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: list[int] | None = None
    finish: Literal["always"] | None = None
    response_format: ResponseFormatObject | None = None


class InteractiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, or one line of a stream, whose texts add up.

    ``tokens`` are written so far; the prompt has ``history_tokens`` of earlier turns and ``input_tokens`` of this one,
    ``cached_tokens`` of which the engine did not evaluate again.
    """

    text: str
    tokens: int
    input_tokens: int
    history_tokens: int
    finish_reason: Literal["stop", "length", "error"] | None = None
    session_id: int | str | None = None
    cached_tokens: int | msgspec.UnsetType = msgspec.UNSET
    error: ErrorDetail | msgspec.UnsetType = msgspec.UNSET
