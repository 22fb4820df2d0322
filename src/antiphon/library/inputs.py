"""What a caller hands in, as a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import RequestError
from antiphon.generation import TurnRequest
from antiphon.wire.chat.conversation import read_chat, read_turn_request

ChatInput = str | Message | Conversation | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""A question; messages, values or as chat APIs write them; a conversation; the body of a chat request."""


def read_turn(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> TurnRequest:
    """The turn that ``given`` asks for: the body of a chat request brings its settings, anything else none.

    Raises `RequestError`, for a conversation without messages too.
    """
    asked = read_turn_request(given) if isinstance(given, Mapping) else TurnRequest(conversation=_conversation(given))
    conversation = read_input(asked.conversation, system=system, history=history)
    if not conversation.messages:
        raise RequestError("messages: there are none.", code="invalid_value")
    return replace(asked, conversation=conversation)


def read_input(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> Conversation:
    """``given`` after ``history``, or with ``system`` as the first message. Raises `RequestError` for both."""
    if system and history is not None:
        raise RequestError(
            "system: the history has its own beginning.", code="invalid_value", hint="Give one of the two."
        )
    added = _conversation(given)
    if history is not None:
        return history.add(*added.messages)
    if not system:
        return added
    return replace(added, messages=(Message(role=Role.SYSTEM, text=system), *added.messages))


def _conversation(given: ChatInput) -> Conversation:
    if isinstance(given, str):
        return Conversation((Message(role=Role.USER, text=given),))
    if isinstance(given, Conversation):
        return given
    if isinstance(given, Message):
        return Conversation((given,))
    if isinstance(given, Mapping):
        return read_chat(given)
    if isinstance(given, list | tuple):
        return _messages(given)
    raise RequestError(f"messages: {type(given).__name__} is no conversation.", code="invalid_type")


def _messages(given: Sequence[Message | Mapping[str, Any]]) -> Conversation:
    values = [message for message in given if isinstance(message, Message)]
    if len(values) == len(given):
        return Conversation(tuple(values))
    if values:
        raise RequestError("messages: either all are Message values, or all are chat JSON.", code="invalid_type")
    return read_chat({"messages": list(given)})
