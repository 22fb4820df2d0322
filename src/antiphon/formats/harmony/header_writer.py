"""A message's header as a dialect writes it by itself (R-01)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from antiphon.conversation import Channel, Message, Role
from antiphon.errors import ParseError, RenderError
from antiphon.tokens import Piece, spell

from .controls import CHANNEL, CONSTRAIN, Dialect
from .header import HeaderBuffer, HeaderStart
from .header_reader import HeaderReader
from .reference import ReferenceEnvelope, read_envelope


def own_header(message: Message, dialect: Dialect) -> Iterator[Piece]:
    """What stands between ``<|start|>`` and ``<|message|>``. Raises `RenderError` for a tool without a name."""
    yield from _author(message)
    recipient = None if message.recipient in (None, "all") else f" to={message.recipient}"
    recipient_last = dialect == "b" and message.channel == Channel.COMMENTARY
    if recipient and not recipient_last:
        yield recipient
    if message.channel is not None:
        yield CHANNEL
        yield message.channel
    if recipient and recipient_last:
        yield recipient
    if message.content_type is not None:
        yield from _content_type(message.content_type, message.constrained or dialect == "b")


def _author(message: Message) -> Iterator[Piece]:
    if message.role is not Role.TOOL:
        yield message.role.value
        if message.name is not None:
            yield f":{message.name}"
        return
    if message.name is None:
        raise RenderError(
            "Tools should have a name!", code="tool_without_name", hint="Set the message's name, e.g. functions.f."
        )
    yield message.name


def _content_type(content_type: str, constrained: bool) -> Iterator[Piece]:
    if not constrained:
        yield f" {content_type}"
        return
    yield " "
    yield CONSTRAIN
    if content_type:
        yield content_type


# A header as it was written: remembered by its message, and written so again (X-47, A-H05).
#
# What a message remembers is not trusted: it may come from a file, and the message's fields may have changed since. It
# is
# written only if both readers find just these fields in it; else the dialect writes the header by itself.

_CONTROLS = {control.spelling: control for control in (CHANNEL, CONSTRAIN)}
_KEPT = {"unknown-channel", "unknown-content-type"}
"""Incidents of a header that say what is in it, and repair nothing."""
_LONGEST = 512
"""Characters with the controls spelled: more than any header has (R-08)."""


def remembered(message: Message, header: tuple[str, ...]) -> Message:
    """The message with the header that it was read from, unless every dialect writes it so or it needs a repair."""
    if header == _plain(message) or not _is_header_of(header, message):
        return message
    return replace(message, header=header)


def header_as_written(message: Message) -> tuple[Piece, ...]:
    """The pieces of the header that the message remembers; none if that is not the header of these fields."""
    header = message.header
    if not header or not _is_header_of(header, message):
        return ()
    return tuple(_CONTROLS[piece] if i % 2 else piece for i, piece in enumerate(header) if piece)


def envelope_of(message: Message) -> ReferenceEnvelope:
    """The fields as the reference has them."""
    content_type = message.content_type
    if content_type is not None and message.constrained:
        content_type = CONSTRAIN.spelling + content_type
    return ReferenceEnvelope(message.role, message.name, message.recipient, message.channel, content_type)


def _plain(message: Message) -> tuple[str, ...]:
    """The header of a message that has no more than a role and a channel. A tool's may be completed (A-H04)."""
    if message.role is Role.TOOL or message.recipient is not None or message.content_type is not None:
        return ()
    return (message.role.value,) if message.channel is None else (message.role.value, CHANNEL.spelling, message.channel)


def _is_header_of(header: tuple[str, ...], message: Message) -> bool:
    if sum(map(len, header)) > _LONGEST:
        return False
    to, type = message.recipient, message.content_type
    return _says(header, message.role, message.name, to, message.channel, type, constrained=message.constrained)


@lru_cache(maxsize=1024)
def _says(
    header: tuple[str, ...],
    role: Role,
    name: str | None,
    to: str | None,
    channel: str | None,
    type: str | None,
    *,
    constrained: bool,
) -> bool:
    """Whether both readers find these fields in the header, or the strict one what it finds in the dialect's own."""
    texts, controls = header[::2], header[1::2]
    if len(texts) == len(controls) or not _CONTROLS.keys() >= set(controls) or any("<|" in text for text in texts):
        return False
    fields = Message(role=role, name=name, recipient=to, channel=channel, content_type=type, constrained=constrained)
    strict = _strictly("".join(header))
    return strict is not None and strict in (envelope_of(fields), _own(fields)) and _leniently(header) == fields


def _strictly(header: str) -> ReferenceEnvelope | None:
    try:
        return read_envelope(header, None, "a")
    except ParseError:
        return None


def _own(fields: Message) -> ReferenceEnvelope | None:
    """What the strict reader finds in the header that the dialect writes: a type without a recipient is read as one."""
    try:
        return _strictly(spell(tuple(own_header(fields, "a"))))
    except RenderError:
        return None


def _leniently(header: tuple[str, ...]) -> Message | None:
    """The fields, if nothing had to be repaired and the header is not too long to be one (R-08)."""
    buffer = HeaderBuffer()
    buffer.begin(HeaderStart.CONTROL)
    buffer.add(header[0])
    for control, text in zip(header[1::2], header[2::2], strict=True):
        buffer.open_section(_CONTROLS[control])
        buffer.add(text)
    if buffer.room < 0:
        return None
    read = HeaderReader(None, {}, complete=True).read(buffer)
    return replace(read.message(), intent=None) if {code for code, _ in read.repairs} <= _KEPT else None
