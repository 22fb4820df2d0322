"""Ids of the calls of a reply: random, so that no two conversations share one (OCM-65, OCM-87).

The key of the request is random, and the ids follow from it: who plans the reply and who reads it find the same ones.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from string import ascii_letters, digits

from antiphon.conversation import End, Message, Role

from .request import TurnRequest

CALLS = 4
"""Calls at most in one constrained reply; the ids of their frames are given by us, in order."""
LONGEST = 256
"""Characters of an id of the model's own."""
_CHARACTERS = digits + ascii_letters
_LENGTH = 16
"""Characters of the random part: 95 bits."""
_RANDOM = re.compile(f"call_[{_CHARACTERS}]{{{_LENGTH}}}")


def free_ids(request: TurnRequest, choice: int = 0) -> Iterator[str]:
    """Ids for the calls of a choice, in their order; none of them is in the conversation yet."""
    taken, first = _taken(request), sum(message.is_call for message in request.conversation.messages)
    return (id for id in (_id(request.call_key, choice, number) for number in count(first)) if id not in taken)


def _id(key: str, choice: int, number: int) -> str:
    value, characters = int.from_bytes(hashlib.sha256(f"{key} {choice} {number}".encode()).digest()), ""
    for _ in range(_LENGTH):
        value, place = divmod(value, len(_CHARACTERS))
        characters += _CHARACTERS[place]
    return f"call_{characters}"


def is_random(id: str) -> bool:
    """Whether the id has the form of those that are given here: no other conversation has it."""
    return _RANDOM.fullmatch(id) is not None


class CallIds:
    """Ids of the calls of one choice. Each choice has its own, also where one grammar names those of the first."""

    def __init__(self, request: TurnRequest, choice: int) -> None:
        self._taken = _taken(request)
        self._free = free_ids(request, choice)
        if choice:
            self._taken |= set(islice(free_ids(request), CALLS))

    def identified(self, message: Message) -> Message:
        """A call under the model's own id where that is new and can be read, else under the next free one.

        Any other message as it is.
        """
        if not message.is_call:
            return message
        id = message.call_id
        if id is None or id in self._taken or not _readable(id):
            id = next(free for free in self._free if free not in self._taken)
        self._taken.add(id)
        return message if id == message.call_id else replace(message, call_id=id)


def _readable(id: str) -> bool:
    """No id is empty, very long, or made of blanks and of what cannot be seen: users and headers carry it."""
    return 0 < len(id) <= LONGEST and id.isprintable() and bool(id.strip())


def _taken(request: TurnRequest) -> set[str | None]:
    """The ids of the conversation, but for that of a message that the reply continues."""
    messages = request.conversation.messages
    if messages and messages[-1].role is Role.ASSISTANT and messages[-1].end is End.NONE:
        messages = messages[:-1]
    return {message.call_id for message in messages}
