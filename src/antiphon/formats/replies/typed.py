"""Types an argument that a model wrote as bare text, by the tool's schema.

>>> typed("02134", {"type": "string"})
'"02134"'
>>> typed("3", {"type": "integer"})
'3'
>>> typed("None", {"type": ["object", "null"]})
'null'
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from antiphon.conversation import JsonSchema, ToolSpec

from .literal import as_json

ANY = frozenset(("string", "integer", "number", "boolean", "null", "object", "array"))
_MOST_STEPS = 32
_KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    dict: "object",
    list: "array",
}


class Schema(msgspec.Struct, frozen=True):
    """A place in a schema, whose references lead into ``root``."""

    node: JsonSchema = True
    root: JsonSchema = True

    @property
    def resolved(self) -> JsonSchema:
        """What stands here; anything, where a reference leads nowhere."""
        node = self.node
        for _ in range(_MOST_STEPS):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node
            node = _target(self.root, node["$ref"])
        return True

    def member(self, key: str) -> Schema:
        """What the member of an object, or an item of an array (``key`` of no member), is to be."""
        return Schema(self._member(self.resolved, key, 0), self.root)

    def _member(self, node: JsonSchema, key: str, depth: int) -> JsonSchema:
        if not isinstance(node, dict) or depth > _MOST_STEPS:
            return True
        properties = node.get("properties")
        if isinstance(properties, dict) and key in properties:
            return _schema(properties[key])
        for branch in _branches(node):
            found = self._member(Schema(branch, self.root).resolved, key, depth + 1)
            if found is not True:
                return found
        return _schema(node.get("additionalProperties", True))

    @property
    def items(self) -> Schema:
        node = self.resolved
        return Schema(_schema(node.get("items", True)) if isinstance(node, dict) else True, self.root)

    @property
    def kinds(self) -> frozenset[str]:
        """The types that a value here may have."""
        return _kinds(self, 0)


def arguments_of(tools: Iterable[ToolSpec | str]) -> dict[str, Schema]:
    """The schema of each tool's arguments, by its name and by its qualified one."""
    found = {}
    for tool in tools:
        if isinstance(tool, ToolSpec) and tool.parameters is not None:
            schema = Schema(tool.parameters, tool.parameters)
            found[tool.name] = found[tool.recipient] = schema
    return found


def typed(text: str, schema: Schema | JsonSchema) -> str:
    """The JSON of the value that the text spells: of the schema's type where it is one, else a string of the text."""
    kinds = (schema if isinstance(schema, Schema) else Schema(schema, schema)).kinds
    if kinds != {"string"}:
        value = as_json(text.strip())
        if value is not None and fits(value, kinds):
            return value
    return json.dumps(text, ensure_ascii=False)


def fits(value: str, kinds: frozenset[str]) -> bool:
    """Whether a JSON text, which is no string, is of one of the types."""
    kind = _KINDS[type(json.loads(value))] if value[0] not in "{[" else {"{": "object", "[": "array"}[value[0]]
    if kind == "integer":
        return bool(kinds & {"integer", "number"})
    if kind == "number" and "number" not in kinds and "integer" in kinds:
        return float(value).is_integer()
    return kind in kinds and kind != "string"


def _kinds(schema: Schema, depth: int) -> frozenset[str]:
    node = schema.resolved
    if not isinstance(node, dict) or depth > _MOST_STEPS:
        return ANY
    found = _own_kinds(node)
    for branch in ("anyOf", "oneOf"):
        if isinstance(options := node.get(branch), list) and options:
            each = [_kinds(Schema(_schema(option), schema.root), depth + 1) for option in options]
            found &= frozenset().union(*each)
    if isinstance(parts := node.get("allOf"), list):
        for part in parts:
            found &= _kinds(Schema(_schema(part), schema.root), depth + 1)
    return found | {"null"} if node.get("nullable") is True else found


def _own_kinds(node: Mapping[str, Any]) -> frozenset[str]:
    """By ``type``, else by the values that are allowed, else by the keywords that only one type has."""
    given = node.get("type")
    if isinstance(given, str):
        return frozenset((given,)) & ANY or ANY
    if isinstance(given, list):
        return frozenset(kind for kind in given if isinstance(kind, str)) & ANY or ANY
    values = node.get("enum") if isinstance(node.get("enum"), list) else [node["const"]] if "const" in node else None
    if values:
        return frozenset(_KINDS.get(type(value), "object") for value in values)
    if "properties" in node:
        return frozenset(("object",))
    return frozenset(("array",)) if "items" in node else ANY


def _branches(node: Mapping[str, Any]) -> list[JsonSchema]:
    lists = [node.get(keyword) for keyword in ("allOf", "anyOf", "oneOf")]
    return [_schema(branch) for branches in lists if isinstance(branches, list) for branch in branches]


def _schema(value: object) -> JsonSchema:
    return value if isinstance(value, (dict, bool)) else True


def _target(root: JsonSchema, reference: str) -> JsonSchema:
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        node = node.get(step) if isinstance(node, dict) else None
    return _schema(node)
