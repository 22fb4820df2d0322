"""The canonical form of a schema, written with the keywords that the engine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any, assert_never

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Satisfiability

from antiphon.conversation import JsonSchema
from antiphon.errors import RequestError

from .arrays import lower_array
from .cases import has_too_many_cases
from .lowering import Lowering
from .numbers import lower_number
from .objects import lower_object
from .strings import lower_string


@dataclass(frozen=True, slots=True)
class Relaxed:
    """A keyword that the engine does not hold, and where it stands in the schema (as ``.properties.a.not``)."""

    keyword: str
    path: str


def lowered(schema: JsonSchema) -> tuple[JsonSchema, tuple[Relaxed, ...]]:
    """The engine's schema, and what of the original it leaves open."""
    if has_too_many_cases(schema):
        return True, (_found(schema, _CHOICES),)
    try:
        form = jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise RequestError(str(error).split("\n")[0], code="invalid_schema") from None
    lowering = Lowering(form, names_in_order(schema), _node)
    engine = lowering.schema(form)
    definitions = lowering.definitions()
    if definitions:
        engine = {**(engine if isinstance(engine, dict) else {"anyOf": [engine]}), "$defs": definitions}
    return engine, tuple(_found(schema, keywords) for keywords in dict.fromkeys(lowering.relaxed))


def _node(node: CanonicalSchema, lowering: Lowering) -> JsonSchema:
    match node.view():
        case canonical.TrueView():
            return True
        case canonical.FalseView():
            return False
        case canonical.MultiTypeView(types):
            return {"type": types[0] if len(types) == 1 else types}
        case canonical.ConstView(value):
            return {"const": value}
        case canonical.EnumView(values):
            return {"enum": values}
        case canonical.TypedGroupView(name, body):
            if _is_of(name, lowering.target(body)):
                return lowering.schema(body)
            return {"allOf": [{"type": name}, lowering.schema(body)]}
        case canonical.AnyOfView(branches):
            return {"anyOf": [lowering.schema(branch) for branch in branches]}
        case canonical.AllOfView(branches):
            whole = _intersection(branches, lowering)
            if whole is not None:
                return lowering.schema(whole)
            return {"allOf": [lowering.schema(branch) for branch in branches]}
        case canonical.OneOfView(branches):
            if any(_overlap(*pair, lowering) for pair in combinations(branches, 2)):
                lowering.relax("oneOf")
            return {"anyOf": [lowering.schema(branch) for branch in branches]}
        case canonical.ReferenceView(uri):
            return lowering.reference(uri)
        case canonical.StringView() as view:
            return lower_string(view, lowering)
        case canonical.IntegerView() | canonical.NumberView() as view:
            return lower_number(view, lowering)
        case canonical.ArrayView() as view:
            return lower_array(view, lowering)
        case canonical.ObjectView() as view:
            return lower_object(view, lowering)
        case canonical.NotView():
            return lowering.relax("not", "oneOf", "if", "else", "dependentSchemas", "dependencies")
        case canonical.RawView():
            return lowering.relax(*_RARE)
        case view:
            assert_never(view)


def _is_of(name: str, node: CanonicalSchema) -> bool:
    """Whether the node has values of one type alone, and it is this one."""
    match node.view():
        case canonical.ObjectView():
            return name == "object"
        case canonical.ArrayView():
            return name == "array"
        case canonical.StringView():
            return name == "string"
        case _:
            return False


def _intersection(branches: list[CanonicalSchema], lowering: Lowering) -> CanonicalSchema | None:
    """The branches as one node, with what they refer to in its place; None where that is no simpler."""
    try:
        whole = reduce(CanonicalSchema.intersect, map(lowering.target, branches))
    except canonical.CanonicalizationError:
        return None
    return None if isinstance(whole.view(), canonical.AllOfView | canonical.RawView) else whole


_RARE = ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "if", "not", "oneOf", "allOf", "anyOf", "$ref")


_CHOICES = ("oneOf", "dependentRequired", "dependentSchemas", "dependencies", "if", "not", "anyOf", "allOf")


def _overlap(one: CanonicalSchema, other: CanonicalSchema, lowering: Lowering) -> bool:
    """Whether a value may fit both, as far as can be told."""
    try:
        both = lowering.target(one).intersect(lowering.target(other))
    except canonical.CanonicalizationError:
        return True
    return both.satisfiability() is not Satisfiability.NO


def names_in_order(schema: Any) -> dict[str, int]:
    """Every property's rank by its first place in the schema: the canonical form sorts, an author means an order."""
    ranks: dict[str, int] = {}
    for _, node in _walk(schema):
        for keyword in ("properties", "required"):
            for name in node.get(keyword, ()) if isinstance(node.get(keyword), dict | list) else ():
                if isinstance(name, str):
                    ranks.setdefault(name, len(ranks))
    return ranks


def _found(schema: JsonSchema, keywords: tuple[str, ...]) -> Relaxed:
    """The first of ``keywords`` that stands in the schema, with its place."""
    for keyword in keywords:
        for path, node in _walk(schema):
            if keyword in node:
                return Relaxed(keyword, f"{path}.{keyword}")
    return Relaxed(keywords[0], "")


def _walk(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the schema with its path, those further out and earlier first."""
    level: list[tuple[str, Any]] = [("", schema)]
    while level:
        yield from ((path, node) for path, node in level if isinstance(node, dict))
        level = [
            (f"{path}.{key}" if isinstance(node, dict) else f"{path}[{key}]", value)
            for path, node in level
            if isinstance(node, dict | list)
            for key, value in (node.items() if isinstance(node, dict) else enumerate(node))
        ]
