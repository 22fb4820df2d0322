"""Finds which of an author's alternatives a canonical object is of, and its parts where it is of several.

The canonical form makes one object of alternatives that differ in one property. Where they differ in their order too,
it is taken apart again:

    schema   {"oneOf":
             [{"type": "object", "properties": {"kind": {"const": 1}, "b": {}, "a": {}}, "required": ["kind"]},
             {"type": "object", "properties": {"kind": {"const": 2}, "a": {}, "b": {}}, "required": ["kind"]}]}
    engine   {"anyOf":
             [{"type": "object", "properties": {"kind": {"const": 1}, "b": true, "a": true}, "required": ["kind"]},
             {"type": "object", "properties": {"kind": {"const": 2}, "a": true, "b": true}, "required": ["kind"]}]}
    accepts  {"kind":1,"b":0,"a":0}  {"kind":2,"a":0,"b":0}
    refuses  {"kind":1,"a":0,"b":0}  {"kind":2,"b":0,"a":0}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Containment

Authored = tuple[dict[str, Any], ...]
"""The author's schemas that apply at one place, in the order in which they were written."""

_OF_VALUES = ("type", "enum", "const")
_TYPE_OF: Mapping[type, str] = MappingProxyType(
    {
        canonical.StringView: "string",
        canonical.IntegerView: "integer",
        canonical.NumberView: "number",
        canonical.ArrayView: "array",
        canonical.ObjectView: "object",
    }
)


class Branch:
    """An object of the canonical form, whose views are made once."""

    def __init__(self, view: canonical.ObjectView) -> None:
        self.required = {*view.required}
        self.properties = view.properties
        others = view.additional_properties
        self.is_closed = view.property_names is not None or (others is not None and _is_false(others))
        self._views: dict[str, object] = {}
        self._seen: dict[int, bool] = {}

    def view(self, name: str) -> object:
        """The values of a property; None where the object does not name it."""
        if name not in self._views:
            value = self.properties.get(name)
            self._views[name] = None if value is None else value.view()
        return self._views[name]

    def comes_from(self, way: Authored) -> bool:
        """Whether it has the required names, the values and the types that an alternative requires."""
        if id(way) not in self._seen:
            self._seen[id(way)] = all(
                self.required.issuperset(names_of(node, "required"))
                and (node.get("additionalProperties") is not False or self.is_closed)
                and all(
                    _may_hold(_values(node["properties"][name]), name, self) for name in names_of(node, "properties")
                )
                for node in way
            )
        return self._seen[id(way)]


def names_of(node: Mapping[str, Any], keyword: str) -> Iterable[str]:
    """The names in a keyword such as ``properties`` or ``required``."""
    value = node.get(keyword)
    if isinstance(value, dict):
        return value
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else ()


def parts(node: CanonicalSchema, branch: Branch, ways: Sequence[Authored]) -> list[CanonicalSchema]:
    """The object as several, one for each of the values by which a property tells alternatives apart; else itself."""
    for name, value in branch.properties.items():
        known = [_values_of(way, name) for way in ways]
        try:
            several = _apart(known, value, node) if all(known) else []
            if len(several) > 1:
                having = [{"type": "object", "properties": {name: schema}} for schema in several]
                return [node.intersect(_form(schema, node)) for schema in having]
        except canonical.CanonicalizationError:
            continue
    return [node]


def _apart(known: Sequence[dict[str, Any]], value: CanonicalSchema, node: CanonicalSchema) -> list[dict[str, Any]]:
    """The sets of values that a property has some of, if it has no other, and none of two."""
    forms = [(schema, _form(schema, node)) for i, schema in enumerate(known) if schema not in known[:i]]
    met = [(schema, form) for schema, form in forms if not _is_false(form.intersect(value))]
    if any(not _is_false(one.intersect(other)) for (_, one), (_, other) in combinations(met, 2)):
        return []
    covered = met and reduce(CanonicalSchema.union, [form for _, form in met]).covers(value) == Containment.YES
    return [schema for schema, _ in met] if covered else []


def _is_false(form: CanonicalSchema) -> bool:
    return isinstance(form.view(), canonical.FalseView)


def _form(schema: dict[str, Any], node: CanonicalSchema) -> CanonicalSchema:
    """A schema's canonical form, to be met with the node."""
    return jsonschema_rs.canonicalize(schema, draft=node.draft, validate_formats=True, offline=True)


def _values_of(way: Authored, name: str) -> dict[str, Any]:
    """The values of a property in an alternative, as far as types and lists of values go."""
    properties = (node["properties"] for node in way if isinstance(node.get("properties"), dict))
    return next((known for named in properties if (known := _values(named.get(name)))), {})


def _values(schema: Any) -> dict[str, Any]:
    return {key: schema[key] for key in _OF_VALUES if key in schema} if isinstance(schema, dict) else {}


def _may_hold(known: dict[str, Any], name: str, branch: Branch) -> bool:
    """Whether the values that the branch has for a property are those that are known of an alternative."""
    value = branch.view(name) if known else None
    if value is None:
        return not known
    match value:
        case canonical.ConstView(only):
            return _is_one_of(known, only)
        case canonical.EnumView(several):
            return all(_is_one_of(known, one) for one in several)
        case canonical.MultiTypeView(types):
            return known.keys() == {"type"} and all(_includes(known["type"], type) for type in types)
        case view:
            type = _TYPE_OF.get(view.__class__)
            return type is None or (known.keys() == {"type"} and _includes(known["type"], type))


def _is_one_of(known: dict[str, Any], value: Any) -> bool:
    values = [known["const"]] if "const" in known else known.get("enum", [value])
    # Most differ: that is seen without a validator, which tells true from 1.
    return value in values and jsonschema_rs.is_valid(known, value)


def _includes(types: Any, type: str) -> bool:
    given = types if isinstance(types, list) else [types]
    return type in given or (type == "integer" and "number" in given)
