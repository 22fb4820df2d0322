"""Ids of the calls of a reply: unique in the conversation, whatever the model wrote (OCM-65, OCM-87)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from antiphon.conversation import End, Message, Role

from .request import TurnRequest

LONGEST = 256
"""Characters of an id of the model's own."""


def free_ids(request: TurnRequest, prefix: str) -> Iterator[str]:
    """Ids in document order, none of them in the conversation yet."""
    taken, first = _taken(request), sum(message.is_call for message in request.conversation.messages)
    return (id for id in (f"{prefix}{number}" for number in count(first)) if id not in taken)


class CallIds:
    """Gives each call of one choice its id; each choice has its own."""

    def __init__(self, request: TurnRequest, choice: int) -> None:
        prefix = request.call_prefix if request.n == 1 else f"{request.call_prefix}{choice}_"
        self._taken = _taken(request)
        self._free = free_ids(request, prefix)

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
