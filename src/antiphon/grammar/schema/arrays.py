"""Arrays, with the engine's keywords."""

from __future__ import annotations

from itertools import permutations
from math import perm
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Containment, Distinctness

from antiphon.conversation import JsonSchema

from .lowering import Lowering

MOST_ORDERS = 2_000
"""How many arrays of distinct values may be written out."""
MOST_PLACES = 16
"""How many places an array may have for one of them to be singled out."""


def lower_array(view: canonical.ArrayView, lowering: Lowering) -> JsonSchema:
    distinct = _distinct(view, lowering)
    if distinct is not None:
        return distinct
    schema: dict[str, Any] = {"type": "array"}
    if view.prefix_items:
        schema["prefixItems"] = [lowering.schema(item) for item in view.prefix_items]
    if view.items is not None:
        schema["items"] = lowering.schema(view.items)
    if view.min_items is not None:
        schema["minItems"] = view.min_items
    if view.max_items is not None:
        schema["maxItems"] = view.max_items
    cases = [case for wanted in view.contains if (case := _containing(wanted, view, lowering)) is not None]
    return {"allOf": [schema, *cases]} if cases else schema


def _distinct(view: canonical.ArrayView, lowering: Lowering) -> JsonSchema | None:
    """All arrays of distinct values, written out where the values are few; None where nothing is asked or possible."""
    if view.distinctness is Distinctness.UNCONSTRAINED or (view.max_items is not None and view.max_items < 2):
        return None
    values = _finite(view.items)
    if view.distinctness is Distinctness.ALL_DISTINCT and values is not None and not view.prefix_items:
        least, most = view.min_items or 0, min(len(values), view.max_items or len(values))
        if sum(perm(len(values), n) for n in range(least, most + 1)) <= MOST_ORDERS and not view.contains:
            return {"enum": [list(order) for n in range(least, most + 1) for order in permutations(values, n)]}
    lowering.relax("uniqueItems", "not", "oneOf", "if")
    return None


def _finite(items: CanonicalSchema | None) -> list[Any] | None:
    match items.view() if items is not None else None:
        case canonical.ConstView(value):
            return [value]
        case canonical.EnumView(values):
            return values
        case canonical.MultiTypeView(["boolean"]):
            return [False, True]
        case _:
            return None


def _containing(wanted: canonical.ContainsView, view: canonical.ArrayView, lowering: Lowering) -> JsonSchema | None:
    """One place that holds what the array must contain, for each place that there is."""
    least = 1 if wanted.min_contains is None else wanted.min_contains
    items = [*view.prefix_items, *([view.items] if view.items is not None else [])]
    if wanted.max_contains is None and items and all(wanted.schema.covers(i) is Containment.YES for i in items):
        return {"type": "array", "minItems": least}
    if wanted.max_contains is not None or least > 1 or view.max_items is None or view.max_items > MOST_PLACES:
        lowering.relax("contains", "not", "oneOf", "if", "dependentSchemas")
        return None
    if least == 0:
        return None
    there = lowering.schema(wanted.schema)
    return {
        "anyOf": [
            {"type": "array", "prefixItems": [*([True] * place), there], "minItems": place + 1}
            for place in range(view.max_items)
        ]
    }
