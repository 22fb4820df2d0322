"""What differs between the APIs that look alike, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.conversation import FinishReason

OPENAI_FINISH = {
    FinishReason.STOP_EOS: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.TOOL_CALL: "tool_calls",
    FinishReason.LENGTH_OUTPUT: "length",
    FinishReason.LENGTH_CONTEXT: "length",
    FinishReason.CANCELLED: "stop",
    FinishReason.ERROR: "stop",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.TIMEOUT: "length",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way to speak chat completions. ``finish`` is total; limits are None where the dialect has none of its own."""

    name: str
    finish: Mapping[FinishReason, str] = field(default_factory=lambda: OPENAI_FINISH)
    stream_default: bool = False
    max_stops: int | None = None
    max_tools: int | None = None


OPENAI = Dialect(name="openai", max_stops=4, max_tools=128)
"""Resolution D-05: four stop strings at most."""
