"""A JSON text of the engine's schema, whose numbers end.

The engine writes numbers of any length, and a small model may never end one. So what may hold a number is written here,
member by member, down to the numbers themselves (`.number_text`); all else is left to the engine, whole. So is what the
engine alone can combine (``allOf``, names by patterns, counted properties), where integers get bounds and no more.
So are strings, which to the engine have neither U+007F nor escapes that nothing needs, and what may have blanks.

Patterns of JSON numbers between bounds that end: no more digits than those who read them can hold.

An integer is one of 64 bits. Any other number has up to 19 digits before the point and 20 behind it, and an exponent
that a double has. Where a schema's own bounds are longer, so are its numbers (``digits``).

>>> integers(0, 255)
'(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])'
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import msgspec

from antiphon.conversation import JsonSchema

from .rules import (
    CHARACTER,
    GAP,
    OF_NAME,
    TYPES,
    Part,
    Rules,
    definition,
    is_escaped,
    listed_items,
    quote,
    quoted,
    sequence,
    spelled,
    target,
    type_of,
    types_of,
)

DIGITS = 19
"""The digits of the largest integer of 64 bits."""
_MOST, _LEAST = 2**63 - 1, -(2**63)
_DECIMALS = 20
_ANY_FRACTION = r"(?:\.[0-9]+)?"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a number, None for no bound; ``over``/``under``: the bound itself is excluded."""

    low: Decimal | None = None
    high: Decimal | None = None
    over: bool = False
    under: bool = False


def integers(low: int | None, high: int | None, digits: int = DIGITS) -> str:
    """The integers from ``low`` to ``high``; at a side without a bound, as far as readers go. Empty where none is."""
    largest, smallest = (10**digits - 1, 1 - 10**digits) if digits > DIGITS else (_MOST, _LEAST)
    low = min(smallest, high or 0) if low is None else low
    high = max(largest, low) if high is None else high
    return _either([*(f"-{one}" for one in _whole(max(1, -high), -low)), *_whole(max(0, low), high)])


def numbers(bounds: Bounds, digits: int = DIGITS) -> str:
    """Terminals that together are the numbers between the bounds: without any they may have an exponent."""
    plain = rf"-?(?:0|[1-9][0-9]{{0,{digits - 1}}})(?:\.[0-9]{{1,{_DECIMALS}}})?"
    if bounds.low is None and bounds.high is None:
        small = r"[eE](?:\+?[01]?[0-9]{1,2}|-[0-9]{1,3})"
        large = rf"-?[0-9](?:\.[0-9]{{1,{_DECIMALS}}})?[eE]\+?(?:2[0-9][0-9]|30[0-7])"
        largest = r"-?1(?:\.[0-6][0-9]{0,19})?[eE]\+?308"
        return f"/{plain}(?:{small})?|{large}|{largest}/"
    parts = [f"/{plain}/"]
    if bounds.low is not None:
        parts.append(f"/{_at_least(bounds.low, digits, over=bounds.over)}/")
    if bounds.high is not None:
        parts.append(f"/{_at_most(bounds.high, digits, under=bounds.under)}/")
    return " & ".join(parts)


def _at_least(low: Decimal, digits: int, *, over: bool) -> str:
    if low < 0:
        return _either([*_up_to(-low, under=over, sign="-"), f"(?:0|[1-9][0-9]*){_ANY_FRACTION}"])
    return _either(_from(low, digits, over=over))


def _at_most(high: Decimal, digits: int, *, under: bool) -> str:
    if high < 0:
        return _either(_from(-high, digits, over=under, sign="-"))
    negative = _from(Decimal(0), digits, over=high == 0 and under, sign="-")
    return _either([*negative, *([] if high == 0 and under else _up_to(high, under=under))])


def _from(low: Decimal, digits: int, *, over: bool, sign: str = "") -> list[str]:
    """Numbers without a sign from ``low`` on: more before the point, or as much, and enough behind it."""
    whole, fraction = _split(low)
    more = [f"{one}{_ANY_FRACTION}" for one in _whole(whole + 1, 10 ** max(digits, len(str(whole)) + 1) - 1)]
    if not fraction:
        behind = r"\.[0-9]*[1-9][0-9]*" if over else _ANY_FRACTION
        return [f"{sign}{one}" for one in (*more, f"{whole}{behind}")]
    larger = [f"{fraction[:i]}[{int(c) + 1}-9][0-9]*" for i, c in enumerate(fraction) if c != "9"]
    exact = f"{fraction}{'[0-9]*[1-9][0-9]*' if over else '[0-9]*'}"
    return [f"{sign}{one}" for one in (*more, rf"{whole}\.{_either([*larger, exact])}")]


def _up_to(high: Decimal, *, under: bool, sign: str = "") -> list[str]:
    """Numbers without a sign up to ``high``."""
    whole, fraction = _split(high)
    less = [f"{one}{_ANY_FRACTION}" for one in _whole(0, whole - 1)]
    if not fraction:
        return [f"{sign}{one}" for one in (*less, *([] if under else [rf"{whole}(?:\.0+)?"]))]
    smaller = [f"{fraction[:i]}[0-{int(c) - 1}][0-9]*" for i, c in enumerate(fraction) if c != "0"]
    shorter = [fraction[:i] for i in range(1, len(fraction))]
    exact = [] if under else [f"{fraction}0*"]
    return [f"{sign}{one}" for one in (*less, rf"{whole}(?:\.{_either([*smaller, *shorter, *exact])})?")]


def _split(value: Decimal) -> tuple[int, str]:
    """The digits before the point, and those behind it without the zeros at their end."""
    before, _, behind = f"{value:f}".partition(".")
    return int(before), behind.rstrip("0")


def _whole(low: int, high: int) -> list[str]:
    """The integers from ``low`` to ``high``, none of which is negative, by their number of digits."""
    found: list[str] = []
    while low <= high:
        most = min(high, 10 ** len(str(low)) - 1)
        found += _of_one_length(str(low), str(most))
        low = most + 1
    return found


def _of_one_length(low: str, high: str) -> Iterator[str]:
    """The texts of digits from ``low`` to ``high``, which are equally long."""
    rest = len(low) - 1
    if not low:
        yield ""
    elif low[0] == high[0]:
        yield from (f"{low[0]}{inner}" for inner in _of_one_length(low[1:], high[1:]))
    else:
        first, last = int(low[0]), int(high[0])
        if low[1:].strip("0"):
            yield from (f"{first}{inner}" for inner in _of_one_length(low[1:], "9" * rest))
            first += 1
        above = list(_of_one_length("0" * rest, high[1:])) if high[1:].strip("9") else []
        last -= bool(above)
        if first <= last:
            digit = str(first) if first == last else f"[{first}-{last}]"
            yield f"{digit}{'[0-9]' * rest if rest < 3 else f'[0-9]{{{rest}}}'}"
        yield from (f"{high[0]}{inner}" for inner in above)


def _either(ways: list[str]) -> str:
    return f"(?:{'|'.join(ways)})" if len(ways) > 1 else "".join(ways)


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
_NUMBERS = frozenset(["integer", "number"])
_NESTED = frozenset(["array", "object"])
_EXACT = 2**53
_COMPACT = {sign: quoted(sign) for sign in ",:[{]}"}
SPACED = {sign: f"/{'' if sign in '[{' else GAP}{quote(sign)}{'' if sign in ']}' else GAP}/" for sign in ",:[{]}"}
"""The signs of JSON with the blanks beside them: each place between two has those of one sign."""
_SCALARS = frozenset(["string", "boolean", "null", "integer", "number"])


class JsonWriter:
    """Writes the rules of one schema. ``digits``: of the longest integer that the schema names, 19 at least."""

    def __init__(self, rules: Rules, root: JsonSchema, *, digits: int = DIGITS, any_whitespace: bool = False) -> None:
        self._rules = rules
        self._root = root
        self._digits = digits
        self._any_whitespace = any_whitespace
        self._sign = {sign: rules.rule("SIGN", body) for sign, body in SPACED.items()} if any_whitespace else _COMPACT
        self._comma, self._colon = self._sign[","], self._sign[":"]
        self._written = {*_NUMBERS, "string", *(_NESTED if any_whitespace else ())}
        self._known: dict[int, bool] = {}
        self._asked: set[int] = set()

    def text(self) -> str:
        """An expression of the whole."""
        return self._value(self._root)

    def _value(self, node: JsonSchema) -> str:
        if node is False or not self._is_written_here(node):
            return self._whole(node)
        node = {} if node is True else node
        given = node.keys() - _DEFINITIONS
        if not given:
            key = ("json", self._digits, self._any_whitespace)
            return self._rules.recursive(key, lambda: " | ".join(self._ways({})))
        if values := _listed(node):
            return self._one_of(values)
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
        if plain := [name for name in types if name not in _KEYWORDS]:
            yield self._whole({"type": plain})
        for name in types:
            if name in _KEYWORDS:
                own = {key: value for key, value in node.items() if key in _KEYWORDS[name]}
                yield self._of_type(name, own)

    def _of_type(self, name: str, node: dict[str, Any]) -> str:
        match name:
            case "string" if "pattern" in node:
                return self._whole({"type": name, **node})
            case "string":
                least, most = int(node.get("minLength", 0)), node.get("maxLength")
                counted = f"{{{least},{'' if most is None else int(most)}}}" if least or most is not None else "*"
                return self._rules.rule("STRING", f'/"({CHARACTER}){counted}"/')
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
        parts = (*node.get("prefixItems", ()), node.get("items", True))
        *prefix, item = [None if part is False else self._value(part) for part in parts]
        inside = listed_items(prefix, item, int(node.get("minItems", 0)), node.get("maxItems"), self._comma)
        return " ".join(filter(None, [self._sign["["], inside, self._sign["]"]]))

    def _object(self, node: dict[str, Any]) -> str:
        properties, required = node.get("properties", {}), node.get("required", ())
        others: JsonSchema = node.get("additionalProperties", True)
        named = {**properties, **{name: others for name in required if name not in properties}}
        if any(named[name] is False for name in required):
            return self._whole({"type": "object", **node})
        parts = [
            self._part(self._string(name), schema, required=name in required)
            for name, schema in named.items()
            if schema is not False
        ]
        more = None
        if others is not False:
            known = "|".join(map(spelled, named))
            name = self._rules.rule("NAME", f'/"({OF_NAME})*"/{f" & ~/({known})/" if known else ""}')
            more = self._part(name, others)
        return " ".join(filter(None, [self._sign["{"], sequence(self._rules, parts, more=more), self._sign["}"]]))

    def _part(self, name: str, schema: JsonSchema, *, required: bool = False) -> Part:
        member = f"{name} {self._colon} {self._value(schema)}"
        return Part(member, f"{self._comma} {member}", required)

    def _reference(self, reference: str) -> str:
        key = ("json", id(self._root), reference, self._digits, self._any_whitespace)
        return self._rules.recursive(key, lambda: self._value(target(reference, self._root)))

    def _one_of(self, values: Sequence[Any]) -> str:
        """One of the values, of which the engine writes those that are spelled in one way."""
        plain = [value for value in values if not _is_spelled_in_ways(value)]
        ways = [self._whole({"enum": plain})] if plain else []
        return f"({' | '.join([*ways, *(self._fixed(value) for value in values if value not in plain)])})"

    def _fixed(self, value: Any) -> str:
        match value:
            case str():
                return self._string(value)
            case list():
                inside = f" {self._comma} ".join(map(self._fixed, value))
                return f"{self._sign['[']} {inside} {self._sign[']']}"
            case dict():
                members = (f"{self._string(name)} {self._colon} {self._fixed(item)}" for name, item in value.items())
                return f"{self._sign['{']} {f' {self._comma} '.join(members)} {self._sign['}']}"
            case _:
                return self._whole({"const": value})

    def _string(self, text: str) -> str:
        if is_escaped(text):
            return self._rules.rule("STRING", f"/{spelled(text)}/")
        return quoted(json.dumps(text, ensure_ascii=False))

    def _whole(self, node: JsonSchema) -> str:
        """As the engine writes it."""
        if isinstance(node, dict) and isinstance(self._root, dict):
            node = {**node, **{key: self._root[key] for key in _DEFINITIONS & self._root.keys()}}
        nested = not _SCALARS.issuperset(types_of(node, self._root))
        return self._rules.json(node, any_whitespace=self._any_whitespace and nested)

    def _is_written_here(self, node: JsonSchema) -> bool:
        """Whether a value may hold a number or text that the schema does not name itself, or blanks."""
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
            return any(map(_is_spelled_in_ways, _listed(node)))
        if "$ref" in node:
            return self._is_written_here(target(node["$ref"], self._root))
        for key in ("anyOf", "allOf"):
            if key in node:
                return any(map(self._is_written_here, node[key]))
        given = node.get("type", TYPES)
        types = {given} if isinstance(given, str) else {*given}
        if types & self._written:
            return True
        inner: list[JsonSchema] = []
        if "array" in types:
            inner += [*node.get("prefixItems", ()), node.get("items", True)]
        if "object" in types:
            inner += [*node.get("properties", {}).values(), *node.get("patternProperties", {}).values()]
            inner.append(node.get("additionalProperties", True))
        return any(map(self._is_written_here, inner))


def _listed(node: dict[str, Any]) -> Sequence[Any]:
    """The values of a schema that is a list of values and nothing else; empty where it is none."""
    keys = node.keys() - _DEFINITIONS - {"type"}
    values = node["enum"] if keys == {"enum"} else [node["const"]] if keys == {"const"} else ()
    given = node.get("type", TYPES)
    return values if all(type_of(value) in given for value in values) else ()


def _is_spelled_in_ways(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and is_escaped(value))


def digits_of(schema: JsonSchema) -> int:
    """The digits of the longest bound in a schema, and of the longest integer that readers hold at least."""
    longest, todo = DIGITS, list[Any]([schema])
    while todo:
        match todo.pop():
            case dict() as node:
                bounds = (node[key] for key in _BOUNDS & node.keys())
                large = [one for one in bounds if isinstance(one, int | float) and abs(one) > _EXACT]
                longest = max([longest, *(len(str(abs(int(one)))) for one in large)])
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
