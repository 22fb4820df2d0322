"""Parts of the API document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.wire.errors import ErrorBody

REF = "#/components/schemas/{name}"


class Described(msgspec.Struct, frozen=True):
    """Routes as the API document has them: ``paths`` as OpenAPI writes them, ``kinds`` the structs that they name."""

    kinds: Sequence[type] = ()
    paths: Mapping[str, Any] = msgspec.field(default_factory=dict)


UNDESCRIBED = Described()


def named(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def operation(summary: str, answer: type, *, body: type | None = None, events: type | None = None) -> dict[str, Any]:
    content = {"application/json": schema(answer)}
    if events is not None:
        content["text/event-stream"] = events_of(events)
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "An error.", "content": {"application/json": schema(ErrorBody)}},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": schema(body)}}
    return operation


def events_of(kind: type | None = None) -> dict[str, Any]:
    """A stream, by one of its events, whose data is JSON (the last one's is ``[DONE]``)."""
    content: dict[str, Any] = {"contentMediaType": "application/json"}
    if kind is not None:
        content["contentSchema"] = {"anyOf": [schema(kind)["schema"], schema(ErrorBody)["schema"]]}
    data = {"type": "string", "anyOf": [{"const": "[DONE]"}, content]}
    return {"schema": {"type": "object", "properties": {"data": data}, "required": ["data"]}}


def plain(summary: str) -> dict[str, Any]:
    error = {"description": "Not now.", "content": {"application/json": schema(ErrorBody)}}
    return {"summary": summary, "responses": {"200": {"description": "Yes."}, "503": error}}


def schema(kind: type) -> dict[str, Any]:
    return {"schema": {"$ref": REF.format(name=kind.__name__)}}
