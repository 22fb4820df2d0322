"""Numbers of a canonical schema, in the engine's keywords.

    schema   {"type": "number", "minimum": 0, "not": {"const": 0}, "multipleOf": 0.5}
    engine   {"anyOf": [{"type": "number", "minimum": 0.5, "multipleOf": 0.5},
             {"type": "number", "minimum": 0.5, "multipleOf": 1}]}
    accepts  0.5  2
    refuses  0.3

An open bound has a keyword of its own:

    schema   {"$schema": "http://json-schema.org/draft-04/schema#",
             "type": "number", "minimum": 0, "exclusiveMinimum": true}
    engine   {"type": "number", "exclusiveMinimum": 0}
    accepts  0.1
    refuses  0  -1

The engine knows no multiple below zero. Where those are few, they are written out; else they are left to the check:

    schema   {"type": "integer", "multipleOf": 5, "minimum": -10, "maximum": 100}
    engine   {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5}, {"enum": [-10, -5]}]}
    accepts  -10  -5  0  95
    refuses  -7  7  -15  105

    schema   {"type": "number", "multipleOf": 0.01, "maximum": 8}
    engine   {"anyOf": [{"type": "number", "minimum": 0, "maximum": 8, "multipleOf": 0.01},
             {"type": "number", "exclusiveMaximum": 0}]}
    relaxed  .multipleOf
    accepts  0.25  -4.50
    refuses  0.255
    rejects  -4.505
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from math import lcm
from typing import Any

from jsonschema_rs import canonical

from antiphon.conversation import JsonSchema

from .context import TranslationContext
from .exact import is_step

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
    if _reaches_zero(bounds):
        ways += [schema | _from_zero(bounds) | {"multipleOf": _number(step)} for step in steps]
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


def _reaches_zero(bounds: dict[str, Any]) -> bool:
    return bool(bounds.get("maximum", 0) >= 0 and bounds.get("exclusiveMaximum", 1) > 0)


def _is_below_zero(bounds: dict[str, Any]) -> bool:
    """Whether there may be a number below zero."""
    return bool(bounds.get("minimum", -1) < 0 and bounds.get("exclusiveMinimum", -1) < 0)


def _from_zero(bounds: dict[str, Any]) -> dict[str, Any]:
    """The bounds of what is not below zero."""
    if not _is_below_zero(bounds):
        return bounds
    return {"minimum": 0, **{key: bound for key, bound in bounds.items() if key in ("maximum", "exclusiveMaximum")}}


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
