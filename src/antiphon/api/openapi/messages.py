"""Anthropic's Messages in the API document."""

from __future__ import annotations

from typing import Any

from antiphon.wire.messages.answer_schema import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    MessageAnswer,
    MessageDelta,
    MessageStart,
    MessageStop,
    MessageTokens,
    Ping,
)
from antiphon.wire.messages.errors import MessagesError
from antiphon.wire.messages.schema import MessagesRequest, MessageTokensRequest

from .parts import Described, schema

_EVENTS = (
    MessageStart, ContentBlockStart, ContentBlockDelta, ContentBlockStop, MessageDelta, MessageStop, Ping,
    MessagesError,
)  # fmt: skip
_KINDS = (MessagesRequest, MessageTokensRequest, MessageAnswer, MessageTokens, *_EVENTS)


def messages_routes() -> Described:
    events = {"anyOf": [schema(kind)["schema"] for kind in _EVENTS]}
    stream = {"contentMediaType": "application/json", "contentSchema": events, "type": "string"}
    names = {"type": "string"}
    event = {"type": "object", "properties": {"event": names, "data": stream}, "required": ["event", "data"]}
    made = _operation("Goes on with a conversation.", MessageAnswer, MessagesRequest)
    made["responses"]["200"]["content"]["text/event-stream"] = {"schema": event}
    return Described(
        _KINDS,
        {
            "/v1/messages": {"post": made},
            "/v1/messages/count_tokens": {
                "post": _operation("Counts the tokens of a message's prompt.", MessageTokens, MessageTokensRequest)
            },
        },
    )


def _operation(summary: str, answer: type, body: type) -> dict[str, Any]:
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": schema(body)}},
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": schema(answer)}},
            "default": {"description": "An error.", "content": {"application/json": schema(MessagesError)}},
        },
    }
