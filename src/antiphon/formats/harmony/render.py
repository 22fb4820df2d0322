"""One message → pieces, in the order in which Harmony writes them (R-01), or in which they were read (X-47)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Literal, assert_never

import msgspec

from antiphon.conversation import (
    Channel,
    DeveloperContent,
    Message,
    OpaquePart,
    Part,
    Role,
    SystemContent,
    TextPart,
    ToolsPart,
)
from antiphon.conversation.tools import by_namespace
from antiphon.errors import ParseError, Position, RenderError
from antiphon.tokens import Control, Piece, Tokenizer, spell

from .controls import CALL, CHANNEL, CONSTRAIN, END, ENDS, MESSAGE, START, Dialect
from .header import CHANNELS, CONTENT_TYPES, ROLES, HeaderBuffer, HeaderStart
from .header_reader import BLANK, HeaderReader, is_qualified, known_channel
from .reference import ReferenceEnvelope, read_envelope
from .sections import SectionWriter

# A message's header as a dialect writes it by itself.


def own_header(message: Message, dialect: Dialect) -> Iterator[Piece]:
    """The header between ``<|start|>`` and ``<|message|>``. Raises `RenderError` for a tool without a name."""
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
# is written only if both readers find just these fields in it; else the dialect writes the header by itself.

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
    # Blanks behind the mark of a type say nothing, but the strict reader finds two words there.
    first, *types = "".join(header).split(CONSTRAIN.spelling)
    strict = _strictly(CONSTRAIN.spelling.join([first, *(type.lstrip(BLANK) for type in types)]))
    return strict is not None and strict in (envelope_of(fields), _own(fields)) and _leniently(header) == fields


def _strictly(header: str) -> ReferenceEnvelope | None:
    try:
        return read_envelope(header, None, "a")
    except ParseError:
        return None


def _own(fields: Message) -> ReferenceEnvelope | None:
    """The dialect's header as the strict reader finds it: a type without a recipient is read as one."""
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


# Which values a header may have: none that is read as another of its fields, or as another header.


def check_header(message: Message) -> None:
    """Raises `RenderError`, code ``header_value``, for a value of the header that forges another one.

    A header is words between blanks, and a word's place and prefix say what it is: a control character, a word that
    begins with ``to=``, or a role in place of a tool's name would make another header of it. A blank or a control's
    spelling that forges nothing is written as the reference writes it.
    """
    recipient = None if message.recipient == "all" else message.recipient
    _check(
        message.role, message.name, recipient, message.channel, message.content_type, constrained=message.constrained
    )


@lru_cache(maxsize=1024)
def _check(
    role: Role, name: str | None, recipient: str | None, channel: str | None, type: str | None, *, constrained: bool
) -> None:
    if name is not None and (not _is_plain(name) or (role is Role.TOOL and _is_author(name))):
        raise _refused("name", name)
    if recipient is not None and not _is_recipient(recipient) and (recipient or type):  # nobody's call has no type
        raise _refused("recipient", recipient)
    if channel is not None and (not _is_plain(channel) or is_qualified(channel) or channel in CONTENT_TYPES):
        raise _refused("channel", channel)
    if type and not _is_type(type.removeprefix(" ") if constrained else type, constrained, recipient):
        raise _refused("content_type", type)


def _is_type(type: str, constrained: bool, recipient: str | None) -> bool:
    """Whether it is read as a content type: the last word of a header is the recipient, if nothing else is one."""
    if type in CHANNELS or not _is_plain(type):
        return False
    alone = constrained and " " not in type and not is_qualified(type)
    return recipient is not None or alone or type in CONTENT_TYPES


def _is_plain(value: str) -> bool:
    """Whether a value is visible characters and blanks, of which no word is an attribute."""
    if not value.strip() or not value.isprintable():
        return False
    first, *more = value.strip().split(" ")
    return not _is_marked(first) and not any(_is_marked(word) or is_qualified(word) for word in more)


def _is_recipient(value: str) -> bool:
    """Whether it ends where a recipient does: content that follows one begins with a bracket or a quote (F-04)."""
    return _is_plain(value) and not any(mark in value for mark in "{([\"'`") and not value.endswith(".")


def _is_author(name: str) -> bool:
    """Whether a tool's name in place of the role would be read as somebody else's.

    As models write them, roles are also read doubled, or joined with a name, a channel or a recipient (R-07).
    """
    word = name.strip().partition(" ")[0]
    role = next((role for role in ROLES if word.startswith(role)), None)
    if role is None or name == Role.TOOL:
        return False
    tail = word
    while tail.startswith(role):
        tail = tail[len(role) :]
    return not tail or tail.startswith((":", "<|")) or _is_marked(tail) or known_channel(tail) is not None


def _is_marked(value: str) -> bool:
    return value.startswith(("to=", "to:"))


def _refused(field: str, value: str) -> RenderError:
    return RenderError(
        f"{value[:80]!r} as {field} of a Harmony message would be read as another header",
        code="header_value",
        position=Position(path=field),
        hint="A value is one word of visible characters; it is no role and does not begin with to=.",
    )


def refuse(error: RenderError) -> None:
    """Raises the error."""
    raise error


# A prompt or a reply in stretches of controls, headers and text, for display.


class Span(msgspec.Struct, frozen=True):
    """A stretch of one kind. ``id`` is a control's, where the vocabulary is known."""

    kind: Literal["control", "envelope", "text"]
    text: str
    id: int | None = None


def spans(pieces: Iterable[Piece], tokenizer: Tokenizer | None = None, *, in_reply: bool = False) -> Iterator[Span]:
    """The spans of a rendering, or of a reply, which begins inside an envelope (``in_reply``)."""
    envelope = in_reply
    for piece in pieces:
        if not isinstance(piece, Control):
            yield Span("envelope" if envelope else "text", piece)
            continue
        envelope = (envelope or piece == START) and piece != MESSAGE and piece not in ENDS
        yield Span("control", piece.spelling, tokenizer.control_id(piece) if tokenizer else None)


class MessageRenderer(msgspec.Struct, frozen=True):
    """Writes messages in one dialect. Every text is a piece of its own, as the model saw it in training.

    ``refuse`` gets the error of a header that would be read as another one.
    """

    dialect: Dialect
    sections: SectionWriter
    refuse: Callable[[RenderError], None] = refuse

    def frame(self, message: Message, *, functions_offered: bool = False) -> Iterator[Piece]:
        """The whole message with its end.

        Raises `RenderError` for content that Harmony cannot represent, and for values that would forge a header.
        """
        yield from self.opened(message, functions_offered=functions_offered)
        yield CALL if message.role is Role.ASSISTANT and message.recipient is not None else END

    def opened(self, message: Message, *, functions_offered: bool = False) -> Iterator[Piece]:
        """The message without its end, for the model to continue. Raises `RenderError` as `frame` does."""
        try:
            check_header(message)
        except RenderError as error:
            self.refuse(error)
        yield START
        yield from header_as_written(message) or own_header(message, self.dialect)
        yield MESSAGE
        yield from self._content(message, functions_offered)

    def _content(self, message: Message, functions_offered: bool) -> Iterator[Piece]:
        if not message.parts:
            yield message.text
            return
        for part in message.parts:
            yield self._part(part, message.role, functions_offered)

    def _part(self, part: Part, role: Role, functions_offered: bool) -> str:
        match part:
            case ToolsPart(tools=tools):
                return self.sections.tools(by_namespace(tools))
            case TextPart(text):
                return text
            case SystemContent() if role is Role.SYSTEM:
                return self.sections.system(part, functions_offered=functions_offered)
            case DeveloperContent() if role is Role.DEVELOPER:
                return self.sections.developer(part)
            case SystemContent():
                raise _misplaced("SystemContent", "system", role)
            case DeveloperContent():
                raise _misplaced("DeveloperContent", "developer", role)
            case OpaquePart(kind):
                raise RenderError(
                    f"Harmony carries text only, and a {role} message has a part of kind {kind!r}",
                    code="unsupported_part",
                )
            case _:
                assert_never(part)


def _misplaced(content: str, home: str, role: Role) -> RenderError:
    return RenderError(
        f"{content} may only appear in {home} messages, found in {role.value.capitalize()}", code="misplaced_content"
    )
