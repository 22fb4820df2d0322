"""A sidecar: a file beside an output with what the output lost, so that the way back is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import msgspec

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
    ResponseFormat,
    Role,
    Settings,
    SystemContent,
    TextPart,
    ToolNamespace,
    ToolsPart,
    ToolSpec,
)
from antiphon.conversation.json import MessageJson, message_fields, message_of
from antiphon.errors import ParseError
from antiphon.formats.harmony import read_message, write_message
from antiphon.formats.openchatml import DocumentHeader, FromHarmony, TranscriptEnvelope, Trivia
from antiphon.structs import ready

from .form import REQUEST, header_of, shown, taken_function, unread

# Losses: found by comparing the messages that were written with those that a reader of the output gets.

MESSAGE_FIELDS = tuple(field.name for field in fields(Message) if field.compare)
KINDS = {TextPart: "text", ToolsPart: "tools", SystemContent: "system content", DeveloperContent: "developer content"}
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
    lost = {key: value for key, value in header_fields(written).items() if carried.get(key) != value}
    for key, value in lost.items():
        own = key == "profiles" and value in own_profiles()
        yield Loss(f"{place}{key}", shown(value), kind="derivable" if own else "semantic")


def own_profiles() -> list[object]:
    """The profiles that our writer gives conversations without one: where all channels are marked, and where not."""
    marked, unmarked = FromHarmony(), FromHarmony()
    unmarked.note(Message(role=Role.ASSISTANT, channel=None))
    return [header_of(way.about(Conversation())).fields["profiles"] for way in (marked, unmarked)]


def tool_losses(written: Sequence[ToolSpec], read: Sequence[ToolSpec] = ()) -> Iterator[Loss]:
    """Losses of tools that are gone, and of parts of those whose names are still there."""
    known = {tool.recipient: tool for tool in read}
    for i, tool in enumerate(written):
        if tool in read:
            continue
        has = known.get(tool.recipient)
        changed = [] if has is None else [*unread(f"tools[{i}]", taken_function(tool), taken_function(has))]
        yield from changed or [Loss(f"tools[{i}]", tool.name)]


def header_fields(about: Conversation) -> dict[str, Any]:
    """The keys of an OpenChatML header, or what a request says instead, that are nowhere else in the conversation."""
    header = header_of(about)
    builtins = list(header.builtin_tools)
    elsewhere = {"reasoning_effort": (header.reasoning_effort,), "builtin_tools": (builtins, *builtins)}
    settings = header.generation_settings
    own = {key: value for key, value in header.fields.items() if value is not settings}
    more = {f"generation_settings.{k}": v for k, v in settings.items() if v not in elsewhere.get(k, ())}
    return own | more


def described(message: Message) -> str:
    to = f" to {message.recipient}" if message.recipient else ""
    return f"{message.role.value}{to} on {message.effective_channel}, {shown(message.text)}"


def kinds(parts: Sequence[Part]) -> str:
    """Names the kinds of the parts; no parts are one text."""
    names = (part.kind if isinstance(part, OpaquePart) else KINDS[type(part)] for part in parts)
    return " + ".join(names) or "text"


SCHEMA = "antiphon.sidecar/1"
Json = dict[str, Any]


class SidecarMessage(MessageJson, frozen=True, forbid_unknown_fields=True):
    """A message, its parts as Harmony's JSON has them, and its OpenChatML spelling where it has one."""

    parts: tuple[Json, ...] = ()
    spelling: Json | msgspec.UnsetType = msgspec.UNSET


class Item(msgspec.Struct, frozen=True):
    """``messages`` replace the ``count`` messages that a reader gets at ``at``."""

    at: int
    count: int
    messages: list[SidecarMessage]


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """``digest`` is the SHA-256 of the output; a sidecar does not apply to another output."""

    schema: str = SCHEMA
    digest: str
    about: Json
    items: list[Item]

    def encode(self) -> bytes:
        try:
            return msgspec.json.encode(self) + b"\n"
        except UnicodeEncodeError:
            # A text that is no UTF-8 has lone surrogates for its bytes, which only JSON in ASCII can spell.
            return json.dumps(msgspec.to_builtins(self)).encode() + b"\n"

    def restored(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the converted messages: those that were read, with what was lost put back."""
        whole = list(messages)
        for item in reversed(self.items):
            whole[item.at : item.at + item.count] = [restored_message(form) for form in item.messages]
        return whole

    @property
    def conversation(self) -> Conversation:
        """All but the messages."""
        return about_of(self.about)


def read_sidecar(data: bytes) -> Sidecar:
    """Raises `ParseError` for what is no sidecar."""
    try:
        sidecar = msgspec.convert(json.loads(data), ready(Sidecar))
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        raise ParseError(f"this is no sidecar: {error}", code="bad_sidecar") from None
    if sidecar.schema != SCHEMA:
        raise ParseError(f"unknown sidecar {sidecar.schema!r}", code="bad_sidecar")
    return sidecar


@dataclass(slots=True)
class SidecarWriter:
    """Gathers, while an output is written, what is not in it."""

    _items: list[Item] = field(default_factory=list)
    _digest: Any = field(default_factory=hashlib.sha256)
    _at: int = 0

    def wrote(self, output: bytes, written: Sequence[Message], read: Sequence[Message]) -> None:
        self._digest.update(output)
        alone = [((one,), (other,)) for one, other in zip(written, read, strict=False)]
        stretches = alone if len(written) == len(read) else [(written, read)]
        for before, after in stretches:
            if not _lossless(before, after):
                self._items.append(Item(self._at, len(after), [sidecar_message(message) for message in before]))
            self._at += len(after)

    def sidecar(self, about: Conversation) -> Sidecar:
        return Sidecar(digest=f"sha256:{self._digest.hexdigest()}", about=about_json(about), items=self._items)


def _lossless(written: Sequence[Message], read: Sequence[Message]) -> bool:
    if len(written) != len(read):
        return False
    return all(
        same(one, other) and same_header(one, other) and one.extra.get("openchatml") == other.extra.get("openchatml")
        for one, other in zip(written, read, strict=True)
    )


def sidecar_message(message: Message) -> SidecarMessage:
    trivia = message.extra.get("openchatml")
    spelling: Json | msgspec.UnsetType = msgspec.UNSET
    if isinstance(trivia, Trivia):
        spelling = {f.name: value for f in fields(trivia) if (value := getattr(trivia, f.name)) is not None}
    parts = tuple(part_json(message, part) for part in message.parts)
    return SidecarMessage(**message_fields(message), parts=parts, spelling=spelling)


def restored_message(form: SidecarMessage) -> Message:
    """Raises `ParseError` for a spelling that is none."""
    try:
        extra = {} if form.spelling is msgspec.UNSET else {"openchatml": Trivia(**form.spelling)}
    except TypeError as error:
        raise ParseError(f"this is no sidecar: {error!r}", code="bad_sidecar") from None
    message = replace(message_of(form), extra=extra)
    return replace(message, parts=tuple(part_of(message, part) for part in form.parts))


def part_json(message: Message, part: Part) -> Json:
    if isinstance(part, OpaquePart):
        return {"type": "opaque", "kind": part.kind, "data": part.data}
    value: Json = write_message(replace(message, parts=(part,)))["content"][0]
    return value


def part_of(message: Message, value: Json) -> Part:
    if value.get("type") == "opaque":
        return OpaquePart(str(value.get("kind")), value.get("data"))
    return read_message({"role": message.role, "content": [value]}).parts[0]


def about_json(about: Conversation) -> Json:
    members = {
        "tools": msgspec.to_builtins(about.tools),
        "builtins": msgspec.to_builtins(about.builtins),
        "settings": msgspec.to_builtins(about.settings),
        "response_format": msgspec.to_builtins(about.response_format),
        "verbatim": about.verbatim,
        "envelope": msgspec.to_builtins(about.extra.get("openchatml")),
        "request": dict(header_of(about).fields) if REQUEST in about.extra else None,
    }
    return {key: value for key, value in members.items() if value}


def about_of(value: Mapping[str, Any]) -> Conversation:
    """Raises `ParseError` for what does not describe a conversation."""
    try:
        return Conversation(
            tools=msgspec.convert(value.get("tools", ()), ready(tuple[ToolSpec, ...])),
            builtins=msgspec.convert(value.get("builtins", ()), ready(tuple[ToolNamespace, ...])),
            settings=msgspec.convert(value.get("settings", {}), ready(Settings)),
            response_format=msgspec.convert(value.get("response_format"), ready(ResponseFormat | None)),
            verbatim=bool(value.get("verbatim")),
            extra=_extra(value),
        )
    except (msgspec.ValidationError, TypeError, KeyError) as error:
        raise ParseError(f"this is no sidecar: {error}", code="bad_sidecar") from None


def _extra(value: Mapping[str, Any]) -> Json:
    extra: Json = {}
    if envelope := value.get("envelope"):
        header = envelope["header"] and DocumentHeader(envelope["header"]["version"], envelope["header"]["fields"])
        extra["openchatml"] = TranscriptEnvelope(header or None, envelope["text"], envelope["tail"])
    if request := value.get("request"):
        extra[REQUEST] = DocumentHeader(fields=dict(request))
    return extra
