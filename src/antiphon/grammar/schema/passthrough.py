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
"""

from __future__ import annotations

from typing import Any

from antiphon.conversation import JsonSchema

from .patterns import NOT_REGULAR, PATTERNS, engine_patterns, is_regular, pattern_keywords

_COUNTS = frozenset(["minLength", "maxLength", "minItems", "maxItems"])
_AS_GIVEN = frozenset(["type", "enum", "const", "required", "minimum", "maximum"])
_ANNOTATIONS = frozenset(
    (
        "title description default examples example deprecated readOnly writeOnly $comment nullable "
        "contentEncoding contentMediaType contentSchema discriminator xml externalDocs"
    ).split()
)
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
        case "pattern":
            return _pattern(value)
        case "format":
            return _format(value, schema)
        case "multipleOf" if value == int(value) and _is_not_below_zero(schema):
            return {key: value}
        case "exclusiveMinimum" | "exclusiveMaximum" if not isinstance(value, bool):
            return {key: value}
        case "$ref" if _stands_alone(schema) and str(value).startswith(("#/$defs/", "#/definitions/")):
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


def _pattern(pattern: str) -> dict[str, Any]:
    if not is_regular(pattern):
        raise _NotEnforceable
    return pattern_keywords(engine_patterns(pattern))


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


def _stands_alone(schema: dict[str, Any]) -> bool:
    return all(key in _ANNOTATIONS or key in ("$ref", "$defs", "definitions") for key in schema)
