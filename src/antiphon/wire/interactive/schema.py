"""LMDeploy's interactive chat on the wire."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from antiphon.wire.chat.schema import ChatMessage
from antiphon.wire.errors import ErrorDetail
from antiphon.wire.form_fields import FormFields


class InteractiveRequest(FormFields, kw_only=True):
    """The body of POST /v1/chat/interactive. ``session_id`` -1 or "": a new session.

    Without ``interactive_mode`` the session ends with this turn. The last six are there to be refused by name.
    """

    prompt: str | list[ChatMessage] = ""
    model: str | None = None
    session_id: int | str | None = None
    interactive_mode: bool = False
    stream: bool = False
    cancel: bool = False
    request_output_len: int | None = None
    stop: str | list[str] | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    temperature: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    min_new_tokens: int | None = None
    image_url: str | list[str] | None = None
    adapter_name: str | None = None
    response_format: Any = None


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
