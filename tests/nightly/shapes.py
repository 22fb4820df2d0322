"""Histories that prompts are compared in, and shapes of replies that are written and read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


def _tool(name: str, **parameters: Any) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": f"Does {name}.", "parameters": schema}}


TOOLS = [
    _tool("get_weather", city="string", days="integer", exact="boolean"),
    _tool("save_note", text="string", tags="array", meta="object", ratio="number", missing="null"),
    _tool("get_time"),
]


def _described(tool: dict[str, Any]) -> dict[str, Any]:
    properties = tool["function"]["parameters"]["properties"]
    kept = {key: value | {"description": f"The {key}."} for key, value in properties.items() if key != "missing"}
    return {**tool, "function": tool["function"] | {"parameters": {"type": "object", "properties": kept}}}


DESCRIBED = [_described(tool) for tool in TOOLS]
"""The tools for templates that want a description of each parameter, or know no null."""

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Shape:
    """A reply as a client gets it."""

    name: str
    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()

    @property
    def message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [called(i, name, given) for i, (name, given) in enumerate(self.calls)]
        return message


def called(index: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"callabcd{index}",
        "type": "function",
        "function": {"name": name, "arguments": json.loads(json.dumps(arguments))},
    }


WEATHER: Call = ("get_weather", {"city": "Bonn"})
CODE = 'def f(x):\n\tif x < 3 and x > 1:\n        return {"a": [1, "b"]}\n    # "quoted" \\n\n'


def _note(text: str) -> tuple[Call, ...]:
    return (("save_note", {"text": text}),)


SHAPES = (
    Shape("answer", text="Bonn is sunny today."),
    Shape("thought", "They want weather.", "Bonn is sunny today."),
    Shape("call", calls=(WEATHER,)),
    Shape("thought and call", "They want weather.", calls=(WEATHER,)),
    Shape("text and call", text="Looking it up now.", calls=(WEATHER,)),
    Shape("thought, text and call", "They want weather.", "Looking it up now.", (WEATHER,)),
    Shape("two calls", calls=(WEATHER, ("get_weather", {"city": "Köln", "days": 3}))),
    Shape("thought, text and two calls", "They want both.", "Looking it up now.", (WEATHER, ("get_time", {}))),
    Shape("two tools", calls=(WEATHER, ("save_note", {"text": "sunny", "tags": ["a", "b"]}))),
    Shape("no arguments", calls=(("get_time", {}),)),
    Shape("numbers and words", calls=(("get_weather", {"city": "Bonn", "days": -3, "exact": True}),)),
    Shape("nested", calls=(("save_note", {"meta": {"a": {"b": [1, {"c": None}], "d": "x y"}}, "tags": [[], ["q"]]}),)),
    Shape("numbers", calls=(("save_note", {"ratio": 2.5, "tags": [0, -0.5, 1e21], "missing": None}),)),
    Shape("text that looks like JSON", calls=_note('{"name": "get_time", "arguments": {}}')),
    Shape("texts that look like values", calls=(("save_note", {"text": "42"}), ("save_note", {"text": "true"}))),
    Shape("code", calls=_note(CODE.strip())),
    Shape("code with blanks round it", calls=_note("  padded line\n")),
    Shape("odd text", calls=_note("a\\b \"c\" 'd' & <e> {f} [g] = h, i: j; k|l ]} )")),
    Shape("unicode", calls=_note("naïve 東京 🌸 👩‍💻 مرحبا")),
    Shape("an empty text", calls=_note("")),
    Shape("a long text", calls=_note("\n".join(f"{i:03d}: the quick brown fox, café." for i in range(40)))),
    Shape("an answer that is JSON", text='{"name": "nobody", "age": 3}'),
    Shape("an answer with tags", text="Use <b>bold</b> and `code`:\n\n```html\n<p>a &amp; b</p>\n```\nThat is all."),
    Shape("a thought of several lines", "First: look.\n\nThen: think, {a: 1}.\n- done", "Sunny, I think."),
)

_ASK = {"role": "user", "content": "What is the weather in Bonn?"}
_SYSTEM = {"role": "system", "content": "You are brief."}
_CALL = Shape("", "They want weather.", "", (WEATHER,)).message
_TWO = Shape("", "", "Both at once.", (WEATHER, ("get_time", {}))).message


def _result(index: int, text: str) -> dict[str, Any]:
    name = ("get_weather", "get_time")[index]
    return {"role": "tool", "tool_call_id": f"callabcd{index}", "name": name, "content": text}


_ANSWER = {"role": "assistant", "content": "It is sunny.", "reasoning_content": "Sunny, says the tool."}
HISTORIES: tuple[tuple[str, list[Any], list[Any]], ...] = (
    ("a question", [_ASK], []),
    ("a question under a system", [_SYSTEM, _ASK], []),
    ("tools", [_ASK], TOOLS),
    ("tools under a system", [_SYSTEM, _ASK], TOOLS),
    ("an answer", [_ASK, {"role": "assistant", "content": "Sunny."}, {"role": "user", "content": "And now?"}], []),
    ("a thought", [_ASK, _ANSWER, {"role": "user", "content": "And now?"}], []),
    ("a result", [_ASK, _CALL, _result(0, "sunny")], TOOLS),
    ("a result that is JSON", [_ASK, _CALL, _result(0, '{"sky": "clear", "t": [1, 2]}')], TOOLS),
    ("two results", [_SYSTEM, _ASK, _TWO, _result(0, "sunny"), _result(1, "12:00")], TOOLS),
    ("a round and an answer", [_ASK, _CALL, _result(0, "sunny"), _ANSWER], TOOLS),
    ("a second round", [_ASK, _CALL, _result(0, "sunny"), _ANSWER, {"role": "user", "content": "Köln?"}], TOOLS),
    ("rounds in a row", [_ASK, _CALL, _result(0, "sunny"), _CALL, _result(0, "grey")], TOOLS),
)
