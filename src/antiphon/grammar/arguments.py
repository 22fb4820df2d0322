"""The schema of a call's arguments, which are always an object, whatever else a tool's parameters would let through.

>>> arguments_schema({"properties": {"a": True}}, "parameters")
{'properties': {'a': True}, 'type': 'object'}
>>> arguments_schema({"type": ["object", "null"]}, "parameters")
{'type': 'object'}
"""

from __future__ import annotations

from typing import Any

from antiphon.conversation import JsonSchema
from antiphon.errors import Position, RequestError

NOTHING: JsonSchema = {"type": "object", "additionalProperties": False}
"""The parameters of a tool that declares none: it takes an empty object."""
_MOST_STEPS = 32


def arguments_schema(parameters: JsonSchema | None, path: str) -> JsonSchema:
    """What of ``parameters`` an object fits; the same value where that is all of it.

    Error: `RequestError` with ``path`` where no object fits.
    """
    if parameters is None:
        return NOTHING
    if parameters is True:
        return {"type": "object"}
    if not isinstance(parameters, dict) or "$ref" in parameters:
        _check_target(parameters, path)
        return parameters
    given = parameters.get("type", "object")
    if given != "object" and not (isinstance(given, list) and "object" in given):
        raise _no_object(f"{path}.type")
    if parameters.get("type") == "object" and parameters.get("nullable") is not True:
        return parameters
    return {**{key: value for key, value in parameters.items() if key != "nullable"}, "type": "object"}


def _check_target(parameters: JsonSchema, path: str) -> None:
    """A reference at the top is left as it stands, and must not lead to what is no object."""
    node: Any = parameters
    for _ in range(_MOST_STEPS):
        if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
            break
        key, _, name = node["$ref"].removeprefix("#/").partition("/")
        definitions = parameters.get(key) if isinstance(parameters, dict) else None
        node = definitions.get(name) if isinstance(definitions, dict) else None
    type = node.get("type") if isinstance(node, dict) else None
    if isinstance(type, str) and type != "object":
        raise _no_object(f"{path}.$ref")


def _no_object(path: str) -> RequestError:
    return RequestError(
        "the arguments of a call are an object, and none fits these parameters",
        code="invalid_schema",
        position=Position(path=path),
        hint='Give parameters of {"type": "object", …}.',
    )
