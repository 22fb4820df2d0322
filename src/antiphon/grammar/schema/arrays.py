"""Arrays of a canonical schema, in the engine's keywords.

The engine knows nothing of ``uniqueItems``. Where the values are few, every array of distinct ones is written out:

    schema   {"type": "array", "items": {"enum": ["r", "g"]}, "uniqueItems": true}
    engine   {"enum": [[], ["g"], ["r"], ["g", "r"], ["r", "g"]]}
    accepts  []  ["g","r"]
    refuses  ["r","r"]  ["b"]

Nor of ``contains``: where the array is short, it is one alternative for each place of the item:

    schema   {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}, "maxItems": 2}
    engine   {"allOf": [{"type": "array", "items": {"type": "integer"}, "maxItems": 2},
             {"anyOf": [{"type": "array", "prefixItems": [{"const": 7}], "minItems": 1},
             {"type": "array", "prefixItems": [true, {"const": 7}], "minItems": 2}]}]}
    accepts  [7]  [1,7]
    refuses  []  [1,2]
"""

from __future__ import annotations

from itertools import permutations
from math import perm
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Containment, Distinctness

from antiphon.conversation import JsonSchema

from .context import TranslationContext

MOST_ORDERS = 2_000
"""How many arrays of distinct values may be written out."""
MOST_PLACES = 16
"""How many places an array may have for one of them to be singled out."""


def translate_array(view: canonical.ArrayView, context: TranslationContext) -> JsonSchema:
    distinct = _distinct(view, context)
    if distinct is not None:
        return distinct
    context = context.applying()
    schema: dict[str, Any] = {"type": "array"}
    first = list(view.prefix_items)
    if view.items is not None:  # items in places that the author names may have another order of properties
        first += [view.items] * (context.prefix - len(first))
    if first:
        schema["prefixItems"] = [context.items(i).schema(item) for i, item in enumerate(first)]
    if view.items is not None:
        schema["items"] = context.items().schema(view.items)
    if view.min_items is not None:
        schema["minItems"] = view.min_items
    if view.max_items is not None:
        schema["maxItems"] = view.max_items
    containing = [_containing(contains, view, context) for contains in view.contains]
    alternatives = [alternative for alternative in containing if alternative is not None]
    return {"allOf": [schema, *alternatives]} if alternatives else schema


def _distinct(view: canonical.ArrayView, context: TranslationContext) -> JsonSchema | None:
    """Every array of distinct values; None where the items need not be distinct, or are too many to be written out."""
    if view.distinctness is Distinctness.UNCONSTRAINED or (view.max_items is not None and view.max_items < 2):
        return None
    arrays = _arrays_of_distinct_values(view)
    if arrays is None:
        context.relax("uniqueItems", "not", "oneOf", "if")
        return None
    return {"enum": arrays}


def _arrays_of_distinct_values(view: canonical.ArrayView) -> list[list[Any]] | None:
    values = _finite(view.items)
    if values is None or view.distinctness is not Distinctness.ALL_DISTINCT or view.prefix_items or view.contains:
        return None
    lengths = range(view.min_items or 0, min(len(values), view.max_items or len(values)) + 1)
    if sum(perm(len(values), length) for length in lengths) > MOST_ORDERS:
        return None
    return [list(order) for length in lengths for order in permutations(values, length)]


def _finite(items: CanonicalSchema | None) -> list[Any] | None:
    """All values of the items' schema; None where they are too many to count."""
    match items.view() if items is not None else None:
        case canonical.ConstView(value):
            return [value]
        case canonical.EnumView(values):
            return values
        case canonical.MultiTypeView(["boolean"]):
            return [False, True]
        case _:
            return None


def _containing(
    contains: canonical.ContainsView, view: canonical.ArrayView, context: TranslationContext
) -> JsonSchema | None:
    """The item that must be there, as one alternative for each place; None where nothing is required or possible."""
    least = 1 if contains.min_contains is None else contains.min_contains
    if contains.max_contains is None and _every_item_is(contains.schema, view):
        return {"type": "array", "minItems": least}
    if contains.max_contains is not None or least > 1 or view.max_items is None or view.max_items > MOST_PLACES:
        context.relax("contains", "not", "oneOf", "if", "dependentSchemas")
        return None
    if least == 0:
        return None
    item = context.containing().schema(contains.schema)
    return {"anyOf": [_at(place, item) for place in range(view.max_items)]}


def _every_item_is(schema: CanonicalSchema, view: canonical.ArrayView) -> bool:
    """Whether whatever item the array has is one of ``schema``."""
    items = [*view.prefix_items, *([view.items] if view.items is not None else [])]
    return bool(items) and all(schema.covers(item) is Containment.YES for item in items)


def _at(place: int, item: JsonSchema) -> JsonSchema:
    return {"type": "array", "prefixItems": [*([True] * place), item], "minItems": place + 1}
