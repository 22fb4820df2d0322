"""Differences between the APIs that look alike, as data."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from antiphon.conversation import FinishReason
from antiphon.errors import Position, UnsupportedError
from antiphon.formats import NO_OPINION, SamplingDefaults
from antiphon.generation import Range

from .errors import refused

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
    """Paths on which it is always spoken, whatever the server's own dialect is; its name where nothing is given."""
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
    """Defaults by the document of a strict dialect, for requests that say nothing (resolution X-53)."""
    fallback: SamplingDefaults = NO_OPINION
    """Defaults by the document of one that is not strict, for models of which nobody recommends anything."""
    max_sequence: int | None = None
    """Tokens of prompt and answer together; with it, a prompt must leave room for ``max_output``."""
    tools_answer_in_order: bool = False
    """A tool's message without an id answers the oldest call that waits (resolution X-18)."""
    strict_calls: bool = False
    """A history is refused with a result of no call that waits, a call without a name, or a reply of neither."""

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


# A request's fields against a dialect's tables: whichever request it is, the rows go by the fields' names.

# The pairs that clients store with what they make.

MAX_METADATA, MAX_KEY, MAX_VALUE = 16, 64, 512


def check_metadata(metadata: dict[str, str] | None) -> None:
    """At most 16 pairs; keys of 64 characters, values of 512."""
    if metadata is None:
        return
    if len(metadata) > MAX_METADATA:
        raise refused("metadata", f"there are {len(metadata)} pairs; at most {MAX_METADATA} are stored.")
    for key, value in metadata.items():
        if len(key) > MAX_KEY or len(value) > MAX_VALUE:
            raise refused("metadata", f"a key has at most {MAX_KEY} characters and a value at most {MAX_VALUE}.")


SESSION_IDS = Range(-1, 2**63 - 1)
"""LMDeploy's: -1, and what its engines count sessions by."""


def check_fields(wire: msgspec.Struct, foreign: Collection[str], dialect: Dialect) -> None:
    """Raises `RequestError` at the first field that ``dialect`` misses or does not take; null means absent.

    ``foreign`` are the body's fields that ``wire`` has no place for: a strict dialect takes none of them.
    """
    given = {name: value for name in wire.__struct_fields__ if (value := getattr(wire, name)) is not None}
    for name in sorted(dialect.required & set(wire.__struct_fields__) - given.keys()):
        raise refused(name, "is required.", code="missing_required_parameter")
    for name in sorted(given.keys() & dialect.refused):
        raise _not_taken(name, dialect)
    if dialect.strict:
        known = given.keys() if dialect.parameters is None else dialect.parameters
        for name in sorted({*given, *foreign} - known):
            raise _not_taken(name, dialect)
    if dialect.model_name is not None and not dialect.model_name.fullmatch(given.get("model", "")):
        raise refused("model", f"no model is named so; the names are {dialect.model_name.pattern}.")
    for name, allowed in dialect.ranges.items():
        value = given.get(name)
        if value is not None and value not in allowed:
            raise refused(name, f"is {value}; it must be in {allowed}.")


def check_shapes(body: bytes, dialect: Dialect) -> None:
    """Raises `RequestError` at the first object within ``body`` that is of another shape than the dialect's.

    ``body`` was decoded before, so its objects and lists are where they belong; null means absent.
    """
    if not dialect.shapes:
        return
    request = msgspec.json.decode(body)
    for place, shape in dialect.shapes.items():
        for path, found in _objects(request, place.split(".")):
            given = {name for name, value in found.items() if value is not None}
            for name in sorted(set(shape.required.split()) - given):
                raise refused(f"{path}.{name}", "is required.", code="missing_required_parameter")
            for name in sorted(given - shape.known):
                raise _not_taken(f"{path}.{name}", dialect)


def _objects(value: Any, steps: Sequence[str], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects at a place such as ``tools[].function``, each with its path; none where something else is there."""
    if not isinstance(value, dict):
        return
    if not steps:
        yield path, value
        return
    name, several, _ = steps[0].partition("[]")
    within, path = value.get(name), f"{path}.{name}".lstrip(".")
    if not several:
        yield from _objects(within, steps[1:], path)
    for i, item in enumerate(within if several and isinstance(within, list) else ()):
        yield from _objects(item, steps[1:], f"{path}[{i}]")


def _not_taken(name: str, dialect: Dialect) -> UnsupportedError:
    return UnsupportedError(
        f"{name[:64]} is no parameter of this endpoint.", position=Position(path=name[:64]), hint=f"({dialect.name})"
    )


def warnings(wire: msgspec.Struct) -> tuple[str, ...]:
    """Warns of settings that are done as requested and seldom meant."""
    temperature, n = getattr(wire, "temperature", None), getattr(wire, "n", None)
    found = []
    if temperature is not None and 0 < temperature < 0.001:
        found.append("a temperature below 0.001 may give poor text")
    if temperature == 0 and n is not None and n > 1:
        found.append("choices of temperature 0 are all alike")
    return tuple(found)


def session_name(id: int | str | None) -> str | None:
    """The session that a request names; -1 and "" name none. Raises `RequestError` for a number that is no id."""
    if isinstance(id, int) and id not in SESSION_IDS:
        raise refused("session_id", f"is {str(id)[:40]}; it must be in {SESSION_IDS}, or a text.")
    return None if id in (None, "", -1, "-1") else str(id)
