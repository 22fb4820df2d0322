"""The Responses API over a WebSocket: each text frame is a JSON object, an event of the client's or of the server's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from antiphon.wire.errors import refused
from antiphon.wire.json import encode, fields_of

CREATE = "response.create"
LONGEST_ID = 128
"""Characters of a ``stream_id``."""
Value = TypeVar("Value")


class CreateEvent(msgspec.Struct, frozen=True):
    """A ``response.create``. ``body`` is what POST /v1/responses takes; the response is streamed.

    ``stream_id`` names the queue that its response is made in, and stands in each of its events. ``generate`` false:
    the prompt is read, and nothing is answered.
    """

    body: bytes
    stream_id: str | None = None
    generate: bool = True


def read_event(frame: bytes) -> CreateEvent:
    """The event of one frame. Raises `RequestError` naming the field."""
    fields = fields_of(frame)
    kind = _value(fields, "type", str)
    if kind is None:
        raise refused("type", "an event needs it.", code="missing_required_parameter", hint=f"Known: {CREATE}.")
    if kind != CREATE:
        raise refused("type", f"{kind[:64]!r} is no event that can be sent here.", hint=f"Known: {CREATE}.")
    stream_id = _value(fields, "stream_id", str)
    if stream_id is not None and not 0 < len(stream_id) <= LONGEST_ID:
        raise refused("stream_id", f"has 1 to {LONGEST_ID} characters.")
    if _value(fields, "background", bool):
        raise refused("background", "a response over a WebSocket is made while its client waits.")
    generate = _value(fields, "generate", bool)
    rest = {name: value for name, value in fields.items() if name not in ("type", "stream_id", "generate")}
    return CreateEvent(encode({**rest, "stream": True}), stream_id, generate is not False)


def _value(fields: Mapping[str, msgspec.Raw], name: str, kind: type[Value]) -> Value | None:
    """The field's value, of that type; None where it is null or not there."""
    value: Any = msgspec.json.decode(fields[name]) if name in fields else None
    if value is not None and not isinstance(value, kind):
        raise refused(name, f"must be of the type {kind.__name__}.", code="invalid_type")
    return value


def event_frame(data: bytes, stream_id: str | None) -> bytes:
    """The frame of one server-sent event's ``data``; an error has its fields under ``error`` too."""
    more: dict[str, Any] = {} if stream_id is None else {"stream_id": stream_id}
    if data.startswith(b'{"type":"error"'):
        event = json.loads(data)
        more["error"] = {"type": "server_error", **{name: event[name] for name in ("code", "message", "param")}}
    return data if not more else data[:-1] + b"," + encode(more)[1:]


def error_frame(status: int, error: Mapping[str, Any], stream_id: str | None, retry: Mapping[str, str]) -> bytes:
    """A request that was not taken: its status and its error, with what says when to try again, by its name."""
    described = {**error, "headers": retry} if retry else error
    frame = {"type": "error", "status": status, "error": described}
    return encode(frame if stream_id is None else {**frame, "stream_id": stream_id})
