"""A JSON text of the engine's schema, whose numbers end.

The engine writes numbers of any length, and a small model may never end one. So what may hold a number is written here,
member by member, down to the numbers themselves (`.number_text`); all else is left to the engine, whole. So is what the
engine alone can combine (``allOf``, names by patterns, counted properties), where integers get bounds and no more.
Where blanks are optional, which the engine does not know, objects and arrays are written here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from antiphon.conversation import JsonSchema

from .grammar import Blanks
from .kinds import TYPES, definition, target, types_of
from .number_text import DIGITS, Bounds, integers, numbers
from .rules import Part, Rules, listed_items, sequence
from .text import quote, quoted

_BOUNDS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
_DEFINITIONS = frozenset(["$defs", "definitions"])
_KEYWORDS = {
    "string": frozenset(["minLength", "maxLength", "pattern"]),
    "integer": _BOUNDS | {"multipleOf"},
    "number": _BOUNDS | {"multipleOf"},
    "array": frozenset(["items", "prefixItems", "minItems", "maxItems"]),
    "object": frozenset(["properties", "required", "additionalProperties"]),
}
_KNOWN = frozenset[str]().union(*_KEYWORDS.values(), _DEFINITIONS, ["type"])
_NUMBER_LIKE = frozenset(["integer", "number", "array", "object"])
_STRING = r'"([^"\\\x00-\x1f\x7f]|\\["\\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_EXACT = 2**53
_SCALARS = frozenset(["string", "boolean", "null", "integer", "number"])
BLANKS, LINE = r"[ \t\n]{0,40}", r"( |\n {0,40})?"
"""A small model may never end blanks."""
_SEPARATORS: dict[Blanks, tuple[str, str]] = {
    "never": (quoted(","), quoted(":")),
    "always": (quoted(", "), quoted(": ")),
    "optional": ("/, ?/", "/: ?/"),
    "printed": (rf"/,{LINE}/", "/: ?/"),
    "any": (rf"/{BLANKS},{BLANKS}/", rf"/{BLANKS}:{BLANKS}/"),
}
"""The comma and the colon."""
_INSIDE: dict[Blanks, str] = {"printed": LINE, "any": BLANKS}
"""Blanks that may stand at a bracket's inner side."""
_LOOSE = frozenset[Blanks](["optional", "printed", "any"])
"""Ways of blanks that the engine does not know."""


class JsonWriter:
    """Writes the rules of one schema. ``digits``: of the longest integer that the schema names, 19 at least."""

    def __init__(self, rules: Rules, root: JsonSchema, *, digits: int = DIGITS, blanks: Blanks = "never") -> None:
        self._rules = rules
        self._root = root
        self._digits = digits
        self._blanks = blanks
        self._comma, self._colon = _SEPARATORS[blanks]
        self._known: dict[int, bool] = {}
        self._asked: set[int] = set()

    def text(self) -> str:
        """An expression of the whole."""
        return self._value(self._root)

    def _value(self, node: JsonSchema) -> str:
        if node is False or not self._is_written_here(node):
            return self._whole(node)
        if node is True or not node.keys() - _DEFINITIONS:
            return self._rules.recursive(("json", self._digits, self._blanks), self._anything)
        given = node.keys() - _DEFINITIONS
        if given == {"$ref"} and definition(node["$ref"], self._root) is not None:
            return self._reference(node["$ref"])
        if given == {"anyOf"}:
            return f"({' | '.join(map(self._value, node['anyOf']))})"
        if not given <= _KNOWN:
            return self._whole(node)
        return f"({' | '.join(self._ways(node))})"

    def _ways(self, node: dict[str, Any]) -> Iterator[str]:
        given = node.get("type", [name for name in TYPES if name != "integer"])
        types = given if isinstance(given, list) else [given]
        plain = [name for name in types if name not in _NUMBER_LIKE]
        if plain:
            strings = {key: node[key] for key in _KEYWORDS["string"] & node.keys() if "string" in plain}
            yield self._whole({"type": plain, **strings})
        for name in types:
            if name in _NUMBER_LIKE:
                own = {key: value for key, value in node.items() if key in _KEYWORDS[name]}
                yield self._of_type(name, own)

    def _of_type(self, name: str, node: dict[str, Any]) -> str:
        match name:
            case "array":
                return self._rules.rule("array", self._array(node))
            case "object":
                return self._object(node)
            case _ if "multipleOf" in node:
                return self._whole({"type": name, **node})
            case "integer":
                pattern = integers(*_whole_bounds(node), self._digits)
                return self._rules.rule("INTEGER", f"/{pattern}/") if pattern else self._whole(False)
            case _:
                return self._rules.rule("NUMBER", numbers(_bounds(node), self._digits))

    def _array(self, node: dict[str, Any]) -> str:
        prefix = [self._item(part) for part in node.get("prefixItems", ())]
        least, most = int(node.get("minItems", 0)), node.get("maxItems")
        inside = listed_items(prefix, self._item(node.get("items", True)), least, most, self._comma)
        return " ".join(filter(None, [self._bracket("["), inside, self._bracket("]")]))

    def _item(self, node: JsonSchema) -> str | None:
        return None if node is False else self._value(node)

    def _object(self, node: dict[str, Any]) -> str:
        properties, required = node.get("properties", {}), node.get("required", ())
        others: JsonSchema = node.get("additionalProperties", True)
        named = {**properties, **{name: others for name in required if name not in properties}}
        if any(named[name] is False for name in required):
            return self._whole({"type": "object", **node})
        parts = [
            self._part(quoted(json.dumps(name, ensure_ascii=False)), schema, required=name in required)
            for name, schema in named.items()
            if schema is not False
        ]
        more = None if others is False else self._part(self._other_name(list(named)), others)
        return " ".join(filter(None, [self._bracket("{"), sequence(self._rules, parts, more=more), self._bracket("}")]))

    def _bracket(self, bracket: str) -> str:
        inside = _INSIDE.get(self._blanks)
        if inside is None:
            return quoted(bracket)
        return f"/{quote(bracket)}{inside}/" if bracket in "[{" else f"/{inside}{quote(bracket)}/"

    def _part(self, name: str, schema: JsonSchema, *, required: bool = False) -> Part:
        member = f"{name} {self._colon} {self._value(schema)}"
        return Part(member, f"{self._comma} {member}", required)

    def _other_name(self, names: list[str]) -> str:
        pattern = f"/{_STRING}/"
        if names:
            known = "|".join(quote(json.dumps(name, ensure_ascii=False)) for name in names)
            pattern += f" & ~/({known})/"
        return self._rules.rule("NAME", pattern)

    def _reference(self, reference: str) -> str:
        key = ("json", id(self._root), reference, self._digits, self._blanks)
        return self._rules.recursive(key, lambda: self._value(target(reference, self._root)))

    def _anything(self) -> str:
        return " | ".join(self._ways({}))

    def _whole(self, node: JsonSchema) -> str:
        """As the engine writes it."""
        if isinstance(node, dict) and isinstance(self._root, dict):
            node = {**node, **{key: self._root[key] for key in _DEFINITIONS & self._root.keys()}}
        nested = not _SCALARS.issuperset(types_of(node, self._root))
        return self._rules.json(node, blanks=self._blanks if nested else "never")

    def _is_written_here(self, node: JsonSchema) -> bool:
        """Whether a value may hold a number that the schema does not name itself, or blanks that are optional."""
        if not isinstance(node, dict):
            return node
        known = self._known.get(id(node))
        if known is not None or id(node) in self._asked:
            return bool(known)  # where several lead to it, it is looked at once; so is what leads back to itself
        first = not self._asked
        self._asked.add(id(node))
        holds = self._holds(node)
        if holds:
            self._known[id(node)] = True
        if first and not holds:
            self._known |= dict.fromkeys(self._asked, False)
        if first:
            self._asked.clear()
        return holds

    def _holds(self, node: dict[str, Any]) -> bool:
        if "enum" in node or "const" in node:
            return False
        if "$ref" in node:
            return self._is_written_here(target(node["$ref"], self._root))
        for key in ("anyOf", "allOf"):
            if key in node:
                return any(map(self._is_written_here, node[key]))
        given = node.get("type", TYPES)
        types = {given} if isinstance(given, str) else {*given}
        if types & (_NUMBER_LIKE if self._blanks in _LOOSE else {"integer", "number"}):
            return True
        inner: list[JsonSchema] = []
        if "array" in types:
            inner += [*node.get("prefixItems", ()), node.get("items", True)]
        if "object" in types:
            inner += [*node.get("properties", {}).values(), *node.get("patternProperties", {}).values()]
            inner.append(node.get("additionalProperties", True))
        return any(map(self._is_written_here, inner))


def digits_of(schema: JsonSchema) -> int:
    """The digits of the longest bound in a schema, and of the longest integer that readers hold at least."""
    longest, todo = DIGITS, list[Any]([schema])
    while todo:
        match todo.pop():
            case dict() as node:
                for key in _BOUNDS & node.keys():
                    value = node[key]
                    if isinstance(value, int | float) and abs(value) > _EXACT:
                        longest = max(longest, len(str(abs(int(value)))))
                todo += node.values()
            case list() as items:
                todo += items
    return longest


def _whole_bounds(node: dict[str, Any]) -> tuple[int | None, int | None]:
    """The least and the largest integer."""
    bounds = _bounds(node)
    low = None if bounds.low is None else int(bounds.low.to_integral_value(ROUND_CEILING))
    high = None if bounds.high is None else int(bounds.high.to_integral_value(ROUND_FLOOR))
    low = low + 1 if low is not None and bounds.over and low == bounds.low else low
    return low, high - 1 if high is not None and bounds.under and high == bounds.high else high


def _bounds(node: dict[str, Any]) -> Bounds:
    """The narrower of an open and a closed bound, at each side."""
    low, over = _narrowest(node.get("minimum"), node.get("exclusiveMinimum"), highest=True)
    high, under = _narrowest(node.get("maximum"), node.get("exclusiveMaximum"), highest=False)
    return Bounds(low=low, high=high, over=over, under=under)


def _narrowest(closed: float | None, open_: float | None, *, highest: bool) -> tuple[Decimal | None, bool]:
    if open_ is None:
        return (None if closed is None else Decimal(repr(closed))), False
    if closed is not None and (closed > open_ if highest else closed < open_):
        return Decimal(repr(closed)), False
    return Decimal(repr(open_)), True
