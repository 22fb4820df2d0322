"""LMDeploy's server: OpenAI's API, with its own word for cancelled answers and its own errors."""

from __future__ import annotations

from antiphon.conversation import FinishReason
from antiphon.wire.dialect import OPENAI_FINISH, OPENAI_REASON, Dialect

from .checks import roles

FINISH = {**OPENAI_FINISH, FinishReason.CANCELLED: "abort", FinishReason.ERROR: "error", FinishReason.TIMEOUT: "error"}
REASONS = {**OPENAI_REASON, "abort": FinishReason.CANCELLED, "error": FinishReason.ERROR}


def lmdeploy(*, strict: bool = False) -> Dialect:
    """``strict``: the three roles that its templates know (resolution X-07)."""
    return Dialect(
        name="lmdeploy",
        strict=strict,
        finish=FINISH,
        reasons=REASONS,
        checks=(roles("system", "user", "assistant"),) if strict else (),
    )
