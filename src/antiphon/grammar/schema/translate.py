"""A schema that goes beyond the engine's keywords → its canonical form → the keywords that the engine has.

jsonschema-rs works out negations, conditions, dependencies and exclusive choices as sets of values. Each node of the
canonical form is then translated, the types in modules of their own.

    schema   {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind"],
             "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["n"]}}
    engine   {"anyOf": [{"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]},
             {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}}, "required": ["kind", "n"]}]}
    accepts  {"kind":"a","n":1}  {"kind":"b"}
    refuses  {"kind":"a"}  {"kind":"c"}

    schema   {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "integer", "minimum": 3}]}
    engine   {"anyOf": [{"type": "integer", "maximum": 2}, {"type": "integer", "minimum": 6}]}
    accepts  2  6
    refuses  4  "x"

    schema   {"type": "string", "not": {"pattern": "^x"}}
    engine   {"type": "string"}
    relaxed  .not
    accepts  "a"
    rejects  "xa"
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations
from typing import Any, assert_never

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Satisfiability

from antiphon.conversation import JsonSchema
from antiphon.grammar.limits import no_schema

from .arrays import translate_array
from .cases import has_too_many_cases
from .context import Translation, TranslationContext
from .exact import Relaxation
from .numbers import translate_number
from .objects import translate_object
from .order import AuthoredSchema
from .strings import translate_string

_Values = canonical.TrueView | canonical.FalseView | canonical.MultiTypeView | canonical.ConstView | canonical.EnumView
_Combination = (
    canonical.TypedGroupView | canonical.AnyOfView | canonical.AllOfView | canonical.OneOfView | canonical.ReferenceView
)
_OfOneType = (
    canonical.StringView | canonical.IntegerView | canonical.NumberView | canonical.ArrayView | canonical.ObjectView
)

_CHOICES = ("oneOf", "dependentRequired", "dependentSchemas", "dependencies", "if", "not", "anyOf", "allOf")
_NEGATIONS = ("not", "oneOf", "if", "else", "dependentSchemas", "dependencies")
_RARE = ("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "if", "not", "oneOf", "allOf", "anyOf", "$ref")


def translate(schema: JsonSchema, path: str = "") -> tuple[JsonSchema, tuple[Relaxation, ...]]:
    """The engine's schema, and the keywords of the original, at ``path``, that it does not enforce."""
    if has_too_many_cases(schema):
        return True, (_first(_CHOICES, schema),)
    try:
        form = jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise no_schema(str(error), path) from None
    author = AuthoredSchema(schema)
    whole = Translation(form, author, _node)
    engine = TranslationContext(whole, author.top).schema(form)
    definitions = whole.definitions()
    if definitions:
        engine = {**(engine if isinstance(engine, dict) else {"anyOf": [engine]}), "$defs": definitions}
    return engine, tuple(_first(keywords, schema) for keywords in dict.fromkeys(whole.relaxed))


def _node(node: CanonicalSchema, context: TranslationContext) -> JsonSchema:
    view = node.view()
    if isinstance(view, _Values):
        return _values(view)
    if isinstance(view, _OfOneType):
        return _of_one_type(node, view, context)
    if isinstance(view, _Combination):
        return _combination(view, context)
    match view:
        case canonical.NotView():
            return context.relax(*_NEGATIONS)
        case canonical.RawView():
            return context.relax(*_RARE)
        case _:
            assert_never(view)


def _values(view: _Values) -> JsonSchema:
    match view:
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
        case _:
            assert_never(view)


def _of_one_type(node: CanonicalSchema, view: _OfOneType, context: TranslationContext) -> JsonSchema:
    match view:
        case canonical.StringView():
            return translate_string(view, context)
        case canonical.IntegerView() | canonical.NumberView():
            return translate_number(view, context)
        case canonical.ArrayView():
            return translate_array(view, context)
        case canonical.ObjectView():
            return translate_object(node, view, context)
        case _:
            assert_never(view)


def _combination(view: _Combination, context: TranslationContext) -> JsonSchema:
    match view:
        case canonical.TypedGroupView(name, body):
            if _has_only_type(name, context.target(body)):
                return context.schema(body)
            return {"allOf": [{"type": name}, context.schema(body)]}
        case canonical.AnyOfView(branches):
            return {"anyOf": [context.schema(branch) for branch in branches]}
        case canonical.AllOfView(branches):
            return _all_of(branches, context)
        case canonical.OneOfView(branches):
            if any(_overlap(*pair, context) for pair in combinations(branches, 2)):
                context.relax("oneOf")
            return {"anyOf": [context.schema(branch) for branch in branches]}
        case canonical.ReferenceView(uri):
            return context.reference(uri)
        case _:
            assert_never(view)


def _has_only_type(name: str, node: CanonicalSchema) -> bool:
    """Whether all values of the node are of the type ``name``."""
    match node.view():
        case canonical.ObjectView():
            return name == "object"
        case canonical.ArrayView():
            return name == "array"
        case canonical.StringView():
            return name == "string"
        case _:
            return False


def _all_of(branches: list[CanonicalSchema], context: TranslationContext) -> JsonSchema:
    whole = _intersection(branches, context)
    if whole is not None:
        uris = [view.uri for branch in branches if isinstance(view := branch.view(), canonical.ReferenceView)]
        return context.joint(uris, whole) if len(uris) == len(branches) else context.schema(whole)
    return {"allOf": [context.schema(branch) for branch in branches]}


def _intersection(branches: list[CanonicalSchema], context: TranslationContext) -> CanonicalSchema | None:
    """The branches as one node, with what they refer to in its place; None where that is no simpler."""
    try:
        whole = reduce(CanonicalSchema.intersect, map(context.target, branches))
    except canonical.CanonicalizationError:
        return None
    return None if isinstance(whole.view(), canonical.AllOfView | canonical.RawView) else whole


def _overlap(one: CanonicalSchema, other: CanonicalSchema, context: TranslationContext) -> bool:
    """Whether a value may fit both, as far as can be known."""
    try:
        both = context.target(one).intersect(context.target(other))
    except canonical.CanonicalizationError:
        return True
    return both.satisfiability() is not Satisfiability.NO


def _first(keywords: tuple[str, ...], schema: JsonSchema) -> Relaxation:
    """The first of ``keywords`` that occurs in the schema, with its place."""
    for keyword in keywords:
        for path, node in _walk(schema):
            if keyword in node:
                return Relaxation(keyword, f"{path}.{keyword}")
    return Relaxation(keywords[0], "")


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
