"""Reasoning before the answer, over HTTP: each object of a constrained reply keeps the order of its own schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.api import post_in_process
from kit.masked import FORMATS, masked_app

BEFORE: dict[str, Any] = {
    "reasoning": {"type": "string", "maxLength": 20},
    "answer": {"type": "string", "maxLength": 10},
}
AFTER = {name: BEFORE[name] for name in reversed(BEFORE)}


def object_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


SCHEMA = object_of(
    {
        "summary": object_of(AFTER),
        "step": object_of(BEFORE),
        "note": {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
    }
)
ORDER = {"summary": ["answer", "reasoning"], "step": ["reasoning", "answer"]}


def order_of(text: str) -> dict[str, list[str]]:
    return {name: list(value) for name, value in json.loads(text).items() if isinstance(value, dict)}


@pytest.mark.parametrize("name", FORMATS)
async def test_an_answer_reasons_first_where_its_schema_does(name: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}}
    messages = [{"role": "user", "content": "Is 7 prime? And is 9?"}]
    got = await post_in_process(
        masked_app(), "/v1/chat/completions", model=name, messages=messages, response_format=form
    )
    assert got.status == 200, got.body
    assert order_of(got.json["choices"][0]["message"]["content"]) == ORDER


@pytest.mark.parametrize("name", FORMATS)
async def test_so_do_the_arguments_of_a_call(name: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": SCHEMA}}
    messages = [{"role": "user", "content": "Is 7 prime? And is 9?"}]
    got = await post_in_process(
        masked_app(), "/v1/chat/completions", model=name, messages=messages, tools=[tool], tool_choice="required"
    )
    assert got.status == 200, got.body
    call, *_ = got.json["choices"][0]["message"]["tool_calls"]
    assert order_of(call["function"]["arguments"]) == ORDER
