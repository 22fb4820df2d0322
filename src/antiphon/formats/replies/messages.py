"""The events of a reply: messages that begin, go on and end, and incidents."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.errors import ParseError, Position

from .json_text import json_inside
from .source import SYMBOL

FINAL = Message(role=Role.ASSISTANT, channel=Channel.FINAL)
ANALYSIS = Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS)


def recipient_of(name: str) -> str:
    """Whom a call by this name is addressed to."""
    return name if name.startswith("functions.") else f"functions.{name}"


def call_header(name: str, call_id: str | None) -> Message:
    """The header of a call's message, which is addressed to the tool."""
    return Message(
        role=Role.ASSISTANT,
        recipient=recipient_of(name),
        channel=Channel.COMMENTARY,
        content_type="json",
        call_id=call_id,
    )


class Messages:
    """Collects the events, in which ``decode`` spells out controls. ``strict``: an incident raises `ParseError`."""

    def __init__(self, decode: Callable[[str], str], *, strict: bool) -> None:
        self._decode = decode
        self.began = False
        """There is a message."""
        self.open: Message | None = None
        self.strict = strict
        self.texts: list[str] = []
        self.events: list[ParserEvent] = []

    def taken(self) -> list[ParserEvent]:
        events, self.events = self.events, []
        return events

    def begin_again(self) -> None:
        """Forgets what was collected: it was the prompt's. A call that the prompt began goes on."""
        header, self.open = self.open, None
        self.texts, self.events, self.began = [], [], False
        if header is not None and header.recipient:
            self.begin(header)

    def begin(self, header: Message) -> None:
        self.open, self.texts, self.began = header, [], True
        self.events.append(MessageStarted(header))

    def delta(self, text: str) -> None:
        """More text of the open message."""
        if text:
            if not text.isascii():
                text = SYMBOL.sub(self._spelled, text)
            self.texts.append(text)
            self.events.append(TextDelta(text))

    def _spelled(self, symbol: re.Match[str]) -> str:
        """A control inside a text; in a call that is the inside of a JSON string."""
        spelling = self._decode(symbol.group())
        return json_inside(spelling) if self.open is not None and self.open.is_call else spelling

    def end(self, end: End) -> None:
        """Ends the open message, if there is one."""
        if self.open is not None:
            self.events.append(MessageEnded(replace(self.open, text="".join(self.texts), end=end)))
            self.open = None

    def incident(self, code: str, position: int, text: str) -> None:
        """``position``: in characters of the reply, a control counting as one."""
        text = self._decode(text)
        if self.strict:
            message = f"{code.replace('_', ' ')}: {text[:80]!r}"
            raise ParseError(message, code=code, position=Position(offset=position))
        self.events.append(Incident(code, position, text))
