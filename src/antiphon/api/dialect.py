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
class CompletionRules:
    """How a dialect completes texts.

    ``raw``: a prompt goes to the model as it stands unless the request says otherwise (never so for Harmony's models).
    ``appends_suffix``: the suffix stands after every completion (resolution D-14); else it is what the model should
    write towards, which none here can. ``index_of_prompt``: a choice's index is its prompt's (resolution D-13).
    """

    raw: bool = True
    appends_suffix: bool = False
    index_of_prompt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way to speak chat completions. ``finish`` is total; limits are None where the dialect has none of its own."""

    name: str
    finish: Mapping[FinishReason, str] = field(default_factory=lambda: OPENAI_FINISH)
    stream_default: bool = False
    max_stops: int | None = None
    max_tools: int | None = None
    completions: CompletionRules = CompletionRules()


OPENAI = Dialect(name="openai", max_stops=4, max_tools=128)
"""Resolution D-05: four stop strings at most."""
