"""What a form of conversations is here: how it is read and how it is written, message by message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from antiphon.conversation import Conversation, Loss, Message


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the output, the messages that it stands for, and those that a reader of it gets.

    What the two do not have in common is what the form cannot hold, so a report of losses cannot forget one.
    """

    text: str = ""
    said: tuple[Message, ...] = ()
    read: tuple[Message, ...] = ()
    ambiguous: tuple[Loss, ...] = ()
    """What a reader would take for something else, though the text is all there."""


class Source(Protocol):
    """Reads one input, cut anywhere."""

    @property
    def about(self) -> Conversation:
        """What the input says beside its messages; complete when `close` was called."""

    @property
    def ready(self) -> bool:
        """Whether ``about`` is known as far as a writer needs it to begin."""

    @property
    def repairs(self) -> list[str]:
        """What was wrong with the input and was mended, since it was last asked."""

    @property
    def unread(self) -> list[Loss]:
        """What the input says that no conversation holds; whoever tells it clears it."""

    def feed(self, chunk: bytes) -> list[Message]:
        """Raises `FormatError` or `RequestError` where the input is not what it should be."""

    def close(self) -> Iterable[Message]: ...


class Target(Protocol):
    """Writes one output."""

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        """The beginning, and what of ``about`` a reader gets from the output."""

    def write(self, message: Message) -> list[Written]: ...

    def close(self, about: Conversation) -> Iterable[Written]: ...
