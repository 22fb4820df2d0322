"""What a caller hands in, as a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import RequestError
from antiphon.wire.chat.conversation import read_chat

ChatInput = str | Message | Conversation | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""A question; messages, values or as chat APIs write them; a conversation; the body of a chat request."""


def read_input(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> Conversation:
    """``given`` after ``history``, with ``system`` as the first message where there is no history."""
    added = _conversation(given)
    if history is not None:
        return history.add(*added.messages)
    if not system:
        return added
    return replace(added, messages=(Message(role=Role.SYSTEM, text=system), *added.messages))


def _conversation(given: ChatInput) -> Conversation:
    match given:
        case Conversation():
            return given
        case str():
            return Conversation((Message(role=Role.USER, text=given),))
        case Message():
            return Conversation((given,))
        case Mapping():
            return read_chat(given)
        case _:
            return _messages(given)


def _messages(given: Sequence[Message | Mapping[str, Any]]) -> Conversation:
    values = [message for message in given if isinstance(message, Message)]
    if len(values) == len(given):
        return Conversation(tuple(values))
    if values:
        raise RequestError("messages: either all are Message values, or all are chat JSON.", code="invalid_type")
    return read_chat({"messages": list(given)})
