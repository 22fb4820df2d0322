"""Numbers that the engine cannot hold: it reckons in doubles, and would enforce another number without a word.

A bound or a step beyond its reach is relaxed, and the finished value is checked; a value that must be written is refused:

    schema   {"type": "integer", "minimum": 0, "maximum": 115792089237316195423570985008687907853269984665640564039457584007913129639935}
    engine   {"type": "integer", "minimum": 0}
    relaxed  .maximum
    accepts  115792089237316195423570985008687907853269984665640564039457584007913129639935
    rejects  115792089237316195423570985008687907853269984665640564039457584007913129639936

>>> within_reach({"type": "array", "items": {"multipleOf": 1e-300}})
({'type': 'array', 'items': {}}, (Relaxation(keyword='multipleOf', path='.items.multipleOf'),))

Below a keyword that denies, less would be more; there all is left to the check:

>>> within_reach({"not": {"minimum": 2**70}})
(True, (Relaxation(keyword='minimum', path='.not.minimum'),))
"""  # noqa: E501 - a number of 256 bits is that long

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from math import lcm
from typing import Any

import msgspec
from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError

from .context import TranslationContext
from .patterns import engine_fault

EXACT = 2**53
"""Up to here every integer is a double of its own."""
LARGEST = 2**63 - 1
"""The one greater bound that the engine gets right, as a ``maximum`` of integers."""
SMALLEST = 1e-100
MOST_STEP = 10_000
"""The greatest step, but for zeros at its end: the engine has a state for each remainder, and builds all of them."""

_BOUNDS = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])
_DATA = frozenset(["default", "examples", "example"])
_DENIES = frozenset(
    "not oneOf if then else contains maxContains unevaluatedItems unevaluatedProperties disallow".split()
)
_NAMED = frozenset(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"])


class Relaxation(msgspec.Struct, frozen=True):
    """A keyword that the engine does not enforce, and its place in the schema (as ``.properties.a.not``)."""

    keyword: str
    path: str


def within_reach(schema: JsonSchema, path: str = "") -> tuple[JsonSchema, tuple[Relaxation, ...]]:
    """The schema without the numbers that the engine cannot hold, and where they stood.

    Error: `RequestError` for a value of ``enum`` or ``const``; ``path`` is the schema's in the request.
    """
    beyond = list(_beyond(schema, path))
    if not beyond:
        return schema, ()
    found = {id(node): keys for node, keys, _ in beyond}
    relaxed = tuple(Relaxation(key, f"{where}.{key}") for _, keys, where in beyond for key in sorted(keys))
    denies = any(not _DENIES.isdisjoint(node) for node, _ in walk(schema))
    return (True if denies else _without(schema, found)), relaxed


def _beyond(schema: JsonSchema, path: str) -> Iterator[tuple[dict[str, Any], set[str], str]]:
    """Every schema with keywords beyond reach, those keywords, and its place."""
    for node, where in walk(schema):
        keys = {key for key, value in node.items() if _is_beyond(key, value, node)}
        if keys:
            yield node, keys, where
        for key in ("const", "enum"):
            if key in node and not _is_exact(node[key]):
                raise RequestError(
                    f"{key} has an integer beyond {EXACT}, which the engine cannot write exactly",
                    code="invalid_schema",
                    position=Position(path=f"{path}{where}.{key}"),
                    hint="Ask for it as a string.",
                )


def walk(schema: Any, where: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """A schema and each within it, with their places; each before those in it."""
    if isinstance(schema, dict):
        yield schema, where
        for inner, step in subschemas(schema):
            yield from walk(inner, where + step)


def subschemas(node: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """The schemas directly within one, with the step to each; data that only looks like one is left out."""
    for key, value in node.items():
        if key in _NAMED and isinstance(value, dict):
            yield from ((item, f".{key}.{name}") for name, item in value.items())
        elif key in _DATA or key in ("const", "enum"):
            continue
        elif isinstance(value, list):
            yield from ((item, f".{key}[{i}]") for i, item in enumerate(value))
        else:
            yield value, f".{key}"


def _is_beyond(key: str, value: Any, node: dict[str, Any]) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if key in _BOUNDS:
        largest = key == "maximum" and value == LARGEST and node.get("type") == "integer"
        return not largest and value != 0 and not SMALLEST < abs(value) <= EXACT
    return key == "multipleOf" and value > 0 and not is_step(value)


def is_step(value: float | Decimal) -> bool:
    """Whether the engine can count in steps of the value."""
    digits = "".join(map(str, Decimal(str(value)).as_tuple().digits)).strip("0")
    if not SMALLEST < value < LARGEST or int(digits or 0) > MOST_STEP:
        return False
    return not engine_fault({"type": "number", "multipleOf": float(value)})


def _is_exact(value: Any) -> bool:
    todo = [value]
    while todo:
        match todo.pop():
            case bool():
                pass
            case int(number) if abs(number) > EXACT:
                return False
            case list(items):
                todo += items
            case dict(items):
                todo += items.values()
    return True


def _without(node: Any, found: dict[int, set[str]]) -> Any:
    """A copy without the keywords found, at every depth."""
    if isinstance(node, list):
        return [_without(item, found) for item in node]
    if not isinstance(node, dict):
        return node
    gone = found.get(id(node), set())
    return {key: _without(value, found) for key, value in node.items() if key not in gone}


# Numbers of a canonical schema, in the engine's keywords.
#
#     schema   {"type": "number", "minimum": 0, "not": {"const": 0}, "multipleOf": 0.5}
#     engine   {"anyOf": [{"type": "number", "minimum": 0.5, "multipleOf": 0.5},
#              {"type": "number", "minimum": 0.5, "multipleOf": 1}]}
#     accepts  0.5  2
#     refuses  0.3
#
# An open bound has a keyword of its own:
#
#     schema   {"$schema": "http://json-schema.org/draft-04/schema#",
#              "type": "number", "minimum": 0, "exclusiveMinimum": true}
#     engine   {"type": "number", "exclusiveMinimum": 0}
#     accepts  0.1
#     refuses  0  -1
#
# The engine knows no multiple below zero. Where those are few, they are written out; else they are left to the check:
#
#     schema   {"type": "integer", "multipleOf": 5, "minimum": -10, "maximum": 100}
#     engine   {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5}, {"enum": [-10, -5]}]}
#     accepts  -10  -5  0  95
#     refuses  -7  7  -15  105
#
#     schema   {"type": "number", "multipleOf": 0.01, "maximum": 8}
#     engine   {"anyOf": [{"type": "number", "minimum": 0, "maximum": 8, "multipleOf": 0.01},
#              {"type": "number", "exclusiveMaximum": 0}]}
#     relaxed  .multipleOf
#     accepts  0.25  -4.50
#     refuses  0.255
#     rejects  -4.505

NumericView = canonical.IntegerView | canonical.NumberView
MOST_MULTIPLES = 1_000
"""How many multiples below zero are written out."""


def translate_number(view: NumericView, context: TranslationContext) -> JsonSchema:
    if view.not_multiple_of or (isinstance(view, canonical.NumberView) and view.excludes_integers):
        context.relax("not", "oneOf", "if", "else")
    schema: dict[str, Any] = {"type": "integer" if isinstance(view, canonical.IntegerView) else "number"}
    bounds = _bounds(view)
    if not view.multiple_of:
        return schema | bounds
    steps = _steps(view.multiple_of, whole=schema["type"] == "integer")
    if not all(map(is_step, steps)):
        context.relax("multipleOf")
        return schema | bounds
    ways: list[JsonSchema] = []
    if bounds.get("maximum", 0) >= 0 and bounds.get("exclusiveMaximum", 1) > 0:
        upper = {key: bound for key, bound in bounds.items() if key in ("maximum", "exclusiveMaximum")}
        from_zero = {"minimum": 0, **upper} if _is_below_zero(bounds) else bounds
        ways += [schema | from_zero | {"multipleOf": _number(step)} for step in steps]
    if _is_below_zero(bounds):
        ways.append(_below_zero(schema, bounds, steps[0], context))
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def _steps(given: Sequence[int | float | Decimal], *, whole: bool) -> list[Decimal]:
    """The step that all steps make together; then those of its multiples that have fewer digits behind the point.

    The engine takes 0.50 for a multiple of 0.25, and 0.5 only for one of 0.5. ``whole``: of integers.
    """
    exact = [Decimal(str(step)) for step in given]
    places = max(0, *(-int(step.as_tuple().exponent) for step in exact))
    with localcontext(prec=400):
        together = lcm(*(int(step.scaleb(places)) for step in exact))
        coarser = [Decimal(lcm(together, 10**shift)).scaleb(-places) for shift in range(places + 1)]
    if whole:
        return coarser[-1:]
    return coarser[:1] if str(together).strip("0") == "1" else list(dict.fromkeys(coarser))


def _number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)


def _is_below_zero(bounds: dict[str, Any]) -> bool:
    """Whether there may be a number below zero."""
    return bool(bounds.get("minimum", -1) < 0 and bounds.get("exclusiveMinimum", -1) < 0)


def _below_zero(
    schema: dict[str, Any], bounds: dict[str, Any], step: Decimal, context: TranslationContext
) -> JsonSchema:
    """The multiples below zero, one by one; where they are many, all numbers below zero."""
    multiples = _multiples_below_zero(bounds, step)
    if multiples is not None:
        return {"enum": multiples}
    context.relax("multipleOf")
    upper = {key: bound for key, bound in bounds.items() if bound < 0}
    if not {"maximum", "exclusiveMaximum"} & upper.keys():
        upper["exclusiveMaximum"] = 0
    return schema | upper


def _multiples_below_zero(bounds: dict[str, Any], step: Decimal) -> list[int | float] | None:
    """From the lowest on; None where they are more than `MOST_MULTIPLES`, or have no end."""
    lowest = bounds.get("minimum", bounds.get("exclusiveMinimum"))
    if lowest is None:
        return None
    with localcontext(prec=400):
        highest = min(Decimal(str(bounds.get(key, 0))) for key in ("maximum", "exclusiveMaximum"))
        first, last = math.ceil(Decimal(str(lowest)) / step), min(-1, math.floor(highest / step))
        if last - first >= MOST_MULTIPLES:
            return None
        outside = {Decimal(str(bounds[key])) for key in ("exclusiveMinimum", "exclusiveMaximum") if key in bounds}
        found = [step * count for count in range(first, last + 1)]
        return [_number(multiple) for multiple in found if multiple not in outside]


def _bounds(view: NumericView) -> dict[str, Any]:
    above = isinstance(view, canonical.NumberView) and view.exclusive_minimum
    below = isinstance(view, canonical.NumberView) and view.exclusive_maximum
    bounds = {
        "exclusiveMinimum" if above else "minimum": view.minimum,
        "exclusiveMaximum" if below else "maximum": view.maximum,
    }
    return {keyword: bound for keyword, bound in bounds.items() if bound is not None}
