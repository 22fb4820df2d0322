"""Messages as their clients read them: events by name, put together again, and the checks that all must stand."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel

from kit.api import Got, post

Fields = dict[str, Any]
USER: Fields = {"role": "user", "content": "Hi"}
WEATHER: Fields = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
THINKING: Fields = {"type": "adaptive"}
_KINDS: dict[str, type[BaseModel]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(RawMessageStreamEvent)[0])
}


def message(base: str, **fields: Any) -> Got:
    """A message that answers ``Hi``, of at most 200 tokens, unless the fields say otherwise."""
    return post(base, "/v1/messages", **{"max_tokens": 200, "messages": [USER], **fields})


def events_of(got: Got) -> list[Any]:
    """The events, each under the name that is its type; pings are left out."""
    assert got.status == 200, got.body
    assert got.headers["content-type"].startswith("text/event-stream")
    events = []
    for text in got.body.decode().removesuffix("\n\n").split("\n\n"):
        name, _, data = text.partition("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return [event for event in events if event["type"] != "ping"]


def checked(answer: Any) -> Any:
    """A whole message, which the client's own types take strictly."""
    Message.model_validate(answer, strict=True)
    assert all(block["text"] for block in answer["content"] if block["type"] == "text")
    assert all(block["signature"] for block in answer["content"] if block["type"] == "thinking")
    assert answer.keys() >= {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
    return answer


def accumulated(events: list[Any]) -> Any:
    """The message that a client puts together; the order of the events is checked on the way."""
    first, *middle, delta, last = events
    assert (first["type"], delta["type"], last["type"]) == ("message_start", "message_delta", "message_stop")
    for event in events:
        if event["type"] in _KINDS:
            _KINDS[event["type"]].model_validate(event, strict=True)
    message, open = json.loads(json.dumps(first["message"])), False
    for event in middle:
        match event["type"]:
            case "content_block_start":
                assert not open
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"] | {"arguments": ""})
            case "content_block_delta":
                assert open
                _grow(message["content"][event["index"]], event["delta"])
            case "content_block_stop":
                assert event["index"] == len(message["content"]) - 1
            case kind:
                raise AssertionError(kind)
        open = event["type"] != "content_block_stop"
    assert not open
    for block in message["content"]:
        arguments = block.pop("arguments")
        if block["type"] in ("tool_use", "server_tool_use"):
            block["input"] = json.loads(arguments or "{}")
    return message | delta["delta"] | {"usage": delta["usage"]}


def _grow(block: Any, delta: Any) -> None:
    match block["type"], delta["type"]:
        case "text", "text_delta":
            block["text"] += delta["text"]
        case "thinking", "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "thinking", "signature_delta":
            block["signature"] = delta["signature"]
        case "tool_use" | "server_tool_use", "input_json_delta":
            block["arguments"] += delta["partial_json"]
        case kinds:
            raise AssertionError(kinds)


def without_ids(value: Any) -> Any:
    """Two answers differ in their ids and signatures, and in nothing else."""
    text = re.sub(r'"(msg|toolu|srvtoolu)_[A-Za-z0-9_-]+"', r'"\1_…"', json.dumps(value))
    return json.loads(re.sub(r'"(signature|encrypted_content)": "[^"]+"', r'"\1": "…"', text))
