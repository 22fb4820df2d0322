"""What requests for text have in common on the wire."""

from __future__ import annotations

from typing import Literal

import msgspec

from .names.translate import GenerationFields


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None


class SamplingFields(GenerationFields, kw_only=True):
    """How tokens are chosen, and where the answer stops; null is the model's own choice.

    ``finish``: a constrained answer is whole at its limit.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    finish: Literal["always"] | None = None
