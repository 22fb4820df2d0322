"""Chat templates: one way, because their texts have no escapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from antiphon.conversation import Conversation, Loss, Message, Role
from antiphon.formats import Format, HistoryPolicy
from antiphon.tokens import spell

from .form import Written
from .media import without_media

ROLES = {Role.SYSTEM: Role.SYSTEM, Role.DEVELOPER: Role.SYSTEM, Role.USER: Role.USER,
         Role.ASSISTANT: Role.ASSISTANT, Role.TOOL: Role.USER}  # fmt: skip


class TemplateTarget:
    """Writes what a template makes of the whole conversation. Of a message only role and text survive."""

    def __init__(self, format: Format) -> None:
        self._format = format
        self._about = Conversation()
        self._messages: list[Message] = []

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        self._about = about
        return Written(), Conversation()

    def write(self, message: Message) -> list[Written]:
        self._messages.append(message)
        return []

    def close(self, about: Conversation) -> list[Written]:
        whole = replace(self._about, messages=tuple(map(without_media, self._messages)))
        text = spell(list(self._format.render(whole, reply_as=None, history=HistoryPolicy.KEEP_ALL)))
        readable = [(message, tuple(self._read_back(message, text))) for message in self._messages]
        parts = (Written("", (message,), read, self._spelled(i, message)) for i, (message, read) in enumerate(readable))
        return [*parts, Written(text)]

    def _spelled(self, number: int, message: Message) -> tuple[Loss, ...]:
        """A text that spells a marker is the marker for whoever reads the template's text."""
        marks = dict.fromkeys(str(mark) for mark in (*self._format.controls, *self._format.stops))
        return tuple(
            Loss(f"messages[{number}].text", repr(mark), f"a marker of {self._format.name}")
            for mark in marks
            if mark in message.text
        )

    def _read_back(self, message: Message, text: str) -> Iterator[Message]:
        """What a reader gets of the message: role and text; nothing where the template leaves the text out."""
        if message.text in text:
            yield Message(role=ROLES[message.role], text=message.text, channel=None)
