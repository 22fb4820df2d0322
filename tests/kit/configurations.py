"""The thirteen kinds of reply that are requested of a model, and how each is judged when it is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs

from antiphon.conversation import (
    Conversation,
    FinishReason,
    Message,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolSpec,
    visible_to_user,
)
from antiphon.generation import Reply, TurnRequest

MOST = 160
"""Tokens of a reply."""
THINKING = 40
"""Characters of a thought and of a preamble: a small model goes on up to any limit."""
TEXT = 100
"""Characters of a free answer, for the odd seeds: so enough of them end. The even ones say what they like."""

ADD = ToolSpec(
    "add",
    "Adds two numbers.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 999},
            "b": {"type": "integer", "minimum": 0, "maximum": 999},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
WEATHER = ToolSpec(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 24}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER, ADD)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["new", "old", "odd"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
CONSTRAINED_PERSON = ResponseFormat("json_schema", schema=PERSON, strict=True)
ASK = Message(role=Role.USER, text="What is the weather in Paris, and what is 17 + 25? Who asked? Answer briefly.")

Kind = Literal["parse", "schema", "tool_choice", "reason"]
"""What a reply can be wrong in."""


@dataclass(frozen=True)
class Configuration:
    """What is required of a reply; ``shape`` are the fields of its `ReplyShape` that no request has.

    ``closed``: the model's own end tokens are forbidden, so an answer ends with a control that is spelled out.
    """

    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    parallel: bool = True
    answer: ResponseFormat = field(default_factory=ResponseFormat)
    shape: Mapping[str, Any] = field(default_factory=dict)
    closed: bool = False

    def request(self, seed: int, bias: Mapping[int, float]) -> TurnRequest:
        return TurnRequest(
            conversation=Conversation((ASK,), tools=self.tools, response_format=self.answer),
            tool_choice=self.choice,
            parallel_tool_calls=self.parallel,
            temperature=1.0,
            max_tokens=MOST,
            seed=seed,
            logit_bias=bias if self.closed else {},
        )

    def shape_of(self, seed: int) -> Mapping[str, Any]:
        """What is added to the shape of the request with this seed."""
        return {**self.shape, "max_text": TEXT} if seed % 2 else self.shape

    def faults(self, reply: Reply) -> list[tuple[Kind, str]]:
        """What a finished reply lacks."""
        calls = [message for message in reply.messages if message.is_call]
        answers = [m for m in reply.messages if not m.is_call and visible_to_user(m) and not m.is_preamble]
        most = 0 if self.choice.mode == "none" or not self.tools else 4 if self.parallel else 1
        may_be_empty = self.answer.kind == "text"
        cases: dict[tuple[Kind, str], bool] = {
            ("parse", "a call or an answer"): bool(calls) is not bool(answers) or (may_be_empty and not calls),
            ("parse", "an id for each call"): len({call.call_id for call in calls}) == len(calls),
            ("parse", "reasoning"): self._thinks(reply),
            ("parse", "no incident"): not reply.incidents,
            ("tool_choice", "the call that is required"): bool(calls) or self.choice.mode != "required",
            ("tool_choice", "no more calls than may be"): len(calls) <= most,
            ("tool_choice", "a tool that may be called"): all(self._tool(call) is not None for call in calls),
            ("schema", "the arguments"): all(map(self._fits, calls)),
            ("schema", "the form"): all(self._has_form(answer.text) for answer in answers),
            ("reason", "tool_calls or stop"): reply.reason
            is (FinishReason.TOOL_CALL if calls else FinishReason.STOP_EOS),
        }
        return [what for what, there in cases.items() if not there]

    def _thinks(self, reply: Reply) -> bool:
        return any(m.channel == "analysis" for m in reply.messages) or not self.shape.get("reasoning")

    def _tool(self, call: Message) -> ToolSpec | None:
        named = self.choice.names
        offered = {tool.recipient: tool for tool in self.tools if not named or tool.name in named}
        return offered.get(str(call.recipient))

    def _fits(self, call: Message) -> bool:
        tool = self._tool(call)
        return tool is None or _valid(tool.parameters or {}, call.text)

    def _has_form(self, text: str) -> bool:
        match self.answer.kind:
            case "text":
                return True
            case "json_object":
                return _valid({"type": "object"}, text)
            case "json_schema":
                return _valid(self.answer.schema or {}, text)
            case "regex" | "grammar":  # the pattern says in other words what the grammar does
                return re.fullmatch(str(self.answer.pattern), text) is not None
            case "choice":
                return text in self.answer.choices


def _valid(schema: Any, text: str) -> bool:
    try:
        return jsonschema_rs.is_valid(schema, json.loads(text))
    except ValueError:
        return False


REQUIRED = ToolChoice("required")
THINK_FIRST = {"reasoning": "required"}
CONFIGURATIONS = {
    "auto": Configuration(TOOLS),
    "auto, thinks first": Configuration(TOOLS, shape=THINK_FIRST),
    "none": Configuration(TOOLS, ToolChoice("none")),
    "required": Configuration(TOOLS, REQUIRED),
    "required, one call, no preamble": Configuration(TOOLS, REQUIRED, parallel=False, shape={"preambles": False}),
    "named": Configuration(TOOLS, ToolChoice("required", ("add",))),
    "auto, or a schema": Configuration(TOOLS, answer=CONSTRAINED_PERSON),
    "an answer that is closed": Configuration(closed=True),
    "a schema": Configuration(answer=CONSTRAINED_PERSON),
    "thinks, then a schema": Configuration(answer=CONSTRAINED_PERSON, shape=THINK_FIRST),
    "a pattern": Configuration(answer=ResponseFormat("regex", pattern="[A-Z]{3}-[0-9]{4}")),
    "a choice": Configuration(answer=ResponseFormat("choice", choices=("yes", "no", "maybe"))),
    "any object": Configuration(answer=ResponseFormat("json_object")),
}
