"""What differs between the APIs that look alike, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from antiphon.conversation import FinishReason
from antiphon.formats import NO_OPINION, SamplingDefaults
from antiphon.generation import Range

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

OPENAI_REASON = {
    "stop": FinishReason.STOP_EOS,
    "tool_calls": FinishReason.TOOL_CALL,
    "function_call": FinishReason.TOOL_CALL,
    "length": FinishReason.LENGTH_OUTPUT,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""The way back (resolution X-02): a dialect's word as the likeliest of the reasons that it stands for."""


Check = Callable[[Any], None]
"""Takes the request of a chat, and raises `RequestError` at the field that the dialect does not take as it is."""


def as_it_is(body: bytes) -> bytes:
    return body


@dataclass(frozen=True, slots=True)
class Shape:
    """Which fields an object within a request must have and which it may have besides; names between blanks."""

    required: str
    optional: str = ""

    @property
    def known(self) -> frozenset[str]:
        return frozenset(f"{self.required} {self.optional}".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRules:
    """How a dialect completes texts.

    ``raw``: a prompt goes to the model as it stands unless the request says otherwise (never so for Harmony's models).
    ``appends_suffix``: the suffix ends every completion (resolution D-14); else it is what the model should
    write towards, which none here can. ``index_of_prompt``: a choice's index is its prompt's (resolution D-13).
    """

    raw: bool = True
    appends_suffix: bool = False
    index_of_prompt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way to speak chat completions; limits are None where the dialect has none of its own.

    Of requests: ``respelled`` makes of a body with its clients' other forms one of OpenAI's form, before all else;
    ``required`` fields must be there, ``refused`` ones must not; a number must lie in its row of
    ``ranges``; ``checks`` hold what no row can say. ``strict`` is the letter of the document: nothing beyond
    ``parameters`` (None: beyond the fields that we know) is taken, and in the objects within a request nothing beyond
    their row of ``shapes``, by the place (``messages[].tool_calls[]``).

    Of answers: ``finish`` says why an answer ended, ``other_finish`` where it has no word; ``role`` is in the
    first chunk or in every; ``whole`` names the object of an answer that is not streamed; ``usage`` comes in a stream
    when requested, else perhaps with the last choice's end; ``bare`` answers have no field that the document lacks.
    """

    name: str
    prefixes: tuple[str, ...] = ()
    """Where it is always spoken, whatever the server's own dialect is; its name where nothing is given."""
    strict: bool = False
    parameters: frozenset[str] | None = None
    respelled: Callable[[bytes], bytes] = as_it_is
    required: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    model_name: re.Pattern[str] | None = None
    checks: tuple[Check, ...] = ()
    max_stops: int | None = None
    max_tools: int | None = None
    max_output: int | None = None
    """Tokens of an answer at most, and where the request does not say (MindIE's ``maxIterTimes``)."""
    defaults: SamplingDefaults = NO_OPINION
    """What the document of a strict dialect says of requests that say nothing (resolution X-53)."""
    fallback: SamplingDefaults = NO_OPINION
    """What the document of one that is not strict says of them, for models of which nobody recommends anything."""
    max_sequence: int | None = None
    """Tokens of prompt and answer together; with it, a prompt must leave room for ``max_output``."""
    tools_answer_in_order: bool = False
    """A tool's message without an id answers the oldest call that waits (resolution X-18)."""

    completions: CompletionRules = CompletionRules()
    stream_default: bool = False
    whole: Literal["chat.completion", "chat.completions"] = "chat.completion"
    finish: Mapping[FinishReason, str] = field(default_factory=lambda: OPENAI_FINISH)
    other_finish: str = "stop"
    reasons: Mapping[str, FinishReason] = field(default_factory=lambda: OPENAI_REASON)
    role: Literal["first", "every"] = "first"
    usage: Literal["requested", "last"] = "requested"
    bare: bool = False

    def streams(self, requested: bool | None) -> bool:
        """Whether an answer is streamed: as the request says, else as the dialect does."""
        return self.stream_default if requested is None else requested

    @property
    def places(self) -> tuple[str, ...]:
        return self.prefixes or (f"/{self.name}/v1",)

    def word(self, reason: FinishReason) -> str:
        """This dialect's word for why an answer ended."""
        return self.finish.get(reason, self.other_finish)

    def prompt_limit(self, context: int) -> int | None:
        """Tokens that a prompt may have on a model of this context (resolution X-52); None: all but one."""
        if self.max_sequence is None:
            return None
        return max(0, min(self.max_sequence, context) - (self.max_output or 0))


DOCUMENTED = SamplingDefaults(temperature=1.0, top_p=1.0)
"""The defaults that OpenAI, Databricks and MindIE all document."""

OPENAI = Dialect(name="openai", max_stops=4, max_tools=128)
"""Resolution D-05: four stop strings at most."""
