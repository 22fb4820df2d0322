"""Anthropic's Messages in the API document."""

from __future__ import annotations

from typing import Any

from antiphon.api.errors import MessagesError
from antiphon.api.openapi.parts import Described, named, schema

from .answer_schema import (
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
from .batches import MOST, DeletedMessageBatch, MessageBatch, MessageBatchCreate, MessageBatchList, MessageResult
from .schema import MessagesRequest, MessageTokensRequest

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
    made = _operation("Continues a conversation.", MessageAnswer, MessagesRequest)
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


def message_batch_paths() -> Described:
    """Batches of messages, where files and batches are on."""
    one, base = [named("id")], "/v1/messages/batches"
    listed = _operation("The batches of messages.", MessageBatchList)
    kinds = {"limit": {"type": "integer", "minimum": 1, "maximum": MOST}}
    listed["parameters"] = [
        {"name": name, "in": "query", "schema": kinds.get(name, {"type": "string"})}
        for name in ("limit", "after_id", "before_id")
    ]
    results = _operation("A line for each request of a batch that has ended.", MessageResult)
    content = results["responses"]["200"]["content"]
    content["application/x-jsonl"] = content.pop("application/json")
    return Described(
        (MessageBatchCreate, MessageBatch, MessageBatchList, DeletedMessageBatch, MessageResult, MessagesError),
        {
            base: {"get": listed, "post": _operation("Makes a batch.", MessageBatch, MessageBatchCreate)},
            f"{base}/{{id}}": {
                "parameters": one,
                "get": _operation("One batch.", MessageBatch),
                "delete": _operation("Deletes a batch that has ended.", DeletedMessageBatch),
            },
            f"{base}/{{id}}/cancel": {"parameters": one, "post": _operation("Cancels a batch.", MessageBatch)},
            f"{base}/{{id}}/results": {"parameters": one, "get": results},
        },
    )


def _operation(summary: str, answer: type, body: type | None = None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "The answer.", "content": {"application/json": schema(answer)}},
            "default": {"description": "An error.", "content": {"application/json": schema(MessagesError)}},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": schema(body)}}
    return operation
