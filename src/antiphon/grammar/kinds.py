"""What types a place in a schema may have, by its keywords: a reader of untyped text decides by the same."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from antiphon.conversation import JsonSchema

TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
_TYPE_OF = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
_MOST_STEPS = 32


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    return _TYPE_OF.get(type(value), "object")


def resolved(node: JsonSchema, root: JsonSchema) -> JsonSchema:
    """What a reference stands for; any other node itself."""
    for _ in range(_MOST_STEPS):
        if not isinstance(node, dict) or "$ref" not in node:
            return node
        node = target(node["$ref"], root)
    return True


def target(reference: str, root: JsonSchema) -> JsonSchema:
    """The definition that a reference leads to; anything, where it leads nowhere."""
    found = definition(reference, root)
    return True if found is None else found


def definition(reference: str, root: JsonSchema) -> JsonSchema | None:
    """The same; None where the reference leads nowhere in ``root``."""
    node: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        node = node.get(unquote(step).replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node if isinstance(node, dict | bool) else None


def types_of(node: JsonSchema, root: JsonSchema) -> tuple[str, ...]:
    """The types that a value may have, in the order of `TYPES`."""
    found = _types(node, root, {}, 0)
    return tuple(name for name in TYPES if name in found)


def _types(node: JsonSchema, root: JsonSchema, known: dict[int, frozenset[str]], depth: int) -> frozenset[str]:
    """Looks at each part once, by its identity: a definition may be led to in many ways, or lead back to itself."""
    node = resolved(node, root)
    if node is False:
        return frozenset()
    if node is True or depth > _MOST_STEPS:
        return frozenset(TYPES)
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = frozenset(TYPES)
    found = _own_types(node)
    for key in ("anyOf", "oneOf"):
        if node.get(key):
            found &= {name for branch in node[key] for name in _types(branch, root, known, depth + 1)}
    for part in node.get("allOf", ()):
        found &= _types(part, root, known, depth + 1)
    known[id(node)] = frozenset(found)
    return known[id(node)]


def _own_types(node: dict[str, Any]) -> set[str]:
    given = node.get("type")
    if given is not None:
        return {given} if isinstance(given, str) else {*given}
    values = node["enum"] if "enum" in node else [node["const"]] if "const" in node else None
    if values is not None:
        return {type_of(value) for value in values}
    if "properties" in node:
        return {"object"}
    return {"array"} if "items" in node or "prefixItems" in node else {*TYPES}


def of_type(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The node for values of one type."""
    return {**{key: value for key, value in node.items() if key not in ("$defs", "definitions")}, "type": name}
