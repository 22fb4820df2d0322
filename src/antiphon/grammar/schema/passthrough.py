"""Schemas within the engine's own keywords: they pass through, without annotations, formats as patterns.

    schema   {"title": "T", "type": "object", "required": ["a"],
             "properties": {"b": {"type": "integer", "description": "B."}, "a": {"type": "string", "maxLength": 1}}}
    engine   {"type": "object", "required": ["a"],
             "properties": {"b": {"type": "integer"}, "a": {"type": "string", "maxLength": 1}}}
    accepts  {"b":1,"a":"x"}  {"a":""}
    refuses  {"b":1}  {"a":"xy"}

A keyword that the engine lacks, here ``oneOf``, sends the whole schema to `.translate`:

>>> pass_through({"oneOf": [{"type": "integer"}, {"type": "string"}]}) is None
True
>>> pass_through({"type": "string", "format": "relative-json-pointer"})
{'type': 'string', 'pattern': '^(?s:(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*))$'}

Schemas and patterns of which it is known beforehand that compiling them takes a moment.

A schema is plain where each of its keywords is one that passes through as it stands, and it is not
large: its compilation is then one walk over its parts, and what the engine makes of it is bounded by the engine's own
limits. Whatever intersects, negates, counts cases or compiles patterns together is not plain, however short it is.

>>> is_plain({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]})
True
>>> is_plain({"allOf": [{"type": "string"}, {"pattern": "a"}]}), is_plain({"type": "number", "multipleOf": 0.01})
(False, False)
>>> [is_plain({"type": "string", "pattern": pattern}) for pattern in ("^[a-z]+$", "^(?:a{9}){9}$", "^(?=a)")]
[True, False, False]
"""

from __future__ import annotations

import re
from typing import Any

from antiphon.conversation import JsonSchema

from .patterns import NOT_REGULAR, PATTERNS, engine_patterns, is_regular, pattern_keywords

MOST_VALUES = 1_000
"""Values of JSON that a plain schema has."""
MOST_CHARACTERS = 32 * 1024
"""Characters of its names and texts."""
MOST_PATTERN = 128
"""Characters of a plain pattern."""
MOST_PATTERNS = 16
"""Patterns of a plain schema."""

MOST_NUMBER = 10.0**40
"""Above it, and below its inverse, are numbers that take long to write as a pattern: their digits are counted twice."""

_VALUES = frozenset(
    "type enum const required minimum maximum exclusiveMinimum exclusiveMaximum "
    "minLength maxLength minItems maxItems".split()
)
_PLAIN_ANNOTATIONS = frozenset(
    "$schema title description default examples example deprecated readOnly writeOnly $comment nullable".split()
)
_BESIDE_REFERENCE = _PLAIN_ANNOTATIONS | {"$ref", "$defs", "definitions"}
_BESIDE_PATTERN = _PLAIN_ANNOTATIONS | {"type", "pattern"}
_COUNTED_OR_LOOKING = re.compile(r"\{|\(\?(?!:)|\\[1-9bBkpP]|[^\\]\$.|.\^")
"""Patterns that unroll, look around or back, name classes of Unicode, or have an edge in their midst."""


def is_plain_pattern(pattern: str) -> bool:
    """Whether a pattern is short, and what it says is said once."""
    return len(pattern) <= MOST_PATTERN and not _COUNTED_OR_LOOKING.search(pattern)


def is_plain(schema: Any) -> bool:
    """Whether a schema is small and made of plain keywords; looks at no more of it than that takes."""
    left, characters, patterns = MOST_VALUES, MOST_CHARACTERS, MOST_PATTERNS
    todo: list[tuple[Any, bool]] = [(schema, True)]
    while todo:
        node, is_schema = todo.pop()
        if isinstance(node, str):
            characters -= len(node)
        elif isinstance(node, list):
            left -= len(node)
            todo += [(item, is_schema) for item in node[: max(left, 0)]]
        elif isinstance(node, dict):
            left -= len(node)
            characters -= sum(map(len, node))
            if is_schema:
                patterns -= "pattern" in node
                if not _is_plain_node(node):
                    return False
            if left >= 0:
                todo += _inner(node) if is_schema else [(value, False) for value in node.values()]
        elif not _is_plain_value(node, is_schema):
            return False
        if min(left, characters, patterns) < 0:
            return False
    return True


def _is_plain_value(value: Any, is_schema: bool) -> bool:
    """Whether a value that is no text, list or object may stand where it does."""
    if isinstance(value, bool):
        return True
    return not is_schema and (not value or 1 / MOST_NUMBER < abs(value) < MOST_NUMBER)


def _is_plain_node(node: dict[str, Any]) -> bool:
    for key, value in node.items():
        match key:
            case _ if key in _VALUES or key in _PLAIN_ANNOTATIONS:
                continue
            case "properties" | "$defs" | "definitions" if isinstance(value, dict):
                continue
            case "additionalProperties" | "items" if isinstance(value, dict | bool):
                continue
            case "anyOf" if isinstance(value, list):
                continue
            case "$ref" if node.keys() <= _BESIDE_REFERENCE:
                continue
            case "pattern" if isinstance(value, str) and node.keys() <= _BESIDE_PATTERN and is_plain_pattern(value):
                continue
            case _:
                return False
    return True


def _inner(node: dict[str, Any]) -> list[tuple[Any, bool]]:
    """The values within a schema, each with whether it is a schema; of properties and definitions the values are."""
    found: list[tuple[Any, bool]] = []
    for key, value in node.items():
        if key in ("properties", "$defs", "definitions"):
            found += [(item, True) for item in value.values()]
        else:
            found.append((value, key in ("additionalProperties", "items", "anyOf")))
    return found


_COUNTS = frozenset(["minLength", "maxLength", "minItems", "maxItems"])
_AS_GIVEN = frozenset(["type", "enum", "const", "required", "minimum", "maximum"])
_ANNOTATIONS = frozenset(
    (
        "title description default examples example deprecated readOnly writeOnly $comment nullable "
        "contentEncoding contentMediaType contentSchema discriminator xml externalDocs"
    ).split()
)
_BESIDE_ANY_REFERENCE = _ANNOTATIONS | {"$ref", "$defs", "definitions"}
_KNOWN_DRAFTS = ("draft-07/schema", "2019-09/schema", "2020-12/schema")


class _NotEnforceable(Exception):
    """A keyword goes beyond the engine's."""


def pass_through(schema: JsonSchema) -> JsonSchema | None:
    """The schema for the engine, in its author's order; None where a keyword requires more than the engine has."""
    if isinstance(schema, bool):
        return schema
    draft = schema.get("$schema", _KNOWN_DRAFTS[-1])
    if not str(draft).rstrip("#").endswith(_KNOWN_DRAFTS):
        return None
    try:
        return _schema({key: value for key, value in schema.items() if key != "$schema"}, top=True)
    except _NotEnforceable:
        return None


def _schema(schema: JsonSchema, *, top: bool = False) -> JsonSchema:
    if isinstance(schema, bool):
        return schema
    shown: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _AS_GIVEN:
            shown[key] = value
        elif key not in _ANNOTATIONS:
            shown |= _keyword(key, value, schema, top=top)
    return shown


def _keyword(key: str, value: Any, schema: dict[str, Any], *, top: bool) -> dict[str, Any]:
    """The keyword of ``schema`` as the engine is shown it. Raises `_NotEnforceable`."""
    match key:
        case "pattern" if is_regular(value):
            return pattern_keywords(engine_patterns(value))
        case "format":
            return _format(value, schema)
        case "multipleOf" if value == int(value) and _is_not_below_zero(schema):
            return {key: value}
        case "exclusiveMinimum" | "exclusiveMaximum" if not isinstance(value, bool):
            return {key: value}
        case "$ref" if schema.keys() <= _BESIDE_ANY_REFERENCE and str(value).startswith(("#/$defs/", "#/definitions/")):
            return {key: value}
        case _ if key in _COUNTS:
            return {key: int(value) if isinstance(value, float) and value.is_integer() else value}
        case _:
            return {key: _inner_schemas(key, value, top=top)}


def _inner_schemas(key: str, value: Any, *, top: bool) -> Any:
    match key:
        case "properties":
            return {name: _schema(item) for name, item in value.items()}
        case "$defs" | "definitions" if top:
            return {name: _schema(item) for name, item in value.items()}
        case "additionalProperties":
            return _schema(value)
        case "items" if not isinstance(value, list):
            return _schema(value)
        case "anyOf":
            return [_schema(item) for item in value]
        case _:
            raise _NotEnforceable


def _format(format: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """A standard format as its pattern. With a pattern beside it, or values of other types, it has to be translated."""
    if format in NOT_REGULAR or (format in PATTERNS and ("pattern" in schema or "type" not in schema)):
        raise _NotEnforceable
    return {"pattern": PATTERNS[format]} if format in PATTERNS else {}


def _is_not_below_zero(schema: dict[str, Any]) -> bool:
    """Whether all values are numbers from zero on: of others the engine knows no multiples.

    With alternatives beside it, the engine would join its step and theirs to one that may be too large.
    """
    bounds = [schema.get(key) for key in ("minimum", "exclusiveMinimum")]
    return (
        schema.get("type") in ("integer", "number")
        and "anyOf" not in schema
        and any(isinstance(bound, int | float) and not isinstance(bound, bool) and bound >= 0 for bound in bounds)
    )
