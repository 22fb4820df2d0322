"""LMDeploy's server: OpenAI's API, with its own word for cancelled answers and its own errors."""

from __future__ import annotations

import msgspec

from antiphon.conversation import FinishReason
from antiphon.wire.dialect import OPENAI_FINISH, OPENAI_REASON, Dialect
from antiphon.wire.json import encode

from .tables import roles

FINISH = {**OPENAI_FINISH, FinishReason.CANCELLED: "abort", FinishReason.ERROR: "error", FinishReason.TIMEOUT: "error"}
REASONS = {**OPENAI_REASON, "abort": FinishReason.CANCELLED, "error": FinishReason.ERROR}


def respelled(body: bytes) -> bytes:
    """``messages`` may be one text, a user's; ``stop`` false is how its first clients requested no stop.

    Of two limits ``max_completion_tokens`` counts: its last clients send 16 for it with every completion.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return body  # Whoever reads it next says what is wrong with it.
    changes: dict[str, object] = {}
    text = bytes(fields.get("messages", b""))
    if text.startswith(b'"') and text != b'""':
        changes["messages"] = [{"role": "user", "content": fields["messages"]}]
    if bytes(fields.get("stop", b"")) == b"false":
        changes["stop"] = None
    if {"max_tokens", "max_completion_tokens"} <= {name for name, value in fields.items() if bytes(value) != b"null"}:
        changes |= {"max_tokens": fields["max_completion_tokens"], "max_completion_tokens": None}
    return encode({**fields, **changes}) if changes else body


def lmdeploy(*, strict: bool = False) -> Dialect:
    """``strict``: the three roles that its templates know (resolution X-07)."""
    return Dialect(
        name="lmdeploy",
        strict=strict,
        respelled=respelled,
        finish=FINISH,
        reasons=REASONS,
        checks=(roles("system", "user", "assistant"),) if strict else (),
    )
