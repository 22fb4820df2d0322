"""Objects, with the engine's keywords."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

from jsonschema_rs import CanonicalSchema, canonical

from antiphon.conversation import JsonSchema

from .formats import PATTERNS
from .lowering import Lowering
from .quoting import in_json
from .strings import matches

MOST_CASES = 64
"""How many selections of properties may be written out."""


@dataclass(frozen=True, slots=True)
class Names:
    """A set of names: some one by one, some by pattern."""

    listed: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.listed or any(matches(pattern, name) for pattern in self.patterns)


def lower_object(view: canonical.ObjectView, lowering: Lowering) -> JsonSchema:
    schema: dict[str, Any] = {"type": "object"}
    names = None if view.property_names is None else _names(view.property_names)
    if view.property_names is not None and names is None:
        lowering.relax("propertyNames", "additionalProperties", "unevaluatedProperties", "not", "oneOf", "if")
    properties = _properties(view, names, lowering)
    if properties:
        schema["properties"] = properties
    schema |= _beyond(view, names, lowering)
    if view.required:
        schema["required"] = lowering.in_order(view.required)
    if view.violations:
        lowering.relax("not", "oneOf", "if", "else", "dependentSchemas", "dependencies")
    return _counted(schema, view, lowering)


def _names(names: CanonicalSchema) -> Names | None:
    """The names that a schema of names lets through, where they can be told."""
    match names.view():
        case canonical.FalseView():
            return Names()
        case canonical.ConstView(str(name)):
            return Names((name,))
        case canonical.EnumView(values):
            return Names(tuple(name for name in values if isinstance(name, str)))
        case canonical.AnyOfView(branches):
            found = [branch for branch in map(_names, branches) if branch is not None]
            if len(found) < len(branches):
                return None
            return Names(
                tuple(name for branch in found for name in branch.listed),
                tuple(pattern for branch in found for pattern in branch.patterns),
            )
        case canonical.StringView() as view if not (view.excluded or view.excluded_patterns or view.excluded_formats):
            ways = [*view.patterns, *(PATTERNS[format] for format in view.formats if format in PATTERNS)]
            if view.min_length is not None or view.max_length is not None:
                most = "" if view.max_length is None else view.max_length
                ways.append(f"^(?s:.{{{view.min_length or 0},{most}}})$")
            return Names(patterns=tuple(ways)) if len(ways) == 1 else None
        case _:
            return None


def _properties(view: canonical.ObjectView, names: Names | None, lowering: Lowering) -> dict[str, JsonSchema]:
    """The properties that are told one by one, each with all that is said of it."""
    if names is None:
        return {name: lowering.schema(view.properties[name]) for name in lowering.in_order(view.properties)}
    properties: dict[str, JsonSchema] = {}
    for name in lowering.in_order({*names.listed, *view.properties}):
        said = [view.properties[name]] if name in view.properties else []
        said += [schema for pattern, schema in view.pattern_properties.items() if matches(pattern, name)]
        if not said and view.additional_properties is not None:
            said = [view.additional_properties]
        schemas = [lowering.schema(schema) for schema in said] if name in names else [False]
        properties[name] = {"allOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else True
    return properties


def _beyond(view: canonical.ObjectView, names: Names | None, lowering: Lowering) -> dict[str, JsonSchema]:
    """What names may come besides the properties, and with what values."""
    others = True if view.additional_properties is None else lowering.schema(view.additional_properties)
    patterns = {pattern: lowering.schema(schema) for pattern, schema in view.pattern_properties.items()}
    if names is not None:
        if names.patterns and not patterns.keys() <= set(names.patterns):
            lowering.relax("patternProperties", "propertyNames")
        patterns = {pattern: patterns.get(pattern, others) for pattern in names.patterns}
        others = False
    spelled = {in_json(pattern): schema for pattern, schema in _merged(patterns).items()}
    patterns = {pattern: schema for (pattern, *_), schema in spelled.items()}
    if not _apart(list(patterns)) or any(len(of_name) > 1 for of_name in spelled):
        lowering.relax("patternProperties")
        return {}
    found: dict[str, JsonSchema] = {"patternProperties": patterns} if patterns else {}
    return found if others is True else {**found, "additionalProperties": others}


def _merged(by_pattern: dict[str, JsonSchema]) -> dict[str, JsonSchema]:
    """Patterns that ask the same become one."""
    merged: list[tuple[list[str], JsonSchema]] = []
    for pattern, schema in by_pattern.items():
        same = next((patterns for patterns, other in merged if other == schema), None)
        if same is None:
            merged.append(([pattern], schema))
        else:
            same.append(pattern)
    return {p[0] if len(p) == 1 else "|".join(f"(?:{one})" for one in p): schema for p, schema in merged}


_PREFIX = re.compile(r"\^([A-Za-z0-9_ :/@-]+)(?![*?{+|])[^|]*")


def _apart(patterns: list[str]) -> bool:
    """Whether no name has two of the patterns: the engine wants to know, and tells prefixes apart."""
    if len(patterns) < 2:
        return True
    found = [_PREFIX.fullmatch(pattern) for pattern in patterns]
    prefixes = [match[1] for match in found if match is not None]
    return len(prefixes) == len(patterns) and not any(
        one.startswith(other) or other.startswith(one) for one, other in combinations(prefixes, 2)
    )


def _counted(schema: dict[str, Any], view: canonical.ObjectView, lowering: Lowering) -> JsonSchema:
    """How many properties there may be: the engine counts only where none is optional, so choices are written out."""
    properties: dict[str, JsonSchema] = schema.get("properties", {})
    names = [name for name, value in properties.items() if value is not False]
    required = schema.get("required", [])
    optional = [name for name in names if name not in required]
    closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    least = max(0, (view.min_properties or 0) - len(required))
    most = None if view.max_properties is None else view.max_properties - len(required)
    if closed and most is not None and most >= len(optional):
        most = None
    if not least and most is None:
        return schema
    if not properties:
        counts = {"minProperties": view.min_properties, "maxProperties": view.max_properties}
        return {**schema, **{keyword: count for keyword, count in counts.items() if count is not None}}
    if not closed or (least and most is not None) or most == 0:
        lowering.relax("minProperties" if least else "maxProperties", "not", "oneOf", "if")
        return schema
    size = least or most or 0
    if comb(len(optional), size) > MOST_CASES:
        lowering.relax("minProperties" if least else "maxProperties", "not", "oneOf", "if")
        return schema
    if least:
        return {"anyOf": [{**schema, "required": [*required, *chosen]} for chosen in combinations(optional, least)]}
    return {
        "anyOf": [
            {**schema, "properties": {name: properties[name] for name in names if name in required or name in chosen}}
            for chosen in combinations(optional, size)
        ]
    }
