"""Chat completions that are stored: as they are read again, and with the messages that they answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from antiphon.wire.errors import refused

from .messages import arguments_text
from .schema import (
    AnswerToolCall,
    CalledFunction,
    ChatCompletion,
    ChatMessage,
    ChatRequest,
    ContentPart,
    FunctionCall,
)


class StoredChatCompletion(ChatCompletion, frozen=True, kw_only=True):
    """A completion as it was answered, with the caller's pairs."""

    metadata: dict[str, str]


class ChatCompletionUpdate(msgspec.Struct, kw_only=True):
    """All that can be changed. Null: no pairs."""

    metadata: dict[str, str] | None


class ChatCompletionList(msgspec.Struct, frozen=True, kw_only=True):
    """A page; the ids are empty where it is."""

    object: Literal["list"] = "list"
    data: list[StoredChatCompletion]
    first_id: str
    last_id: str
    has_more: bool


class DeletedChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["chat.completion.deleted"] = "chat.completion.deleted"
    deleted: bool = True


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the request. ``content`` is its text; ``content_parts`` the parts, where it came in parts."""

    id: str
    role: str
    content: str | None
    name: str | None = None
    content_parts: list[dict[str, str]] | None = None
    tool_calls: list[AnswerToolCall] | msgspec.UnsetType = msgspec.UNSET
    function_call: CalledFunction | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET
    refusal: str | msgspec.UnsetType = msgspec.UNSET
    reasoning: str | msgspec.UnsetType = msgspec.UNSET
    reasoning_content: str | msgspec.UnsetType = msgspec.UNSET


def stored_messages(id: str, messages: Sequence[ChatMessage]) -> list[StoredMessage]:
    """The messages that the completion ``id`` answered; each has its number in its id."""
    return [_stored(f"{id}-{i}", message) for i, message in enumerate(messages)]


def _stored(id: str, message: ChatMessage) -> StoredMessage:
    content = message.content
    calls = [AnswerToolCall(id=call.id, function=_function(call.function)) for call in message.tool_calls or ()]
    return StoredMessage(
        id=id,
        role=message.role,
        content=content if isinstance(content, str | None) else "".join(map(_text, content)),
        name=message.name,
        content_parts=[_part(part) for part in content] if isinstance(content, list) else None,
        tool_calls=calls or msgspec.UNSET,
        function_call=_function(message.function_call) if message.function_call else msgspec.UNSET,
        tool_call_id=message.tool_call_id or msgspec.UNSET,
        refusal=message.refusal or msgspec.UNSET,
        reasoning=message.reasoning or msgspec.UNSET,
        reasoning_content=message.reasoning_content or msgspec.UNSET,
    )


def _function(function: FunctionCall) -> CalledFunction:
    return CalledFunction(function.name, arguments_text(function.arguments, "arguments"))


def _text(part: ContentPart) -> str:
    return (part.refusal if part.type == "refusal" else part.text) or ""


def _part(part: ContentPart) -> dict[str, str]:
    return {"type": part.type, "refusal" if part.type == "refusal" else "text": _text(part)}


def metadata_of(wire: ChatRequest) -> dict[str, str]:
    """The pairs that are stored with a completion. Raises `RequestError` for a value that is no text."""
    pairs: dict[str, str] = {}
    for key, value in (wire.metadata or {}).items():
        if not isinstance(value, str):
            raise refused("metadata", f"the value of {key[:64]!r} must be a text.", code="invalid_type")
        pairs[key] = value
    return pairs
