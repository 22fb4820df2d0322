"""Schemas of JSON texts that spell no control, for formats whose controls are written out among them.

Every string and every name gets the pattern `NO_CONTROL`, also where the schema says nothing of it:

>>> exclude_controls({"type": "string"}) == {"type": "string", "pattern": NO_CONTROL}
True
>>> exclude_controls({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False})
{'type': 'object', 'properties': {'a': {'type': 'integer'}}, 'additionalProperties': False}
>>> exclude_controls({"type": "array"})
... # doctest: +ELLIPSIS
{'type': 'array', 'items': {'$ref': '#/$defs/anything'}, '$defs': {'anything': {'anyOf': [{'type': 'null'}, ...]}}}
>>> import re
>>> [bool(re.fullmatch(NO_CONTROL, text)) for text in ("a < b", "<", "<|", "<<|1", "<|end|>", "a<<|x")]
[True, True, True, True, False, False]
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, UnsupportedError

from .exact import walk
from .patterns import all_except, engine_fault

SPELLING = re.compile(r"<\|[a-z]")
NO_CONTROL = r"^(?:[^<]|(?:<+\|)*<+(?:[^<|]|\|[^<a-z]))*(?:<+\|)*<*$"
"""Texts without ``<|`` before a small letter, the beginning of every control of these formats."""

_TYPES = ("null", "boolean", "number", "string", "array", "object")
_KEYWORDS_OF = {
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_OF_ONE_TYPE = frozenset(key for keys in _KEYWORDS_OF.values() for key in keys)
_ANYTHING = "anything"
_SIGNS = re.compile(r"[][\\()?]")
"""Signs of patterns between which a control is still spelled."""
_PREFIX = re.compile(r"\^[A-Za-z0-9_ :/@-]*")


def exclude_controls(schema: JsonSchema, path: str = "") -> JsonSchema:
    """The engine's ``schema`` without the values that spell a control.

    Error: `UnsupportedError`, with ``path``, where a value that the schema itself names spells one.
    """
    exclusion = _Exclusion(path)
    excluded = exclusion.schema(schema)
    if not exclusion.refers or not isinstance(excluded, dict):
        return excluded
    return {**excluded, "$defs": {**excluded.get("$defs", {}), _ANYTHING: exclusion.anything()}}


def refuse_markers(schema: JsonSchema, markers: Collection[str], path: str = "") -> None:
    """Raises `UnsupportedError`, with its place, where a value or name of the schema spells one of ``markers``."""
    for key, place, text in _spelled_out(schema, path):
        found = next((marker for marker in markers if marker in text), None)
        if found is not None:
            raise UnsupportedError(
                f"{key} spells a control of the format, {found!r}, which this model has to write out",
                position=Position(path=place),
                hint="Spell the name or value another way.",
            )


def _spelled_out(schema: JsonSchema, path: str) -> Iterator[tuple[str, str, str]]:
    """The keywords whose texts a reply has to write as they stand, their places, and the texts as JSON."""
    for node, where in walk(schema, path):
        for key in ("const", "enum", "required"):
            if key in node:
                yield key, f"{where}.{key}", json.dumps(node[key], ensure_ascii=False)
        if isinstance(node.get("properties"), dict):
            yield "properties", f"{where}.properties", json.dumps(list(node["properties"]), ensure_ascii=False)
        if isinstance(node.get("pattern"), str):
            yield "pattern", f"{where}.pattern", _SIGNS.sub("", node["pattern"])
        if isinstance(node.get("patternProperties"), dict):
            yield "patternProperties", f"{where}.patternProperties", _SIGNS.sub("", " ".join(node["patternProperties"]))


class _Exclusion:
    """One walk over a schema; ``refers``: the definition of `anything` is needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.refers = False

    def schema(self, schema: JsonSchema) -> JsonSchema:
        if isinstance(schema, bool):
            self.refers |= schema
            return {"$ref": f"#/$defs/{_ANYTHING}"} if schema else False
        if "enum" in schema or "const" in schema:
            if SPELLING.search(json.dumps([schema.get("enum"), schema.get("const")], ensure_ascii=False)):
                raise self._spells("a value of the schema")
            return schema
        out = self._inner(schema)
        if "type" not in schema and any(key in schema for key in ("anyOf", "$ref")):
            return out
        return self._typed(out)

    def anything(self) -> JsonSchema:
        """Any JSON value."""
        return self._typed({})

    def _inner(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The schema with its alternatives and definitions walked over."""
        out = dict(schema)
        for key in ("anyOf", "allOf"):
            if key in schema:
                out[key] = [self.schema(item) for item in schema[key]]
        definitions = "$defs" if "$defs" in schema else "definitions"
        if definitions in schema:
            out[definitions] = {name: self.schema(item) for name, item in schema[definitions].items()}
        return out

    def _spells(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{what} spells a control of the format, which this model has to write out",
            position=Position(path=self._path),
            hint="Spell the name or value another way.",
        )

    def _typed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """One alternative for each type, with the keywords that are about it."""
        given = schema.get("type", list(_TYPES))
        types = given if isinstance(given, list) else [given]
        common = {key: value for key, value in schema.items() if key not in {*_OF_ONE_TYPE, "type", "$defs"}}
        ways = [self._of_type(name, schema, common) for name in types]
        out = ways[0] if len(ways) == 1 else {"anyOf": ways}
        return {**out, "$defs": schema["$defs"]} if "$defs" in schema else out

    def _of_type(self, name: str, schema: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
        keys = _KEYWORDS_OF.get("number" if name == "integer" else name, ())
        out = {"type": name, **{key: schema[key] for key in keys if key in schema}, **common}
        match name:
            case "string":
                if "pattern" in out:
                    out["allOf"] = [*out.get("allOf", ()), {"type": "string", "pattern": NO_CONTROL}]
                else:
                    out["pattern"] = NO_CONTROL
            case "array":
                self._items(out)
            case "object":
                self._members(out)
        return out

    def _names(self, pattern: str) -> str:
        """The pattern, where no name that it matches can spell a control; one that is only a prefix can do without."""
        if _PREFIX.fullmatch(pattern):
            return f"{pattern}[^<]*$"
        both = {"type": "string", "pattern": pattern, "allOf": [{"type": "string", "pattern": SPELLING.pattern}]}
        if not engine_fault(both):
            raise self._spells("what matches a pattern of names")
        return pattern

    def _items(self, out: dict[str, Any]) -> None:
        out["items"] = self.schema(out.get("items", True))
        if "prefixItems" in out:
            out["prefixItems"] = [self.schema(item) for item in out["prefixItems"]]

    def _members(self, out: dict[str, Any]) -> None:
        if any(map(SPELLING.search, (*out.get("properties", ()), *out.get("required", ())))):
            raise self._spells("a name of the schema")
        if "patternProperties" in out:
            out["patternProperties"] = {self._names(p): item for p, item in out["patternProperties"].items()}
        for key in ("properties", "patternProperties"):
            if key in out:
                out[key] = {name: self.schema(item) for name, item in out[key].items()}
        others = out.get("additionalProperties", True)
        if others is False:
            return
        out["additionalProperties"] = self.schema(others)
        if "patternProperties" not in out:
            names = out.get("properties", {})
            pattern = all_except(names, without="<") if names else "^[^<]*$"
            out["patternProperties"] = {pattern: out["additionalProperties"]}
            out["additionalProperties"] = False
