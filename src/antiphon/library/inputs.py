"""Arguments of a caller, as a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from antiphon.api.chat.conversation import read_chat, read_messages, read_turn_request
from antiphon.conversation import Conversation, End, Message, Role
from antiphon.errors import Position, RequestError
from antiphon.generation import TurnRequest
from antiphon.wire.json import decode, encode_given

# Dictionaries and lists of a caller as the JSON that a wire reads, with errors at the argument's own place.

Read = TypeVar("Read", bound=msgspec.Struct)


def read_json(value: object, kind: type[Read], path: str) -> Read:
    """The value, a dictionary, as a wire has it. Raises `RequestError` at the field below ``path``."""
    try:
        read, _ = decode(encode_given(value, path), kind)
    except RequestError as error:
        raise below(error, path) from None
    return read


def below(error: RequestError, path: str) -> RequestError:
    """The error about a field of a value that stands at ``path``."""
    inner = error.position.path if error.position and error.position.path else ""
    if inner.startswith(path):
        return error
    place = f"{path}.{inner}" if inner else path
    message = error.message.removeprefix(f"{inner}: ") if inner else error.message
    return RequestError(f"{place}: {message}", code=error.code, position=Position(path=place), hint=error.hint)


ChatInput = str | Message | Conversation | Mapping[str, Any] | Sequence[Message | Mapping[str, Any]]
"""A question; messages, values or as chat APIs write them; a conversation; the body of a chat request."""


def read_turn(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> TurnRequest:
    """The turn that ``given`` requests: the body of a chat request brings its settings, anything else none.

    Raises `RequestError`, for a conversation without messages too.
    """
    if isinstance(given, Mapping):
        requested = read_turn_request(given)
        conversation = read_input(requested.conversation, system=system, history=history)
    else:
        conversation = read_input(given, system=system, history=history)
        requested = TurnRequest(conversation=conversation)
    if not conversation.messages:
        raise RequestError(
            "messages: there are none.", code="invalid_value", position=Position(path="messages"), hint="Give a text."
        )
    return replace(requested, conversation=conversation)


def read_input(given: ChatInput, *, system: str | None = None, history: Conversation | None = None) -> Conversation:
    """``given`` after ``history``, or with ``system`` as the first message. Raises `RequestError` for both."""
    if system and history is not None:
        raise RequestError(
            "system: the history has its own beginning.",
            code="invalid_value",
            position=Position(path="system"),
            hint="Give one of the two.",
        )
    added = _conversation(given, () if history is None else history.messages)
    if history is not None:
        _check_json(history, "history")
        closed = map(_closed, history.messages) if added.messages else history.messages
        return replace(history, messages=(*closed, *added.messages))
    if not system:
        return added
    return replace(added, messages=(Message(role=Role.SYSTEM, text=system), *added.messages))


def _closed(message: Message) -> Message:
    """An answer that was cut ends where others follow it."""
    end = End.CALL if message.is_call else End.END
    return replace(message, end=end) if message.end is End.NONE else message


def _conversation(given: ChatInput, earlier: Sequence[Message]) -> Conversation:
    if isinstance(given, str):
        return Conversation((Message(role=Role.USER, text=given),))
    if isinstance(given, Conversation):
        _check_json(given, "messages")
        return given
    if isinstance(given, Message):
        return Conversation((given,))
    if isinstance(given, Mapping):
        return read_chat(given)
    return _messages(given, earlier)


def _check_json(conversation: Conversation, path: str) -> None:
    """Raises `RequestError` where a schema or an argument of the template holds what JSON cannot carry."""
    for i, tool in enumerate(conversation.tools):
        encode_given(tool.parameters, f"{path}.tools[{i}].parameters")
    if conversation.response_format is not None:
        encode_given(conversation.response_format.schema, f"{path}.response_format.schema")
    encode_given(conversation.settings.template_kwargs, f"{path}.settings.template_kwargs")


def _messages(given: Sequence[Message | Mapping[str, Any]], earlier: Sequence[Message]) -> Conversation:
    values = [message for message in given if isinstance(message, Message)]
    if len(values) == len(given):
        return Conversation(tuple(values))
    if values:
        raise RequestError(
            "messages: either all are Message values, or all are chat JSON.",
            code="invalid_type",
            position=Position(path="messages"),
            hint="antiphon.read_chat(body).messages makes Message values of chat JSON.",
        )
    written = [message for message in given if isinstance(message, Mapping)]
    return Conversation(read_messages(written, earlier=earlier))
