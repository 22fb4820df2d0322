"""Fields of a transcript beside its conversation. The transcript and the events are `formats.openchatml`'s."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.conversation import ReasoningEffort

Words = str | list[str]


class GenerationSettings(msgspec.Struct, kw_only=True):
    """Settings of the answer that a header may have (OpenChatML §2)."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    stop: Words | None = None
    reasoning_effort: ReasoningEffort | None = None
    builtin_tools: Words | None = None


class CapabilityLists(msgspec.Struct, kw_only=True):
    """Lists of what the other side takes, each None where it takes all."""

    roles: Words | None = None
    channels: Words | None = None
    tokens: Words | None = None
    streaming: Words | None = None


class HeaderFields(msgspec.Struct, kw_only=True):
    """The keys of a header that are known here, without its version."""

    model: str | None = None
    generation_settings: GenerationSettings | None = None
    capabilities: CapabilityLists | None = None
    profiles: dict[str, Any] | None = None
