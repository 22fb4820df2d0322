"""An instance with the members of each object in the order of the schema objects that apply to it.

This is the measure of what a grammar should accept, so it knows nothing of the grammar: it walks the schema as its
author wrote it beside the value. Of alternatives, those count that the value fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import jsonschema_rs

ROOT = "http://own.order/document"
_DATA = frozenset(["const", "enum", "default", "examples"])


@dataclass(frozen=True, slots=True)
class Place:
    """A schema and its JSON Pointer in the document."""

    pointer: str
    schema: Any

    def inner(self, *steps: str | int) -> Place:
        schema, pointer = self.schema, self.pointer
        for step in steps:
            schema = schema[step]
            pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
        return Place(pointer, schema)


class OwnOrder:
    """One document: `write` gives an instance in the document's order."""

    def __init__(self, document: Any) -> None:
        self._document = Place("", document)
        self._registry = jsonschema_rs.Registry([(ROOT, document)]) if isinstance(document, dict) else None
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}
        self._named = dict(_names(self._document))

    def write(self, value: Any) -> Any:
        """The same value; whole numbers are without a fraction, as they are always written."""
        return self._written(value, [self._document])

    def _written(self, value: Any, places: Sequence[Place]) -> Any:
        applying = [place for top in places for place in self._in_place(top, value, 0)]
        match value:
            case dict():
                names = dict.fromkeys(name for place in applying for name in place.schema.get("properties", {}))
                names |= dict.fromkeys(name for place in applying for name in _elsewhere(place.schema))
                order = [*(name for name in names if name in value), *(name for name in value if name not in names)]
                return {name: self._written(value[name], list(_members(applying, name))) for name in order}
            case list():
                return [self._written(item, list(_items(applying, i))) for i, item in enumerate(value)]
            case float() if value.is_integer():
                return int(value)
            case _:
                return value

    def _in_place(self, place: Place, value: Any, depth: int) -> Iterator[Place]:
        """The schema objects that apply to the value, as their author wrote them; what only asks comes last."""
        node = place.schema
        if not isinstance(node, dict) or depth > 24:
            return
        seen_own = False
        for key in node:
            if key in ("properties", "items", "prefixItems", "additionalProperties", "patternProperties"):
                if not seen_own:
                    yield place
                seen_own = True
            else:
                for inner in self._applied(place, key, value):
                    yield from self._in_place(inner, value, depth + 1)
        if not seen_own:
            yield place
        if "if" in node and self._fits(place.inner("if"), value):
            yield from self._in_place(place.inner("if"), value, depth + 1)

    def _applied(self, place: Place, key: str, value: Any) -> Iterator[Place]:
        """What a keyword applies to the same value."""
        node = place.schema
        match key:
            case "$ref" | "$dynamicRef" | "$recursiveRef" if isinstance(node[key], str):
                yield from self._target(node[key])
            case "allOf":
                yield from (place.inner(key, i) for i in range(len(node[key])))
            case "anyOf" | "oneOf":
                ways = [place.inner(key, i) for i in range(len(node[key]))]
                yield from (way for way in ways if self._fits(way, value))
            case "then" | "else" if "if" in node and self._fits(place.inner("if"), value) is (key == "then"):
                yield place.inner(key)
            case "dependentSchemas" | "dependencies" if isinstance(value, dict):
                yield from (place.inner(key, name) for name in node[key] if name in value)

    def _target(self, reference: str) -> Iterator[Place]:
        if reference in self._named:
            yield self._named[reference]
        elif reference == "#" or reference.startswith("#/"):
            try:
                steps = [unquote(one).replace("~1", "/").replace("~0", "~") for one in reference.split("/")[1:]]
                yield _descend(self._document, steps)
            except (KeyError, IndexError, TypeError, ValueError):
                return

    def _fits(self, place: Place, value: Any) -> bool:
        if place.pointer not in self._validators:
            self._validators[place.pointer] = self._validator(f"{ROOT}#{quote(place.pointer)}")
        validator = self._validators[place.pointer]
        return validator is None or validator.is_valid(value)

    def _validator(self, reference: str) -> jsonschema_rs.Validator | None:
        try:
            return jsonschema_rs.validator_for({"$ref": reference}, registry=self._registry, offline=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            return None  # It refers to what the document does not have.


def _elsewhere(schema: dict[str, Any]) -> Iterator[str]:
    """The names that are not in ``properties``."""
    lists = [schema.get("required"), schema.get("propertyNames")]
    lists = [value.get("enum") if isinstance(value, dict) else value for value in lists]
    yield from (name for names in lists if isinstance(names, list) for name in names if isinstance(name, str))


def _members(places: Sequence[Place], name: str) -> Iterator[Place]:
    """The schemas of a member's value."""
    for place in places:
        node, known = place.schema, False
        if name in node.get("properties", {}):
            known = True
            yield place.inner("properties", name)
        for pattern in node.get("patternProperties", {}):
            if jsonschema_rs.is_valid({"pattern": pattern}, name):
                known = True
                yield place.inner("patternProperties", pattern)
        for other in ("additionalProperties", "unevaluatedProperties"):
            if not known and isinstance(node.get(other), dict):
                yield place.inner(other)


def _items(places: Sequence[Place], i: int) -> Iterator[Place]:
    """The schemas of an item."""
    for place in places:
        node = place.schema
        prefix = "prefixItems" if "prefixItems" in node else "items" if isinstance(node.get("items"), list) else None
        if prefix is not None and i < len(node[prefix]):
            yield place.inner(prefix, i)
            continue
        for key in ("items", "additionalItems"):
            if isinstance(node.get(key), dict):
                yield place.inner(key)


def _names(place: Place) -> Iterator[tuple[str, Place]]:
    """References by name (anchors, ids) and where they lead."""
    match place.schema:
        case dict() as node:
            for key, sign in (("$anchor", "#"), ("$dynamicAnchor", "#"), ("$id", ""), ("id", "")):
                if isinstance(node.get(key), str):
                    yield sign + node[key], place
            for key in node.keys() - _DATA:
                yield from _names(place.inner(key))
        case list() as items:
            for i in range(len(items)):
                yield from _names(place.inner(i))


def _descend(place: Place, steps: Sequence[str]) -> Place:
    for step in steps:
        place = place.inner(int(step) if isinstance(place.schema, list) else step)
    return place
