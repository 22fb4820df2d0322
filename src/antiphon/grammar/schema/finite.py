"""Definitions that no finite value fits, because they only lead back to themselves: the engine would get stuck in one.

    schema   {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"type": "integer"}},
             "additionalProperties": false, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    engine   {"type": "object", "properties": {"a": false, "b": {"type": "integer"}},
             "additionalProperties": false, "$defs": {"a": false, "b": false}}
    accepts  {}  {"b":1}
    refuses  {"a":1}

>>> node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["next"]}
>>> without_endless({"$ref": "#/$defs/node", "$defs": {"node": node}})
False
>>> node["required"] = []
>>> without_endless({"$ref": "#/$defs/node", "$defs": {"node": node}}) is not False
True
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from antiphon.conversation import JsonSchema

Definitions = dict[str, Any]


def without_endless(engine: JsonSchema) -> JsonSchema:
    """The engine's schema with False for what no finite value fits; itself where nothing refers to a definition."""
    if not isinstance(engine, dict):
        return engine
    definitions = {f"#/{key}/{name}": item for key in _KEYS for name, item in engine.get(key, {}).items()}
    if not definitions:
        return engine
    finite = _finite(definitions)
    if len(finite) == len(definitions) and _has_value(engine, finite, definitions):
        return engine
    endless = definitions.keys() - finite
    return _pruned(engine, endless) if _has_value(engine, finite, definitions) else False


_KEYS = ("$defs", "definitions")


def _finite(definitions: Definitions) -> set[str]:
    """The definitions that some finite value fits: those without references first, then what they make possible."""
    finite: set[str] = set()
    more = True
    while more:
        found = {name for name in definitions.keys() - finite if _has_value(definitions[name], finite, definitions)}
        finite |= found
        more = bool(found)
    return finite


def _has_value(node: Any, finite: set[str], definitions: Definitions) -> bool:
    """Whether some finite value fits, as far as references tell: what else cannot be met, the engine sees by itself."""
    if not isinstance(node, dict):
        return node is not False
    target = _target(node)
    if target in definitions and target not in finite:
        return False
    ways = node.get("anyOf")
    if ways and not any(_has_value(way, finite, definitions) for way in ways):
        return False
    if not all(_has_value(part, finite, definitions) for part in node.get("allOf", ())):
        return False
    types = node.get("type", ())
    if "enum" in node or "const" in node or isinstance(types, list) or types not in ("object", "array"):
        return True
    return all(_has_value(part, finite, definitions) for part in _required(node, types))


def _required(node: dict[str, Any], type: str) -> list[Any]:
    """The schemas of what an object or array cannot do without."""
    if type == "object":
        properties = node.get("properties", {})
        return [properties[name] for name in node.get("required", ()) if name in properties]
    least, prefix = node.get("minItems", 0), node.get("prefixItems", [])
    return [*prefix[: int(least)], *([node.get("items", True)] if least > len(prefix) else [])]


def _target(node: dict[str, Any]) -> str:
    return unquote(str(node.get("$ref", ""))).replace("~1", "/").replace("~0", "~")


def _pruned(node: Any, endless: set[str]) -> Any:
    """The schema with False for endless definitions, and for every reference to one."""
    if isinstance(node, list):
        return [_pruned(item, endless) for item in node]
    if not isinstance(node, dict):
        return node
    if _target(node) in endless:
        return False
    out = {key: value if key in ("enum", "const") else _pruned(value, endless) for key, value in node.items()}
    for key in _KEYS:
        if isinstance(node.get(key), dict):
            out[key] = {name: f"#/{key}/{name}" not in endless and item for name, item in out[key].items()}
    return out
