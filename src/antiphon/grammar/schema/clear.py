"""Schemas of JSON texts that spell no control, for formats whose controls are written out among them."""

from __future__ import annotations

import json
import re
from typing import Any

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, UnsupportedError

from .strings import other_than

SPELLING = re.compile(r"<\|[a-z]")
CLEAR = r"^(?:[^<]|(?:<+\|)*<+(?:[^<|]|\|[^<a-z]))*(?:<+\|)*<*$"
"""Texts without ``<|`` before a small letter, the beginning of every control of these formats."""

_TYPES = ("null", "boolean", "number", "string", "array", "object")
_OWN = {
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
_ANYTHING = "anything"


def clear_of_controls(schema: JsonSchema, path: str = "") -> JsonSchema:
    """The engine's ``schema`` without the values that spell a control. Error: one that it fixes spells one."""
    clearing = _Clearing(path)
    clear = clearing.schema(schema)
    if not clearing.refers or not isinstance(clear, dict):
        return clear
    return {**clear, "$defs": {**clear.get("$defs", {}), _ANYTHING: clearing.anything()}}


class _Clearing:
    """One walk; ``refers`` tells that some place may hold anything."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.refers = False

    def schema(self, schema: JsonSchema) -> JsonSchema:
        if isinstance(schema, bool):
            self.refers |= schema
            return {"$ref": f"#/$defs/{_ANYTHING}"} if schema else False
        if "enum" in schema or "const" in schema:
            return self._fixed(schema)
        out = dict(schema)
        for key in ("anyOf", "allOf"):
            if key in schema:
                out[key] = [self.schema(item) for item in schema[key]]
        if "$defs" in schema or "definitions" in schema:
            key = "$defs" if "$defs" in schema else "definitions"
            out[key] = {name: self.schema(item) for name, item in schema[key].items()}
        if "type" not in schema and any(key in schema for key in ("anyOf", "$ref")):
            return out
        return self._typed(out)

    def anything(self) -> JsonSchema:
        return self._typed({})

    def _fixed(self, schema: dict[str, Any]) -> dict[str, Any]:
        if SPELLING.search(json.dumps([schema.get("enum"), schema.get("const")], ensure_ascii=False)):
            raise UnsupportedError(
                "a value of the schema spells a control of the format, which this model has to write out",
                position=Position(path=self._path),
            )
        return schema

    def _typed(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Each type apart, with the keywords that are about it."""
        given = schema.get("type", list(_TYPES))
        types = given if isinstance(given, list) else [given]
        about = {key for keys in _OWN.values() for key in keys}
        common = {key: value for key, value in schema.items() if key not in about and key not in ("type", "$defs")}
        ways = [self._of_type(name, schema, common) for name in types]
        out = ways[0] if len(ways) == 1 else {"anyOf": ways}
        return {**out, "$defs": schema["$defs"]} if "$defs" in schema else out

    def _of_type(self, name: str, schema: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
        keys = _OWN.get("number" if name == "integer" else name, ())
        out = {"type": name, **{key: schema[key] for key in keys if key in schema}, **common}
        match name:
            case "string":
                if "pattern" in out:
                    out["allOf"] = [*out.get("allOf", ()), {"type": "string", "pattern": CLEAR}]
                else:
                    out["pattern"] = CLEAR
            case "array":
                out["items"] = self.schema(out.get("items", True))
                if "prefixItems" in out:
                    out["prefixItems"] = [self.schema(item) for item in out["prefixItems"]]
            case "object":
                self._members(out)
        return out

    def _members(self, out: dict[str, Any]) -> None:
        for key in ("properties", "patternProperties"):
            if key in out:
                out[key] = {name: self.schema(item) for name, item in out[key].items()}
        others = out.get("additionalProperties", True)
        if others is False:
            return
        out["additionalProperties"] = self.schema(others)
        if "patternProperties" not in out:
            names = out.get("properties", {})
            out["patternProperties"] = {other_than(names, but="<") if names else "^[^<]*$": out["additionalProperties"]}
            out["additionalProperties"] = False
