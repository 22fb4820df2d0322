"""Rows of data sets for tests, and models whose renderers fail; processes find these by their names."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.conversation import Conversation
from antiphon.conversion.datasets.columns import Sample, TrainOn
from antiphon.conversion.datasets.work import TrainedModel
from antiphon.errors import ModelError
from antiphon.training import Renderer

FUNCTION: dict[str, Any] = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
TOOL = {"type": "function", "function": FUNCTION}


def said(*turns: tuple[str, str], **more: Any) -> dict[str, Any]:
    """A row of chat JSON with these roles and texts."""
    return {"messages": [{"role": role, "content": text} for role, text in turns], **more}


def called(arguments: Any = '{"city": "Rome"}', *, name: str = "weather", result: bool = True) -> dict[str, Any]:
    """A row with a call, with its result or without one, and an answer."""
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    answer = [{"role": "tool", "tool_call_id": "c1", "content": "Sun."}] if result else []
    messages = [
        {"role": "user", "content": "Rome?"},
        {"role": "assistant", "content": None, "reasoning": "I must look.", "tool_calls": [call]},
        *answer,
        {"role": "assistant", "content": "Sunny."},
    ]
    return {"messages": messages, "tools": [TOOL]}


def jsonl(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def harmony() -> TrainedModel:
    """gpt-oss's format and vocabulary, which need no file of a model."""
    renderer = Renderer("harmony")
    return TrainedModel(renderer, [control.spelling for control in renderer.tokenizer.controls], "harmony")


class FailingRenderer:
    """Renders as Harmony's, but for rows whose first text says what happens to them."""

    def __init__(self) -> None:
        self._renderer = harmony().renderer

    def sample(
        self, conversation: Conversation, *, train_on: TrainOn = "all", weights: Mapping[int, float] | None = None
    ) -> Sample:
        match conversation.messages[0].text:
            case "die":
                os._exit(9)
            case "wait":
                threading.Event().wait()
            case "raise":
                raise KeyError("template")
        return self._renderer.sample(conversation, train_on=train_on, weights=weights)


def missing() -> TrainedModel:
    """No model at all."""
    raise ModelError("no such model", code="model_not_here")


def failing() -> TrainedModel:
    return TrainedModel(FailingRenderer(), (), "failing")
