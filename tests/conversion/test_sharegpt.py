"""ShareGPT's JSON, as data sets have it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.conversion import Conversion
from antiphon.errors import ParseError

TOOL = {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}


def convert(value: object) -> tuple[dict[str, Any], list[str]]:
    losses: list[str] = []
    run = Conversion(to="chat", on_loss=lambda loss: losses.append(str(loss))).run([json.dumps(value).encode()])
    return json.loads(b"".join(run)), losses


def said(*turns: tuple[str, str]) -> list[dict[str, str]]:
    return [{"from": speaker, "value": value} for speaker, value in turns]


def test_who_speaks_is_a_role_and_the_system_text_comes_first() -> None:
    chat, losses = convert({"conversations": said(("human", "q"), ("gpt", "a")), "system": "S"})
    assert [(one["role"], one["content"]) for one in chat["messages"]] == [
        ("system", "S"), ("user", "q"), ("assistant", "a"),
    ]  # fmt: skip
    assert losses == []


@pytest.mark.parametrize("tools", [[TOOL], json.dumps([TOOL]), [{"type": "function", "function": TOOL}]])
def test_calls_and_what_came_of_them_belong_together(tools: Any) -> None:
    calls = json.dumps([{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": "{}"}])
    turns = said(("human", "q"), ("function_call", calls), ("observation", "1"), ("observation", "2"), ("gpt", "a"))
    chat, losses = convert({"conversations": turns, "tools": tools})
    called = chat["messages"][1]["tool_calls"]
    assert [call["function"] for call in called] == [
        {"name": "f", "arguments": '{"a": 1}'}, {"name": "g", "arguments": "{}"},
    ]  # fmt: skip
    assert [(one["tool_call_id"], one["content"]) for one in chat["messages"][2:4]] == [
        (called[0]["id"], "1"), (called[1]["id"], "2"),
    ]  # fmt: skip
    assert chat["tools"][0]["function"] == TOOL
    assert [loss for loss in losses if "derivable" not in loss] == []


def test_what_has_no_place_is_a_line() -> None:
    call = json.dumps({"name": "f", "arguments": {}, "y": 1})
    turns: list[dict[str, Any]] = [{"from": "human", "value": "q", "weight": 1}, *said(("function_call", call))]
    _, losses = convert({"conversations": turns, "id": 7, "tools": [{**TOOL, "z": 2}]})
    assert {"id: 7", "tools[0].z: 2", "conversations[0].weight: 1", "conversations[1].value.y: 1"} <= set(losses)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"conversations": said(("alien", "q"))}, r"conversations\[0\].from is 'alien'"),
        ({"conversations": [{"from": ["x"], "value": "q"}]}, r"conversations\[0\].from"),
        ({"conversations": [{"from": "human"}]}, r"conversations\[0\].value is no text"),
        ({"conversations": [3]}, r"conversations\[0\].value is no text"),
        ({"conversations": said(("function_call", "f()"))}, "is no JSON"),
        ({"conversations": said(("function_call", "{}"))}, "is no call with a name"),
        ({"conversations": [], "tools": "x"}, "tools is no JSON"),
        ({"conversations": [], "tools": [3]}, r"tools\[0\] is no function"),
        ({"conversations": [], "tools": [{"x": 1}]}, r"tools\[0\] is no function"),
        ({"conversations": [], "tools": {"x": 1}}, "tools is not a list"),
    ],
)
def test_what_is_no_such_json_is_refused_with_its_place(value: object, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        convert(value)
