"""The events of a reply while it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from antiphon.conversation import End, Incident, Message, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.formats.history import is_answer


class ReplyEvents:
    """Collects events until they are taken, and the text of the open message.

    ``position`` counts the characters that were read, a control as one. ``answered``: a final answer has ended.
    """

    def __init__(self) -> None:
        self.position = 0
        self.answered = False
        self._message: Message | None = None
        self._complete_header = True
        self._parts: list[str] = []
        self._aside: list[str] = []
        self._aside_at = 0
        self._events: list[ParserEvent] = []

    @property
    def text(self) -> str:
        """The text of the open message so far."""
        return "".join(self._parts)

    @property
    def has_text(self) -> bool:
        return bool(self._parts)

    def advance(self, characters: int) -> None:
        """Move the position behind what was read."""
        self.position += characters

    def take(self) -> list[ParserEvent]:
        """The events since the last call."""
        events, self._events = self._events, []
        return events

    def incident(self, code: str, text: str = "") -> None:
        self._events.append(Incident(code, self.position, text))

    def incidents(self, repairs: Iterable[tuple[str, str]]) -> None:
        for code, text in repairs:
            self.incident(code, text)

    # The open message

    def start(self, message: Message, *, complete_header: bool = True) -> None:
        """Open a message. ``complete_header``: its header ended with ``<|message|>``."""
        self._message, self._parts, self._complete_header = message, [], complete_header
        self._events.append(MessageStarted(message))

    def read(self, text: str) -> None:
        """Add text to the open message, and move the position behind it: `add` and `advance` in one, for speed."""
        if text:
            self._parts.append(text)
            self._events.append(TextDelta(text))
            self.position += len(text)

    def add(self, text: str) -> None:
        """Add text to the open message."""
        if text:
            self._parts.append(text)
            self._events.append(TextDelta(text))

    def add_silently(self, text: str) -> None:
        """Add text without an event."""
        self._parts.append(text)

    def finish(self, end: End) -> None:
        """End the open message, and report what is wrong with it as a whole."""
        assert self._message is not None
        message = replace(self._message, text=self.text, end=end)
        if message.role is Role.ASSISTANT and message.recipient is None:
            if end is End.CALL:
                self.incident("call-without-recipient")
            elif message.content_type is not None:
                self.incident("bare-content-type", message.content_type)
        if not self._complete_header and message.is_call and not message.text:
            self.incident("empty-call")
        self.answered |= is_answer(message)
        self._events.append(MessageEnded(message))
        self._message, self._parts = None, []

    # A message of another role

    def set_message_aside(self, header: str) -> None:
        """Put the message with this header, and all text that follows, into one incident, which `close` adds."""
        self._aside_at = self.position
        self._aside = [header, *self._parts]

    def set_aside(self, text: str) -> None:
        self._aside.append(text)

    def close(self) -> None:
        """Report what was set aside."""
        if self._aside:
            self._events.append(Incident("truncated-at-foreign-role", self._aside_at, "".join(self._aside)))
            self._aside = []
