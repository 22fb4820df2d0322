"""Why a grammar does not compile, in our words and with its place; the engine's go along as a note, for the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError

from .grammar import Json, NamedRules, Regex
from .lark_text import lark
from .schema.exact import subschemas, walk

MOST_PROBES = 300
"""How many parts of a schema are compiled by themselves."""
NOTHING_FITS = "NoExtensionBias"
"""llguidance's word for a grammar that has no text."""

_PLACE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")
_REASONS = (
    (
        re.compile(r"^Unable to determine"),
        "it has patterns, bounds or steps that cannot be decided together",
        "Ask for fewer of them at once, or for simpler ones.",
    ),
    (
        re.compile(r"^(Unsatisfiable schema|NoExtension|Failed to generate regex for)|[Rr]egex is empty"),
        "no value fits it",
        "Look for bounds, types, patterns or required properties that contradict each other.",
    ),
    (
        re.compile(r"(?i)regex|lookaround|unicode|repetition|escape"),
        "it has a pattern that cannot be enforced",
        "Write patterns without look-around, back-references and what only some dialects have.",
    ),
    (
        re.compile(r"(?i)too |exceed|limit|fuel|complex"),
        "it is more than a grammar may be",
        "Ask for less at once: fewer tools, smaller schemas, simpler patterns.",
    ),
    (re.compile(r"circular"), "a reference leads back to itself beside other keywords", "Put the keywords elsewhere."),
)
_STEPS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])


def first_fault(start: LLMatcher) -> str:
    """The fault of a fresh matcher, in a line of the engine's; some faults show only at the first mask."""
    probe = start
    if not start.is_error():
        probe = start.deep_copy()
        probe.compute_bitmask()
    return _PLACE.sub("", probe.get_error().split("\n")[0])


def refusal(fault: str, path: str | None, code: str = "invalid_schema") -> RequestError:
    """The error for the engine's words, which it has as a note."""
    found = ((text, hint) for pattern, text, hint in _REASONS if pattern.search(fault))
    text, hint = next(found, ("the engine has no means for it", "Ask for something simpler."))
    what = "the reply's grammar" if path is None else "this"
    error = RequestError(f"{what} cannot be enforced: {text}", code=code, position=Position(path=path), hint=hint)
    error.add_note(fault)
    return error


class FaultFinder:
    """Compiles parts of a grammar by themselves. ``shown`` gives what the engine is shown of a schema."""

    def __init__(self, tokens: LLTokenizer, shown: Callable[[Json], JsonSchema]) -> None:
        self._tokens = tokens
        self._shown = shown
        self._left = MOST_PROBES

    def leaf(self, leaf: Json | Regex | NamedRules) -> RequestError | None:
        """The error of a schema, a pattern or rules that do not even compile alone, with its place."""
        fault = self._fault(leaf)
        if not fault:
            return None
        if isinstance(leaf, NamedRules):
            return refusal(fault, leaf.path, "invalid_grammar")
        return refusal(fault, leaf.path if isinstance(leaf, Regex) else leaf.path + self._deepest(leaf))

    def stuck(self, leaf: Json) -> RequestError | None:
        """The error of a step between bounds in which the engine, which takes them together, finds no number."""
        top = self._shown(leaf)
        for schema, where in walk(top):
            if "multipleOf" not in schema or _STEPS.isdisjoint(schema):
                continue
            node = {key: value for key, value in schema.items() if key in {*_STEPS, "type", "multipleOf"}}
            if self._left and self._fault(Json(node)):
                return refusal(NOTHING_FITS, f"{leaf.path}{_known(leaf.schema, where)}.multipleOf")
        return None

    def _fault(self, leaf: Json | Regex | NamedRules) -> str:
        self._left -= 1
        shown = self._shown if isinstance(leaf, Json) and leaf.path else lambda node: node.schema
        text = lark(leaf, controls={}, end_ids=(), engine_schema=shown, finite=False)
        return first_fault(LLMatcher(self._tokens, text, log_level=0))

    def _deepest(self, leaf: Json) -> str:
        """The place of the innermost part at fault, as far as the schema itself has that place."""
        node, where = self._shown(leaf), ""
        while (inner := self._part_at_fault(node, self._shown(leaf))) is not None:
            node, where = inner[0], where + inner[1]
        known = _known(leaf.schema, where)
        if known == where:
            key = _keyword(node, _AT_FAULT)
            return f"{known}.{key}" if key else known
        key = _keyword(node, (*_AT_FAULT, *_TOGETHER))
        return next((f"{place}.{key}" for place, keys in _places(leaf.schema) if key in keys), known)

    def _part_at_fault(self, node: Any, top: JsonSchema) -> tuple[Any, str] | None:
        named = top if isinstance(top, dict) else {}
        definitions: dict[str, Any] = {key: named[key] for key in ("$defs", "definitions") if key in named}
        for part, step in subschemas(node) if isinstance(node, dict) else ():
            if isinstance(part, dict) and self._left > 0 and self._fault(Json({**definitions, **part})):
                return part, step
        return None


_AT_FAULT = ("pattern", "enum", "const", "$ref")
_TOGETHER = ("multipleOf", "format", *sorted(_STEPS), "maxLength", "minLength")
"""Keywords that contradict others beside them."""


def _keyword(node: Any, keywords: Sequence[str]) -> str:
    """The first of the keywords that a part has."""
    return next((key for key in keywords if isinstance(node, dict) and key in node), "")


def _places(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The schema and those within it, with their places."""
    todo = [(schema, "")]
    while todo:
        node, place = todo.pop(0)
        if isinstance(node, dict):
            yield place, node
            todo += [(inner, place + step) for inner, step in subschemas(node)]
        elif isinstance(node, list):
            todo += [(item, f"{place}[{i}]") for i, item in enumerate(node)]


def _known(schema: JsonSchema, where: str) -> str:
    """``where`` if the schema has such a place, else nothing: what the engine is shown may be built otherwise."""
    places, todo = set[str](), [(schema, "")]
    while todo and where:
        node, place = todo.pop()
        places.add(place)
        if isinstance(node, dict):
            todo += [(inner, place + step) for inner, step in subschemas(node) if where.startswith(place + step)]
    return where if where in places else ""
