"""Completions in Databricks' dialect: batches, echo, suffix, and prompts that are too long."""

from __future__ import annotations

from typing import Any

import pytest

from kit.api import app, running, scripted
from kit.databricks import HELLO, invoke, refusal


@pytest.mark.spec("DBX-83", "DBX-84", "DBX-97", "DBX-98", "DBX-99", "DBX-100", "DBX-102", "DBX-103", "DBX-104")
def test_each_prompt_of_a_batch_has_its_choices_under_its_own_index(base: str) -> None:
    answer = invoke(base, prompt=["a", "b", "c"], n=2, stream=False).json
    again = invoke(base, prompt="a", stream=False).json
    assert answer["id"] != again["id"]
    assert (answer["object"], answer["created"], answer["model"]) == ("text_completion", 1_700_000_000, "small")
    assert [choice["index"] for choice in answer["choices"]] == [0, 0, 1, 1, 2, 2]
    assert {(choice["text"], choice["finish_reason"]) for choice in answer["choices"]} == {("Hello", "stop")}
    assert len(again["choices"]) == 1
    for bad in (None, [], 1, [""]):
        assert "prompt" in refusal(invoke(base, prompt=bad, stream=False))


@pytest.mark.spec("DBX-94", "DBX-95")
def test_echo_comes_before_the_completion_and_the_suffix_after_it(base: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "Hello"),
        ({"suffix": "", "echo": False}, "Hello"),
        ({"suffix": "!"}, "Hello!"),
        ({"echo": True}, "HiHello"),
        ({"echo": True, "suffix": "!"}, "HiHello!"),
    ]
    for fields, text in cases:
        assert invoke(base, prompt="Hi", stream=False, **fields).json["choices"][0]["text"] == text
        streamed = invoke(base, prompt="Hi", stream=True, **fields).events[:-1]
        assert "".join(choice["text"] for event in streamed for choice in event["choices"]) == text


@pytest.mark.spec("DBX-90")
@pytest.mark.parametrize("task", [{"messages": [{"role": "user", "content": "x" * 200}]}, {"prompt": "x" * 200}])
def test_a_prompt_that_is_too_long_is_an_error_or_an_answer_cut_to_nothing(task: dict[str, Any]) -> None:
    """Resolution X-27: in chats too."""
    with running(app(scripted(HELLO, context=100))) as base:
        for behavior in (None, "error"):
            assert "219 tokens" in refusal(invoke(base, **task, stream=False, error_behavior=behavior))
        cut = invoke(base, **task, stream=False, error_behavior="truncate")
        assert cut.json["choices"][0]["finish_reason"] == "length"
        assert cut.json["usage"]["completion_tokens"] == 0
        assert "error_behavior" in refusal(invoke(base, **task, error_behavior="ignore"))
