"""Spellings of a schema that are not JSON Schema's own, in JSON Schema.

>>> normalized({"type": "integer", "nullable": True})
{'type': ['integer', 'null'], 'nullable': True}
>>> normalized({"type": "string", "enum": ["a"], "nullable": True})["enum"]
['a', None]
>>> normalized({"items": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "null"}})
{'items': {'type': 'null'}}

    schema   {"type": "integer", "nullable": true}
    engine   {"type": ["integer", "null"]}
    accepts  1  null
    refuses  "x"
"""

from __future__ import annotations

from typing import Any

_DATA = frozenset(["const", "enum", "default", "examples"])
"""Keywords whose values are data, not schemas."""


def normalized(schema: Any, *, top: bool = True) -> Any:
    """The schema with OpenAPI's ``nullable: true`` as a type, and no ``$schema`` below the ``top`` where it is void."""
    if isinstance(schema, list):
        return [normalized(item, top=False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    same = {key: value if key in _DATA else normalized(value, top=False) for key, value in schema.items()}
    # A dialect is named at the head of a document, and below it only with an `$id`.
    if not top and isinstance(same.get("$schema"), str) and "$id" not in same and "id" not in same:
        del same["$schema"]
    if same.get("nullable") is True and isinstance(same.get("type"), str):
        _allow_null(same)
    return same


def _allow_null(schema: dict[str, Any]) -> None:
    schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
