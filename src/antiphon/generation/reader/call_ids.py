"""Ids for the calls that a model gave none."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from antiphon.conversation import Message
from antiphon.generation.request import TurnRequest


class CallIds:
    """Ids in document order, none of them in the conversation yet; each choice has its own."""

    def __init__(self, request: TurnRequest, choice: int) -> None:
        prefix = request.call_prefix if request.n == 1 else f"{request.call_prefix}{choice}_"
        messages = request.conversation.messages
        taken = {message.call_id for message in messages}
        first = sum(message.is_call for message in messages)
        self._next = (id for id in (f"{prefix}{number}" for number in count(first)) if id not in taken)

    def identified(self, message: Message) -> Message:
        """A call under the model's own id, or the next of these; any other message as it is."""
        if not message.is_call or message.call_id is not None:
            return message
        return replace(message, call_id=next(self._next))
