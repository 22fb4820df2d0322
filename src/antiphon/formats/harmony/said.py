"""What a reply said so far, as the events that tell it."""

from __future__ import annotations

from dataclasses import replace

from antiphon.conversation import End, Incident, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.formats.history import is_answer

from .fields import Header


class Said:
    """``parts`` are the texts of the open message; ``position`` counts characters, a control as one.

    ``answered``: a final answer is among what was said. ``missed_message``: the open message's header had no
    ``<|message|>``.
    """

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.position = 0
        self.answered = False
        self.missed_message = False
        self._message: Message | None = None
        self._aside: list[str] = []
        self._aside_at = 0
        self._events: list[ParserEvent] = []

    def take(self) -> list[ParserEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def start(self, message: Message) -> None:
        self._message = message
        self.parts = []
        self._events.append(MessageStarted(message))

    def add(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self._events.append(TextDelta(text))

    def finish(self, end: End) -> None:
        assert self._message is not None
        message = replace(self._message, text="".join(self.parts), end=end)
        if message.role is Role.ASSISTANT and message.recipient is None:
            if end is End.CALL:
                self.incident("call-without-recipient")
            elif message.content_type is not None:
                self.incident("bare-content-type", message.content_type)
        if self.missed_message and message.is_call and not message.text:
            self.incident("empty-call")
        self.answered |= is_answer(message)
        self._events.append(MessageEnded(message))
        self._message, self.parts = None, []
        self.missed_message = False

    def incident(self, code: str, text: str = "") -> None:
        self._events.append(Incident(code, self.position, text))

    def repaired(self, header: Header) -> None:
        for code, text in header.repairs:
            self.incident(code, text)

    # What somebody else seems to say

    def set_over(self, header: Header) -> None:
        """From here on it is somebody else's: it is set aside."""
        self._aside_at = self.position
        self._aside = [header.spelled, *self.parts]

    def set_aside(self, text: str) -> None:
        self._aside.append(text)

    def close(self) -> None:
        """What was set aside is told once, as it ends."""
        if self._aside:
            self._events.append(Incident("truncated-at-foreign-role", self._aside_at, "".join(self._aside)))
            self._aside = []
