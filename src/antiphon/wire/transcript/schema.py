"""What a transcript says beside its conversation. The transcript itself, and the events, are `formats.openchatml`'s."""

from __future__ import annotations

import msgspec


class GenerationSettings(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What a header may ask of the answer (OpenChatML §2)."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    reasoning_effort: str | None = None
    builtin_tools: str | list[str] | None = None
