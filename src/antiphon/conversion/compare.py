"""Losses: found by comparing the messages that were written with those that a reader of the output gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from antiphon.conversation import (
    Channel,
    Conversation,
    DeveloperContent,
    End,
    Loss,
    LossKind,
    Message,
    OpaquePart,
    Part,
    Settings,
    SystemContent,
    TextPart,
    ToolSpec,
)

from .request import header_of

MESSAGE_FIELDS = tuple(field.name for field in fields(Message) if field.compare)
KINDS = {TextPart: "text", SystemContent: "system content", DeveloperContent: "developer content"}
SETTINGS_FIELDS = tuple(field.name for field in fields(Settings))


def message_losses(first: int, written: Sequence[Message], read: Sequence[Message]) -> Iterator[Loss]:
    """The differences of two stretches of messages; ``first`` is the number of the first in the conversation."""
    if len(written) != len(read):
        became = f"part of {len(read)} message{'' if len(read) == 1 else 's'}"
        for i, message in enumerate(written, first):
            if not any(same(message, other) for other in read):
                yield Loss(f"messages[{i}]", described(message), became if read else None)
        added = [message for message in read if not any(same(message, other) for other in written)]
        if len(read) > len(written):
            yield from (Loss(f"messages[{first}]", "nothing", described(message)) for message in added)
        return
    for i, (before, after) in enumerate(zip(written, read, strict=True), first):
        for name in MESSAGE_FIELDS:
            had, has = getattr(before, name), getattr(after, name)
            if had != has:
                describe = kinds if name == "parts" else shown
                yield Loss(f"messages[{i}].{name}", describe(had), describe(has), kind_of(name, had, has))
        if not same_header(before, after):
            becomes = shown("".join(after.header)) if after.header else None
            yield Loss(f"messages[{i}].header", shown("".join(before.header)), becomes, "spelling")


def same(one: Message, other: Message) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in MESSAGE_FIELDS)


def same_header(written: Message, read: Message) -> bool:
    """Whether a header that was read is written as it was; one that nobody read may be written in any way."""
    return not written.header or written.header == read.header


def kind_of(name: str, had: object, has: object) -> LossKind:
    """How serious a changed field is: an end is spelling, a call id that was added follows from the call's place."""
    if name == "end" and End.NONE not in (had, has):
        return "spelling"
    if name == "channel" and {had, has} == {None, Channel.FINAL}:
        return "derivable"
    return "derivable" if had is None and name in ("call_id", "channel", "recipient", "intent") else "semantic"


def about_losses(written: Conversation, read: Conversation) -> Iterator[Loss]:
    """Losses beside the messages: tools, settings, extras."""
    yield from tool_losses(written.tools, read.tools)
    known = {namespace.name: namespace for namespace in read.builtins}
    for i, namespace in enumerate(written.builtins):
        if known.get(namespace.name) != namespace:
            yield Loss(f"builtins[{i}]", namespace.name)
    for name in SETTINGS_FIELDS:
        had, has = getattr(written.settings, name), getattr(read.settings, name)
        if had != has:
            yield Loss(f"settings.{name}", shown(had), shown(has))
    if written.response_format != read.response_format:
        yield Loss("response_format", written.response_format.kind if written.response_format else "none")
    carried, place = header_fields(read), "header." if "openchatml" in written.extra else ""
    lost = ((key, value) for key, value in header_fields(written).items() if carried.get(key) != value)
    yield from (Loss(f"{place}{key}", shown(value)) for key, value in lost)


def tool_losses(written: Sequence[ToolSpec], read: Sequence[ToolSpec] = ()) -> Iterator[Loss]:
    return (Loss(f"tools[{i}]", tool.name) for i, tool in enumerate(written) if tool not in read)


def header_fields(about: Conversation) -> dict[str, Any]:
    """The keys of an OpenChatML header, or what a request says instead, that are nowhere else in the conversation."""
    header = header_of(about)
    own = {key: value for key, value in header.fields.items() if key != "generation_settings"}
    elsewhere = ("reasoning_effort", "builtin_tools")
    more = {f"generation_settings.{k}": v for k, v in header.generation_settings.items() if k not in elsewhere}
    return own | more


def described(message: Message) -> str:
    to = f" to {message.recipient}" if message.recipient else ""
    return f"{message.role.value}{to} on {message.effective_channel}, {shown(message.text)}"


def kinds(parts: Sequence[Part]) -> str:
    """What the parts are; none are one text."""
    names = (part.kind if isinstance(part, OpaquePart) else KINDS[type(part)] for part in parts)
    return " + ".join(names) or "text"


def shown(value: object) -> str:
    """A value for a report, cut at 60 characters."""
    text = repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
