"""Schemas that the engine takes as they are, but for their annotations and formats."""

from __future__ import annotations

from typing import Any

from antiphon.conversation import JsonSchema

from .formats import CHECKED, PATTERNS
from .quoting import in_json
from .strings import LOOKS_AROUND, all_of

_PLAIN = frozenset(
    "type enum const required pattern minLength maxLength minimum maximum multipleOf minItems maxItems".split()
)
_ANNOTATIONS = frozenset(
    (
        "title description default examples example deprecated readOnly writeOnly $comment nullable "
        "contentEncoding contentMediaType contentSchema discriminator xml externalDocs"
    ).split()
)
_DATA = frozenset(["const", "enum", "default", "examples"])
_KNOWN_DRAFTS = ("draft-07/schema", "2019-09/schema", "2020-12/schema")


class _Beyond(Exception):
    """The engine does not know the whole of it."""


def as_it_is(schema: JsonSchema) -> JsonSchema | None:
    """The schema for the engine, in its author's order; None where a keyword asks for more than the engine has."""
    if isinstance(schema, bool):
        return schema
    draft = schema.get("$schema", _KNOWN_DRAFTS[-1])
    if not str(draft).rstrip("#").endswith(_KNOWN_DRAFTS):
        return None
    try:
        return _plain({key: value for key, value in schema.items() if key != "$schema"}, top=True)
    except _Beyond:
        return None


def _plain(schema: JsonSchema, *, top: bool = False) -> JsonSchema:
    if isinstance(schema, bool):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "properties" | "$defs" | "definitions" if top or key == "properties":
                kept[key] = {name: _plain(item) for name, item in value.items()}
            case "additionalProperties":
                kept[key] = _plain(value)
            case "items" if not isinstance(value, list):
                kept[key] = _plain(value)
            case "anyOf":
                kept[key] = [_plain(item) for item in value]
            case "$ref" if _stands_alone(schema) and str(value).startswith(("#/$defs/", "#/definitions/")):
                kept[key] = value
            case "exclusiveMinimum" | "exclusiveMaximum" if not isinstance(value, bool):
                kept[key] = value
            case "format":
                kept |= _pattern_of(value, schema)
            case "pattern":
                kept |= _held(value)
            case _ if key in _PLAIN:
                kept[key] = _whole_number(value) if key.startswith(("minI", "maxI", "minL", "maxL")) else value
            case _ if key not in _ANNOTATIONS:
                raise _Beyond
    return kept


def _held(pattern: str) -> dict[str, Any]:
    if LOOKS_AROUND.search(pattern):
        raise _Beyond
    return all_of(in_json(pattern))


def _stands_alone(schema: dict[str, Any]) -> bool:
    return all(key in _ANNOTATIONS or key in ("$ref", "$defs", "definitions") for key in schema)


def _pattern_of(format: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """A format is a pattern, unless nobody knows it; what it says of a pattern or of a length is for `lower`."""
    if format in CHECKED or (format in PATTERNS and ("pattern" in schema or "type" not in schema)):
        raise _Beyond
    return {"pattern": PATTERNS[format]} if format in PATTERNS else {}


def _whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def in_plain_terms(schema: Any, *, top: bool = True) -> Any:
    """OpenAPI's ``nullable: true`` said in JSON Schema, and no ``$schema`` where it means nothing; else as it is."""
    if isinstance(schema, list):
        return [in_plain_terms(item, top=False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: value if key in _DATA else in_plain_terms(value, top=False) for key, value in schema.items()}
    # A dialect is named at the head of a document, and below it only with an `$id`.
    if not top and isinstance(same.get("$schema"), str) and "$id" not in same and "id" not in same:
        del same["$schema"]
    if same.get("nullable") is not True or not isinstance(same.get("type"), str):
        return same
    same["type"] = [same["type"], "null"]
    if isinstance(same.get("enum"), list) and None not in same["enum"]:
        same["enum"] = [*same["enum"], None]
    return same
