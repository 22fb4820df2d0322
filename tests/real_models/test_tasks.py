"""The tasks that real models get are sound: what they expect can be said, and no right answer is called wrong."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from real_models.questions import CHOICES, PATTERNS, QUESTIONS, VALUES
from real_models.rows import ROWS
from real_models.sides import Json, read_answer
from real_models.tool_tasks import CALLS, LOOPS, PLAIN, TASKS, Task, fits, like
from real_models.weights import MODELS, pinned


def said(wanted: Any) -> Any:
    """A value that is as expected: the first alternative, and of a pattern its own words."""
    match wanted:
        case tuple():
            return said(wanted[0])
        case re.Pattern():
            words = re.sub(r"\(.*?\)\?|\\[s]\*|[\^$?]|\\(?=[.*+/()])", "", wanted.pattern).split("|")[0]
            return words.replace("src/app/", "src/app").strip("/")
        case list():
            return [said(one) for one in wanted]
        case dict():
            return {name: said(one) for name, one in wanted.items()}
    return wanted


def test_there_are_enough_tasks_of_each_kind() -> None:
    assert len(CALLS) >= 50
    assert len(PLAIN) >= 12
    assert len({task.ask for task in TASKS}) == len(TASKS)
    assert {len(task.tools) for task in TASKS} >= {1, 2, 3, 4, 5, 6, 8}


@pytest.mark.parametrize("task", CALLS, ids=lambda task: task.ask)
def test_what_a_task_expects_is_right_by_its_own_schema(task: Task) -> None:
    assert task.name is not None
    assert task.wants(task.name, json.dumps(said(dict(task.arguments))))


@pytest.mark.parametrize("task", CALLS, ids=lambda task: task.ask)
def test_another_tool_and_arguments_that_are_no_json_are_wrong(task: Task) -> None:
    assert not task.wants("another", json.dumps(said(dict(task.arguments))))
    assert not task.wants(str(task.name), "Paris")


def test_a_loop_expects_calls_of_its_own_tools_only() -> None:
    offered = [{tool["function"]["name"] for tool in loop.tools} for loop in LOOPS]
    for loop, names in zip(LOOPS, offered, strict=True):
        assert {turn.name for turn in loop.turns if turn.name} <= names


@pytest.mark.parametrize(
    ("wanted", "given", "right"),
    [
        ("Oslo", " oslo", True),
        ("Oslo", "Oslo, Norway", False),
        (like("^oslo"), "Oslo, Norway", True),
        (5, 5.0, True),
        (5, True, False),
        (True, 1, False),
        ((500, "500"), "500", True),
        ([1, 2], [1], False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"b": 2}, False),
    ],
)
def test_a_value_is_compared_by_what_was_expected(wanted: Any, given: Any, right: bool) -> None:
    assert fits(wanted, given) is right


def test_right_values_match_their_schemas_patterns_and_choices() -> None:
    for _, schema, right in VALUES:
        jsonschema_rs.validate({**schema, "required": list(right)}, right)
    for ask, pattern, _, right in PATTERNS:
        assert re.fullmatch(pattern, right), ask
    for ask, choices, right in CHOICES:
        assert right in choices, ask
    for _, pattern in QUESTIONS:
        re.compile(pattern)


def test_a_streamed_answer_is_put_together_as_the_whole_one_is() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    message = {"role": "assistant", "content": "Hi", "tool_calls": [call]}
    whole = read_answer([{"choices": [{"message": message, "finish_reason": "tool_calls"}]}])
    deltas: list[Json] = [
        {"content": "H"},
        {"content": "i"},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ]
    chunks: list[Json] = [{"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    streamed = read_answer([*chunks, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}])
    assert streamed.said == whole.said == ("Hi", (("f", '{"a": 1}'),), "tool_calls", None)
    assert streamed.message["tool_calls"] == whole.message["tool_calls"]


def test_every_wheel_is_pinned_by_a_hash_and_every_row_has_a_name_of_its_own() -> None:
    for package in (package for weights in MODELS for package in weights.packages):
        assert re.fullmatch(rf"{package}==[\d.]+\s+--hash=sha256:[0-9a-f]{{64}}", pinned(package)), package
    assert len({row.name for row in ROWS}) == len(ROWS)
