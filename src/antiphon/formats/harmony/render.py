"""One message → pieces, in the order in which Harmony writes them (R-01)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, assert_never

from antiphon.conversation import (
    Channel,
    DeveloperContent,
    Message,
    OpaquePart,
    Part,
    Role,
    SystemContent,
    TextPart,
)
from antiphon.errors import RenderError
from antiphon.tokens import Piece

from .controls import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, START
from .header_values import check_header
from .sections import SectionWriter

Dialect = Literal["a", "b"]
"""``a`` is openai-harmony's, ``b`` oss-harmony's: the recipient after the channel, the type always constrained."""


@dataclass(frozen=True, slots=True)
class MessageRenderer:
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
        yield from self._header(message)
        yield MESSAGE
        yield from self._content(message, functions_offered)

    def _header(self, message: Message) -> Iterator[Piece]:
        yield from _author(message)
        recipient = None if message.recipient in (None, "all") else f" to={message.recipient}"
        recipient_last = self.dialect == "b" and message.channel == Channel.COMMENTARY
        if recipient and not recipient_last:
            yield recipient
        if message.channel is not None:
            yield CHANNEL
            yield message.channel
        if recipient and recipient_last:
            yield recipient
        if message.content_type is not None:
            yield from self._content_type(message.content_type, message.constrained)

    def _content_type(self, content_type: str, constrained: bool) -> Iterator[Piece]:
        if not constrained and self.dialect == "a":
            yield f" {content_type}"
            return
        yield " "
        yield CONSTRAIN
        if content_type:
            yield content_type

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


def _misplaced(content: str, home: str, role: Role) -> RenderError:
    return RenderError(
        f"{content} may only appear in {home} messages, found in {role.value.capitalize()}", code="misplaced_content"
    )
