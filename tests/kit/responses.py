"""Two models with scripted replies, and the checks that every response must stand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, get_args

from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import ResponseStreamEvent
from pydantic import BaseModel
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.engines.scripted import Script
from antiphon.formats.harmony import Harmony
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control, Piece
from kit.api import Got, request, sampled, scripted
from kit.api import model as chatml_model

HARMONY = Harmony()
VOCABULARY = ByteTokenizer(HARMONY.controls)
START, CHANNEL, CONSTRAIN, MESSAGE, END, CALL, RETURN = (
    Control(f"<|{name}|>") for name in ("start", "channel", "constrain", "message", "end", "call", "return")
)
THOUGHT: tuple[Piece, ...] = (CHANNEL, "analysis", MESSAGE, "The user wants the weather.", END)
PREAMBLE: tuple[Piece, ...] = (START, "assistant", CHANNEL, "commentary", MESSAGE, "Let me look.", END)
WEATHER: tuple[Piece, ...] = (
    START, "assistant to=functions.weather", CHANNEL, "commentary ", CONSTRAIN, "json",
    MESSAGE, '{"city": "Bern"}', CALL,
)  # fmt: skip
FINAL: tuple[Piece, ...] = (START, "assistant", CHANNEL, "final", MESSAGE, "It is sunny in Bern.", RETURN)
WEATHER_TOOL: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
REQUIRED = {
    "id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "metadata", "model",
    "output", "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p", "completed_at",
    "previous_response_id", "truncation", "text", "presence_penalty", "frequency_penalty", "top_logprobs", "reasoning",
    "user", "usage", "max_output_tokens", "max_tool_calls", "store", "background", "service_tier",
    "safety_identifier", "prompt_cache_key",
}  # fmt: skip
"""Keys that a response always has, whatever was requested."""

_EVENTS: dict[str, type[BaseModel]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}


def harmony_ids(*pieces: Piece) -> list[int]:
    """What gpt-oss samples to say these pieces."""
    return sampled(VOCABULARY, pieces)


def turns(*replies: Sequence[int]) -> Script:
    """One reply after the other, the last for ever."""
    left = list(replies)

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        return left.pop(0) if len(left) > 1 else left[0]

    return script


def responses_app(small: ScriptedEngine | None = None, oss: ScriptedEngine | None = None, **options: Any) -> Starlette:
    """An application over a ChatML model, ``small``, and a Harmony model, ``oss``."""
    models: dict[str, Model] = {}
    if oss is not None:
        models["oss"] = Model(name="oss", engine=oss, tokenizer=VOCABULARY, format=HARMONY)
    if small is not None:
        models["small"] = chatml_model(small)
    return create_app(StaticCatalog(models), **options)


def oss_app(script: Script | Sequence[int], **options: Any) -> Starlette:
    return responses_app(oss=scripted(script), **options)


def respond(base: str, body: dict[str, Any] | None = None, **headers: str) -> Got:
    """POST /v1/responses, by default with one user message."""
    body = {"input": "What is the weather in Bern?", **(body or {})}
    return request(base, "POST", "/v1/responses", json.dumps(body).encode(), content_type="application/json", **headers)


def events_of(got: Got) -> list[Any]:
    """The events of a stream, each checked: its name is its type, the client's types know it, the numbers count."""
    assert got.status == 200, got.body
    blocks = got.body.decode().split("\n\n")
    assert blocks[-1] == ""
    assert blocks[-2] == "data: [DONE]", "the stream must end with [DONE]"
    events = []
    for number, block in enumerate(part for part in blocks[:-2] if not part.startswith(":")):
        *id, name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert id in ([], [f"id: {number}"]), f"where events have ids, these are their numbers: {got.body!r}"
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number
        checked_event(event)
        events.append(event)
    return events


def checked_event(event: dict[str, Any]) -> None:
    assert event["type"] in _EVENTS, "clients break on events that they do not know"
    _EVENTS[event["type"]].model_validate(event, strict=True)
    if "response" in event:
        checked_response(event["response"])


def checked_response(response: dict[str, Any]) -> dict[str, Any]:
    """The response, which has every key and which the client's types know."""
    assert response.keys() >= REQUIRED, REQUIRED - response.keys()
    OpenAIResponse.model_validate(response, strict=True)
    return response


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])
