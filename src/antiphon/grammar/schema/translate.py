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

How many cases a schema has: its canonical form writes them out, in time and memory, before it gives up.

Choices that must be met at once multiply:

>>> choice = {"oneOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}
>>> [count_cases(schema, {}) for schema in (choice, {"allOf": [choice, choice]}, {"anyOf": [choice, choice]})]
[3, 9, 6]
>>> has_too_many_cases({"allOf": [choice] * 7}), has_too_many_cases({"items": {"allOf": [choice] * 8}})
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import combinations
from math import prod
from typing import Any, assert_never

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Satisfiability

from antiphon.conversation import JsonSchema
from antiphon.grammar.limits import no_schema

from .context import Translation, TranslationContext
from .exact import Relaxation, translate_number
from .objects import translate_array, translate_object
from .order import AuthoredSchema
from .patterns import NOT_REGULAR, PATTERNS, all_except, engine_fault, engine_patterns, is_regular, pattern_keywords

MOST_CASES = 4_096
"""Beyond, a schema is not brought to its canonical form: what the engine does not know of it is relaxed."""
_DEPENDENT = ("dependentRequired", "dependentSchemas", "dependencies")


def has_too_many_cases(schema: Any) -> bool:
    """Whether some place of the schema has more than `MOST_CASES`, as far as keywords show."""
    counted: dict[int, int] = {}
    todo = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if count_cases(node, counted) > MOST_CASES:
                return True
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return False


def count_cases(node: Any, counted: dict[int, int]) -> int:
    """The ways to meet a node, at most one beyond `MOST_CASES`: one of each choice, for all that must be met at once.

    ``counted`` has the count of each node seen, by its `id`: a schema may have a node in many places.
    """
    if not isinstance(node, dict):
        return 1
    if id(node) not in counted:
        counted[id(node)] = min(MOST_CASES + 1, prod(_factors(node, counted)))
    return counted[id(node)]


def _factors(node: dict[str, Any], counted: dict[int, int]) -> Iterator[int]:
    for key in ("anyOf", "oneOf"):
        yield max(1, sum(count_cases(branch, counted) for branch in _listed(node, key)))
    for branch in _listed(node, "allOf"):
        yield count_cases(branch, counted)
    if "if" in node:
        yield count_cases(node.get("then"), counted) + count_cases(node.get("else"), counted)
    for key in _DEPENDENT:
        if isinstance(node.get(key), dict):
            yield 2 ** min(len(node[key]), 13)
    denied = node.get("not")
    if isinstance(denied, dict):
        yield max(1, len(_listed(denied, "required")), len(denied))


def _listed(node: dict[str, Any], key: str) -> list[Any]:
    value = node.get(key)
    return value if isinstance(value, list) else []


# Strings of a canonical schema, in the engine's keywords.
#
# The engine has one pattern a string and no ``not``; a format, and excluded texts, are patterns too:
#
#     schema   {"type": "string", "not": {"enum": ["no", "non"]}, "maxLength": 3}
#     engine   {"type": "string", "maxLength": 3, "pattern": "^(?s:|[^n].*|n(?:|[^o].*|o(?:[^n].*|n(?:.+))))$"}
#     accepts  ""  "n"  "yes"
#     refuses  "no"  "non"  "noon"
#
#     schema   {"type": "string", "pattern": "^20", "format": "date"}
#     engine   {"type": "string", "pattern": "^20", "allOf": [{"type": "string", "pattern": "^(?s:(?:[0-9]{4}-…)$"}]}
#     accepts  "2024-02-29"
#     refuses  "1999-12-31"  "2023-02-29"
#
# A pattern that looks around is more than an automaton can do:
#
#     schema   {"type": "string", "pattern": "^(?!x)", "maxLength": 2}
#     engine   {"type": "string", "maxLength": 2}
#     relaxed  .pattern
#     accepts  "ab"
#     rejects  "xa"

_UNDECIDED = "Unable to determine"
"""How the engine begins where it cannot say whether any text fits patterns and lengths together."""


def translate_string(view: canonical.StringView, context: TranslationContext) -> JsonSchema:
    patterns = _patterns(view, context)
    if not NOT_REGULAR.isdisjoint(view.formats):
        context.relax("format")
    # A format that is no standard's is an annotation.
    patterns += [PATTERNS[format] for format in view.formats if format in PATTERNS]
    if view.excluded:
        patterns += engine_patterns(all_except(view.excluded))
    if view.excluded_patterns or view.excluded_formats:
        context.relax("not", "oneOf", "if", "else")
    patterns = list(dict.fromkeys(patterns))
    schema = {"type": "string", **_lengths(view), **pattern_keywords(patterns)}
    if len(patterns) > 1 and _UNDECIDED in engine_fault(schema):
        context.relax("pattern", "format", "not")
        return {"type": "string", **_lengths(view)}
    return schema


def _patterns(view: canonical.StringView, context: TranslationContext) -> list[str]:
    patterns: list[str] = []
    for pattern in view.patterns:
        if not is_regular(pattern):
            context.relax("pattern")
        else:
            patterns += engine_patterns(pattern)
    return patterns


def _lengths(view: canonical.StringView) -> dict[str, Any]:
    lengths = {"minLength": view.min_length, "maxLength": view.max_length}
    return {keyword: length for keyword, length in lengths.items() if length is not None}


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
            return context.whole.reference(uri)
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
    """The branches as one node, with what they refer to in its place, unless that is no simpler."""
    try:
        whole = reduce(CanonicalSchema.intersect, map(context.target, branches))
    except canonical.CanonicalizationError:
        whole = None
    if whole is None or isinstance(whole.view(), canonical.AllOfView | canonical.RawView):
        return {"allOf": [context.schema(branch) for branch in branches]}
    uris = [view.uri for branch in branches if isinstance(view := branch.view(), canonical.ReferenceView)]
    return context.whole.joint(uris, whole, context.places) if len(uris) == len(branches) else context.schema(whole)


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
