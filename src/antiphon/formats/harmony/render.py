"""One message → pieces, in the order in which Harmony writes them (R-01), or in which they were read (X-47)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import msgspec

from antiphon.conversation import (
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

from .controls import CALL, END, MESSAGE, START
from .header_as_written import header_as_written
from .header_values import check_header
from .header_writer import own_header
from .options import Dialect
from .sections import SectionWriter


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
