"""Objects of a canonical schema, in the engine's keywords.

The engine counts properties only where none is optional. In a closed object the selections are written out:

    schema   {"type": "object", "properties": {"a": true, "b": true}, "additionalProperties": false, "minProperties": 1}
    engine   {"anyOf": [{"type": "object", "properties": {"a": true, "b": true}, "additionalProperties": false,
             "required": ["a"]}, {"type": "object", …, "required": ["b"]}]}
    accepts  {"a":1}  {"b":2}  {"a":1,"b":2}
    refuses  {}  {"c":3}

It has no ``propertyNames``. Names that are listed become properties, names with a pattern ``patternProperties``:

    schema   {"type": "object", "propertyNames": {"anyOf": [{"const": "id"}, {"pattern": "^x-"}]}}
    engine   {"type": "object", "properties": {"id": true}, "patternProperties": {"^x-": true},
             "additionalProperties": false}
    accepts  {"id":1}  {"x-one":1}  {"id":1,"x-one":2}
    refuses  {"one":1}

Of two patterns it must see that no name has both, which prefixes show. Where it cannot, the values are left open:

    schema   {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}}}
    engine   {"type": "object"}
    relaxed  .patternProperties
    accepts  {"a":1}
    rejects  {"a":"x"}

Arrays of a canonical schema, in the engine's keywords.

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

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, permutations
from math import comb, perm
from typing import Any

import msgspec
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Containment, Distinctness

from antiphon.conversation import JsonSchema

from .branches import Branch
from .context import TranslationContext
from .patterns import PATTERNS, engine_patterns, is_regular, matches

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


MOST_SELECTIONS = 64
"""How many selections of properties may be written out."""


class NameSet(msgspec.Struct, frozen=True):
    """A set of property names: those ``listed``, and those that match one of ``patterns``."""

    listed: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.listed or any(matches(pattern, name) for pattern in self.patterns)


def translate_object(node: CanonicalSchema, view: canonical.ObjectView, context: TranslationContext) -> JsonSchema:
    branch = Branch(view)
    several = context.parts(node, branch)
    if len(several) > 1:
        return {"anyOf": [context.schema(part) for part in several]}
    context = context.applying(branch)
    schema: dict[str, Any] = {"type": "object"}
    allowed = None if view.property_names is None else _allowed_names(view.property_names)
    if view.property_names is not None and allowed is None:
        context.relax("propertyNames", "additionalProperties", "unevaluatedProperties", "not", "oneOf", "if")
    properties = _properties(view, allowed, context)
    if properties:
        schema["properties"] = properties
    schema |= _other_properties(view, allowed, context)
    if view.required:
        schema["required"] = context.in_order(view.required)
    if view.violations:
        context.relax("not", "oneOf", "if", "else", "dependentSchemas", "dependencies")
    return _with_count(schema, view, context)


def _allowed_names(names: CanonicalSchema) -> NameSet | None:
    """The names that ``propertyNames`` allows; None where a list and patterns cannot say."""
    match names.view():
        case canonical.FalseView():
            return NameSet()
        case canonical.ConstView(str(name)):
            return NameSet((name,))
        case canonical.EnumView(values):
            return NameSet(tuple(name for name in values if isinstance(name, str)))
        case canonical.AnyOfView(branches):
            return _union([_allowed_names(branch) for branch in branches])
        case canonical.StringView() as view:
            return _names_of_strings(view)
        case _:
            return None


def _union(sets: Sequence[NameSet | None]) -> NameSet | None:
    known = [names for names in sets if names is not None]
    if len(known) < len(sets):
        return None
    return NameSet(
        tuple(name for names in known for name in names.listed),
        tuple(pattern for names in known for pattern in names.patterns),
    )


def _names_of_strings(view: canonical.StringView) -> NameSet | None:
    """Names with a pattern, a format or a length: one of the three, for patterns cannot be joined by "and"."""
    if view.excluded or view.excluded_patterns or view.excluded_formats:
        return None
    patterns = [*view.patterns, *(PATTERNS[format] for format in view.formats if format in PATTERNS)]
    if view.min_length is not None or view.max_length is not None:
        most = "" if view.max_length is None else view.max_length
        patterns.append(f"^(?s:.{{{view.min_length or 0},{most}}})$")
    return NameSet(patterns=tuple(patterns)) if len(patterns) == 1 and is_regular(patterns[0]) else None


def _properties(
    view: canonical.ObjectView, allowed: NameSet | None, context: TranslationContext
) -> dict[str, JsonSchema]:
    """The properties that are known by name, each with all schemas that apply to it.

    The canonical form leaves out those with any value, which have their place in the author's order all the same.
    """
    known = {*view.properties, *(allowed.listed if allowed is not None else ())}
    # Where properties are counted, one that may be left out, and has any value, is better not known by name.
    counts = view.min_properties is not None or view.max_properties is not None
    free = () if counts else [name for name in context.listed() if allowed is None or name in allowed]
    properties: dict[str, JsonSchema] = {}
    for name in context.in_order({*known, *free}):
        inner = context.member(name)
        if allowed is None and name in view.properties:
            properties[name] = inner.schema(view.properties[name])
        elif allowed is None or name in allowed:
            schemas = [inner.schema(schema) for schema in _schemas_of(name, view)]
            properties[name] = {"allOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else True
        else:
            properties[name] = False
    return properties


def _schemas_of(name: str, view: canonical.ObjectView) -> list[CanonicalSchema]:
    applying = [view.properties[name]] if name in view.properties else []
    applying += [schema for pattern, schema in view.pattern_properties.items() if matches(pattern, name)]
    if not applying and view.additional_properties is not None:
        return [view.additional_properties]
    return applying


def _other_properties(
    view: canonical.ObjectView, allowed: NameSet | None, context: TranslationContext
) -> dict[str, JsonSchema]:
    """``patternProperties`` and ``additionalProperties``: what names may come besides the known ones."""
    others = True if view.additional_properties is None else context.others().schema(view.additional_properties)
    patterns = {p: context.pattern(p).schema(schema) for p, schema in view.pattern_properties.items()}
    if allowed is not None:
        if allowed.patterns and not patterns.keys() <= set(allowed.patterns):
            context.relax("patternProperties", "propertyNames")
        patterns = {pattern: patterns.get(pattern, others) for pattern in allowed.patterns}
        others = False
    if not all(map(is_regular, patterns)):
        context.relax("patternProperties")
        return {}
    shown = {engine_patterns(pattern): schema for pattern, schema in _merged(patterns).items()}
    patterns = {pattern: schema for (pattern, *_), schema in shown.items()}
    if not _disjoint(list(patterns)) or any(len(of_one) > 1 for of_one in shown):
        context.relax("patternProperties")
        return {}
    keywords: dict[str, JsonSchema] = {"patternProperties": patterns} if patterns else {}
    return keywords if others is True else {**keywords, "additionalProperties": others}


def _merged(by_pattern: Mapping[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Patterns whose values have the same schema become one pattern."""
    merged: list[tuple[list[str], JsonSchema]] = []
    for pattern, schema in by_pattern.items():
        same = next((patterns for patterns, other in merged if other == schema), None)
        if same is None:
            merged.append(([pattern], schema))
        else:
            same.append(pattern)
    return {p[0] if len(p) == 1 else "|".join(f"(?:{one})" for one in p): schema for p, schema in merged}


_PREFIX = re.compile(r"\^([A-Za-z0-9_ :/@-]+)(?![*?{+|])[^|]*")


def _disjoint(patterns: Sequence[str]) -> bool:
    """Whether no name matches two of the patterns, as far as their prefixes show."""
    if len(patterns) < 2:
        return True
    found = [_PREFIX.fullmatch(pattern) for pattern in patterns]
    prefixes = [match[1] for match in found if match is not None]
    return len(prefixes) == len(patterns) and not any(
        one.startswith(other) or other.startswith(one) for one, other in combinations(prefixes, 2)
    )


def _with_count(schema: dict[str, Any], view: canonical.ObjectView, context: TranslationContext) -> JsonSchema:
    """The schema with ``minProperties`` and ``maxProperties``, as selections of optional properties."""
    required = schema.get("required", ())
    properties: Mapping[str, JsonSchema] = schema.get("properties", {})
    optional = [name for name, value in properties.items() if value is not False and name not in required]
    least, most = _optional_count(schema, view, optional)
    if not least and most is None:
        return schema
    if not properties:
        if least > 1:  # The engine counts a name that comes twice as two.
            context.relax("minProperties", "not", "oneOf", "if")
        counts = {"minProperties": view.min_properties, "maxProperties": view.max_properties}
        return schema | {keyword: count for keyword, count in counts.items() if count is not None}
    # Selections of one size can be written out where they are few: with a lower or an upper bound, not both.
    both = (least and most is not None) or most == 0
    if not _is_closed(schema) or both or comb(len(optional), least or most or 0) > MOST_SELECTIONS:
        context.relax("minProperties" if least else "maxProperties", "not", "oneOf", "if")
        return schema
    if least:
        return {"anyOf": [{**schema, "required": [*required, *chosen]} for chosen in combinations(optional, least)]}
    return {"anyOf": [_dropping({*optional} - {*chosen}, schema) for chosen in combinations(optional, most or 0)]}


def _optional_count(
    schema: Mapping[str, Any], view: canonical.ObjectView, optional: Sequence[str]
) -> tuple[int, int | None]:
    """How many optional properties there must be at least, and may be at most (None: any number)."""
    required = len(schema.get("required", ()))
    least = max(0, (view.min_properties or 0) - required)
    most = None if view.max_properties is None else view.max_properties - required
    if most is not None and most >= len(optional) and _is_closed(schema):
        most = None
    return least, most


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return schema.get("additionalProperties") is False and "patternProperties" not in schema


def _dropping(names: Collection[str], schema: Mapping[str, Any]) -> JsonSchema:
    properties: Mapping[str, JsonSchema] = schema["properties"]
    left = {name: value for name, value in properties.items() if value is not False and name not in names}
    return {**schema, "properties": left}
