"""The one JSON form of a message, which stores, transcripts, the API and conversions share.

A form that needs more extends `MessageJson` with its own fields; the fields of `Message` are listed here alone.
Import it as `antiphon.conversation.json`: the room itself does without msgspec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from antiphon.errors import FormatError
from antiphon.structs import ready

from .message import End, Message, OpaquePart, Part, Role, TextPart, ToolsPart
from .tools import ToolSpec

_OPAQUE, _TOOLS = "opaque:", "tools"


class MessageJson(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`Message`, field by field, its parts left out. A missing ``text`` is empty, a missing ``end`` is "end"."""

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None
    constrained: bool = False
    call_id: str | None = None
    intent: str | None = None
    header: tuple[str, ...] = ()
    text: str | msgspec.UnsetType = msgspec.UNSET
    end: End | msgspec.UnsetType = msgspec.UNSET


class PartJson(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text (``kind`` "text"), definitions (``kind`` "tools"), or ``data`` as it came ("opaque:image_url")."""

    kind: str
    text: str | None = None
    data: Any = None


class FullMessageJson(MessageJson, frozen=True):
    """A message with its parts."""

    parts: tuple[PartJson, ...] = ()


FIELDS = MessageJson.__struct_fields__
DEFAULTS = {field.name: field.default for field in fields(Message) if field.name in FIELDS}


def message_fields(message: Message, *, complete: bool = False) -> dict[str, Any]:
    """The fields of `MessageJson` that are not their defaults; ``complete``: and ``text`` and ``end`` in any case."""
    values = {name: getattr(message, name) for name in FIELDS}
    values["text"], values["header"] = str(message.text), tuple(map(str, message.header))
    always = ("text", "end") if complete else ()
    return {name: value for name, value in values.items() if name in always or value != DEFAULTS[name]}


def message_json(message: Message) -> MessageJson:
    """The message for people and programs: ``text`` and ``end`` are always there, parts are not."""
    return MessageJson(**message_fields(message, complete=True))


def full_message_json(message: Message) -> FullMessageJson:
    """All of the message. Raises `FormatError` for a part that is neither text nor opaque."""
    return FullMessageJson(**message_fields(message), parts=parts_json(message.parts))


def message_of(form: MessageJson) -> Message:
    """The message of any of these forms, with its parts where the form has them."""
    values = {name: value for name in FIELDS if (value := getattr(form, name)) is not msgspec.UNSET}
    parts = parts_of(form.parts) if isinstance(form, FullMessageJson) else ()
    return Message(**values, parts=parts)


def parts_json(parts: Sequence[Part]) -> tuple[PartJson, ...]:
    """Raises `FormatError` for system and developer content, which a format makes anew for each prompt."""
    return tuple(map(_part_json, parts))


def parts_of(forms: Sequence[PartJson]) -> tuple[Part, ...]:
    return tuple(
        TextPart(form.text or "") if form.kind == "text"
        else ToolsPart.of(msgspec.convert(form.data, ready(tuple[ToolSpec, ...]))) if form.kind == _TOOLS
        else OpaquePart(form.kind.removeprefix(_OPAQUE), form.data)
        for form in forms
    )  # fmt: skip


def _part_json(part: Part) -> PartJson:
    match part:
        case ToolsPart(tools=tools):
            return PartJson(_TOOLS, data=msgspec.to_builtins(tools))
        case TextPart(text):
            return PartJson("text", text)
        case OpaquePart(kind, data):
            return PartJson(f"{_OPAQUE}{kind}", data=data)
        case _:
            raise FormatError(f"{type(part).__name__} is generated, not stored", code="not_storable")
