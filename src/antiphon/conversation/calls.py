"""Calls of tools and their answers: how each is made, and which calls wait."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from .message import Channel, End, Message, Part, Role, text_and_parts
from .tools import FUNCTIONS

DEEPEST = 100
"""Levels of arguments that are an object for a template."""
NAMELESS = f"{FUNCTIONS}.tool"
"""The name of a tool whose message answers no call that the conversation has."""


def make_call(
    recipient: str, arguments: str, id: str | None, *, kind: str | None = "json", channel: str = Channel.COMMENTARY
) -> Message:
    """A whole call of the tool ``recipient``. ``kind``: the type of its arguments; JSON is marked as such."""
    return Message(
        role=Role.ASSISTANT, channel=channel, recipient=recipient, content_type=kind, constrained=kind == "json",
        call_id=id, text=arguments, end=End.CALL,
    )  # fmt: skip


def make_answer(
    recipient: str, id: str | None, parts: Sequence[Part] = (), *, channel: str = Channel.COMMENTARY
) -> Message:
    """The answer of the tool ``recipient`` to its call; one part is its text alone."""
    text, several = text_and_parts(parts)
    return Message(
        role=Role.TOOL, name=recipient, recipient="assistant", channel=channel, call_id=id, text=text, parts=several,
    )  # fmt: skip


class OpenCalls:
    """The calls that wait for their answers, the oldest first: ids and recipients.

    Two that wait under one id could not be told apart by their answers, so the second is not taken. An id may be used
    again once it is answered. Memory: the ids of all calls.
    """

    strict: ClassVar[bool] = True
    """Whether a history is refused that is not as it should be."""

    def __init__(self, before: Iterable[Message] = ()) -> None:
        self._open: dict[str, str] = {}
        self._used: dict[str, str] = {}
        self._number = 0
        for message in before:
            self.follow(message)

    def __bool__(self) -> bool:
        return bool(self._open)

    def follow(self, message: Message) -> bool:
        """Takes a call, which waits from now on, or an answer; False for a call under the id of one that waits."""
        id = message.call_id
        if id is None:
            return True
        if message.role is Role.TOOL:
            self._open.pop(id, None)
        elif message.is_call:
            self._used[id] = message.recipient or ""
            if id in self._open:
                return False
            self._open[id] = message.recipient or ""
        return True

    def answer(self, id: str) -> str | None:
        """The recipient of the call, which waits no more; None where none waits under the id."""
        return self._open.pop(id, None)

    def recipient(self, id: str | None) -> str | None:
        """The recipient of the call that waits under the id, if one does."""
        return self._open.get(id or "")

    def used(self, id: str) -> bool:
        """Whether a call had the id, answered or not."""
        return id in self._used

    def reserve(self, id: str | None) -> None:
        """Takes the id of a later message: `free_id` does not give it."""
        if id is not None:
            self._used.setdefault(id, "")

    def oldest(self, recipient: str | None = None) -> str | None:
        """The id of the call of the tool, or of any, that waits longest (A-O15)."""
        return next(self.waiting(recipient), None)

    def waiting(self, recipient: str | None = None) -> Iterator[str]:
        """The ids of open calls of the tool, or of any tool, the oldest first."""
        return (id for id, called in self._open.items() if recipient in (None, called))

    def free_id(self) -> str:
        """An id by position for a call that has none (A-O12)."""
        while (id := f"call_{self._number}") in self._used:
            self._number += 1
        return id

    def take_all(self) -> list[tuple[str, str]]:
        """The ids and recipients of all that wait; they wait no more."""
        waiting, self._open = list(self._open.items()), {}
        return waiting


class GivenCalls(OpenCalls):
    """The calls of a history that is taken as it is, whatever a model called and whatever was answered."""

    strict = False

    def follow(self, message: Message) -> bool:
        """Takes a call or an answer. One under the id of a call that waits is as good as that call."""
        super().follow(message)
        return True

    def answer(self, id: str) -> str:
        """The recipient of the call that waits under the id, else of the last that had it, else no tool by name."""
        return super().answer(id) or self._used.get(id) or NAMELESS


# Names of calls and results as words, for formats whose messages have heads of words. A model calls what it likes.

_ENDING = frozenset("{([\"'`")
"""Characters with which content begins behind a name."""


def plainly_named(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages; whom a call is to and whom a result is of has a name that is one word, respelled if need be."""
    return tuple(map(_plainly_named, messages))


def _plainly_named(message: Message) -> Message:
    if message.is_call and message.recipient != (name := _plain(message.recipient or "")):
        return replace(message, recipient=name)
    if message.role is Role.TOOL and message.name and message.name != (name := _plain(message.name)):
        return replace(message, name=name)
    return message


def _plain(name: str) -> str:
    """The name in visible characters, none of which ends it."""
    word = "".join("_" if char.isspace() or not char.isprintable() or char in _ENDING else char for char in name)
    return f"{word}_" if word.endswith(".") else word


def fits_template(arguments: str) -> bool:
    """Whether a call's arguments are a JSON object of no more levels than templates write; none at all are one."""
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return False
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inner(each)]
    return isinstance(value, dict) and not level


def _inner(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
