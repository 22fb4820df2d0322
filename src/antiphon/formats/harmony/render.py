"""One message → pieces, in the order in which Harmony writes them (R-01), or in which they were read (X-47)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, assert_never

import msgspec

from antiphon.conversation import DeveloperContent, Message, OpaquePart, Part, Role, SystemContent, TextPart
from antiphon.errors import Position, RenderError
from antiphon.tokens import Control, Piece, Tokenizer

from .controls import CALL, END, ENDS, MESSAGE, START, Dialect
from .header import CONTENT_TYPES, ROLES
from .header_reader import known_channel
from .header_writer import header_as_written, own_header
from .sections import SectionWriter

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
    if channel is not None and not _is_plain(channel):
        raise _refused("channel", channel)
    if type and not _is_type(type.removeprefix(" ") if constrained else type, constrained, recipient):
        raise _refused("content_type", type)


def _is_type(type: str, constrained: bool, recipient: str | None) -> bool:
    """Whether it is read as a content type: the last word of a header is the recipient, if nothing else is one."""
    if recipient is None:
        return _is_plain(type) and (" " not in type if constrained else type in CONTENT_TYPES)
    return _is_plain(type)


def _is_plain(value: str) -> bool:
    """Whether a value is visible characters and blanks, of which no word is an attribute."""
    return bool(value.strip()) and value.isprintable() and not any(map(_is_marked, value.split(" ")))


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
    """Writes messages in one dialect. Every text is a piece of its own, as the model saw it in training."""

    dialect: Dialect
    sections: SectionWriter

    def frame(self, message: Message, *, functions_offered: bool = False) -> Iterator[Piece]:
        """The whole message with its end.

        Raises `RenderError` for content that Harmony cannot represent, and for values that would forge a header.
        """
        yield from self.opened(message, functions_offered=functions_offered)
        yield CALL if message.role is Role.ASSISTANT and message.recipient is not None else END

    def opened(self, message: Message, *, functions_offered: bool = False) -> Iterator[Piece]:
        """The message without its end, for the model to continue. Raises `RenderError` as `frame` does."""
        check_header(message)
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
