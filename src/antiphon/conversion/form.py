"""What a form of conversations is: a source that reads it and a target that writes it, message by message."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from antiphon.conversation import Conversation, Loss, Message


@dataclass(frozen=True, slots=True)
class Written:
    """A part of the output, the messages that it stands for, and those that a reader of it gets.

    Where the two differ, the form loses something; so the report of losses is complete without a list of rules.
    """

    text: str = ""
    messages: tuple[Message, ...] = ()
    read: tuple[Message, ...] = ()
    ambiguous: tuple[Loss, ...] = ()
    """What a reader would take for something else, though all of the text is in the output."""
    expected: tuple[Message, ...] | None = None
    """What a reader should get, where tools move between messages and a list beside them; None: ``messages``."""


class Source(Protocol):
    """Reads one input, cut anywhere."""

    @property
    def about(self) -> Conversation:
        """Tools, settings and the like, without the messages; complete when `close` was called."""

    @property
    def ready(self) -> bool:
        """Whether ``about`` is known as far as a writer needs it to begin."""

    @property
    def repairs(self) -> list[str]:
        """What was wrong with the input and was repaired; who reports it clears the list."""

    @property
    def unread(self) -> list[Loss]:
        """What the input says that no conversation has a place for; who reports it clears the list."""

    def feed(self, chunk: bytes) -> list[Message]:
        """Raises `FormatError` or `RequestError` where the input is not what it should be."""

    def close(self) -> Iterable[Message]: ...


class Target(Protocol):
    """Writes one output."""

    def open(self, about: Conversation) -> tuple[Written, Conversation]:
        """The beginning of the output, and what of ``about`` a reader will get from it."""

    def write(self, message: Message) -> list[Written]: ...

    def close(self, about: Conversation) -> Iterable[Written]: ...
