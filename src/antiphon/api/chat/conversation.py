"""A chat body ⇄ a conversation, for programs: what the server reads of a request, without a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from antiphon.config import Limits
from antiphon.conversation import Conversation, Message
from antiphon.generation import TurnRequest
from antiphon.wire.dialect import OPENAI
from antiphon.wire.errors import refused
from antiphon.wire.json import decode, encode_given

from .bundle import ChatMessageWriter, settings_json
from .messages import to_messages
from .read import Reading, to_turn
from .schema import ChatRequest, JsonObject

SERVER_FIELDS = frozenset(
    {"n", "logprobs", "top_logprobs", "session_id", "sequence_start", "sequence_end", "server_tools"}
)
"""What changes an answer in a way that only a server's answer shows, or that needs what only a server has."""


def read_chat(body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | bytes) -> Conversation:
    """The conversation of a chat completions body, or of its messages alone: as a value, or as JSON text.

    Messages, ``tools``, ``response_format`` and ``reasoning_effort`` are read as `POST /v1/chat/completions` reads
    them; what only a server can act on (sampling, streaming) is checked and left out. With ``tool_choice`` none there
    are no tools. Raises `RequestError` with the field's JSON path, for text that is no JSON too.
    """
    data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    data = data if isinstance(data, bytes) else encode_given(data, "body")
    if data.lstrip()[:1] == b"[":
        data = b'{"messages":' + data + b"}"
    request, names = decode(data, ChatRequest)
    with names.restored_in_errors():
        return conversation_of(request)


def read_turn_request(body: Mapping[str, Any]) -> TurnRequest:
    """The whole turn of a chat completions body, with its sampling, limits and tool choice.

    Raises `RequestError` for a field that only a server can honour, or that nobody knows.
    """
    request, names = decode(encode_given(body, "messages"), ChatRequest)
    stored = {"store"} if request.store else set()
    if refused_fields := sorted({*names.ignored, *stored, *(body.keys() & SERVER_FIELDS)}):
        raise refused(refused_fields[0], "a chat without a server cannot honour it.", code="unsupported_parameter")
    with names.restored_in_errors():
        return to_turn(request, Reading(OPENAI, Limits(), stream=bool(request.stream)))


def read_messages(messages: Sequence[Mapping[str, Any]], *, earlier: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Messages as chat APIs write them, after ``earlier`` ones, whose calls they may answer.

    Raises `RequestError` with the JSON path below ``messages``.
    """
    request, _ = decode(b'{"messages":' + encode_given(messages, "messages") + b"}", ChatRequest)
    return to_messages(request.messages, earlier=earlier)


def conversation_of(request: ChatRequest) -> Conversation:
    """The conversation of a request that is decoded already. Raises `RequestError` with the field's path."""
    return to_turn(request, Reading(OPENAI, Limits(), stream=bool(request.stream))).conversation


def write_messages(messages: Iterable[Message]) -> list[JsonObject]:
    """The chat messages of a conversation: the frames of an assistant's turn are one chat message.

    A call without an id gets one by its position (``call_0``). Raises `RenderError` for content that only Harmony has.
    """
    writer = ChatMessageWriter()
    elements = [element for message in messages for element in writer.write(message)]
    return [element.value for element in (*elements, *writer.close())]


def write_chat(conversation: Conversation) -> JsonObject:
    """The body of a chat request: messages, and where they are given tools, response format and reasoning effort.

    What chat JSON has no place for (channels of its own, built-in tools) is left out; `antiphon.convert` lists it.
    """
    return {"messages": write_messages(conversation.messages), **settings_json(conversation)}
