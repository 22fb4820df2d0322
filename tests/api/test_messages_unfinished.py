"""What Messages clients are not shown of a turn is in its next prompts, id for id, and in no one else's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from antiphon.conversation import ToolNamespace
from antiphon.engines import ScriptedEngine
from antiphon.http.gate.keys import new_key
from antiphon.tools import Toolbox, ToolCall, ToolOutput
from antiphon.tools.call import DescribedToolSet
from kit.api import request, running
from kit.messages import Fields, accumulated, events_of
from kit.tool_loops import (
    ANSWER,
    PARAMETERS,
    QUESTION,
    REPLIES,
    THANKS,
    announcing,
    call,
    check_goes_on,
    check_loop,
    oss_app,
    plays,
    prompts,
    spelled,
    thinking,
)

ASKED: Fields = {"role": "user", "content": QUESTION}
TOOL: Fields = {"name": "weather", "input_schema": PARAMETERS}


@contextmanager
def served(*replies: str, **options: Any) -> Iterator[tuple[str, ScriptedEngine]]:
    engine = plays(*(replies or REPLIES))
    with running(oss_app(engine, **options)) as base:
        yield base, engine


def asked(base: str, messages: list[Fields], *, path: str = "/v1/messages", **fields: Any) -> Any:
    """The answer, in which there is nothing of what the model thought."""
    headers = {"x_api_key": fields.pop("key")} if "key" in fields else {}
    body = {"model": "oss", "max_tokens": 400, "messages": messages, "tools": [TOOL], **fields}
    got = request(base, "POST", path, json.dumps(body).encode(), content_type="application/json", **headers)
    assert got.status == 200, got.body
    answer = accumulated(events_of(got)) if fields.get("stream") else got.json
    assert "SECRET" not in json.dumps(answer)
    return answer


def said(content: Any) -> Fields:
    return {"role": "assistant", "content": content}


def result(answer: Any, *, id: str | None = None) -> Fields:
    used = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": id or one, "content": "dry"} for one in used],
    }


@pytest.mark.parametrize("fields", [{}, {"stream": True}, {"thinking": {"type": "adaptive"}}], ids=str)
def test_a_turn_goes_on_with_all_that_the_model_wrote(fields: Fields) -> None:
    with served() as (base, engine):
        messages = [ASKED]
        for _ in range(3):
            answer = asked(base, messages, **fields)
            assert answer["stop_reason"] == "tool_use"
            messages += [said(answer["content"]), result(answer)]
        answer = asked(base, messages, **fields)
        assert answer["content"][-1]["text"] == ANSWER
        asked(base, [*messages, said(answer["content"]), {"role": "user", "content": THANKS}], **fields)
    check_loop(engine)


def test_the_tokens_of_a_next_prompt_are_counted_with_it() -> None:
    with served() as (base, engine):
        answer = asked(base, [ASKED])
        messages = [ASKED, said(answer["content"]), result(answer)]
        counted = asked(base, messages, path="/v1/messages/count_tokens")["input_tokens"]
        asked(base, messages)
    assert counted == len(prompts(engine)[1])


TWO = thinking("SECRET 0.") + announcing("I look.") + call("Bern")
SAME: dict[str, Callable[[Any], list[Fields]]] = {
    "as it came": lambda content: [said(content)],
    "without its text": lambda content: [said(content[1:])],
    "block by block": lambda content: [said([block]) for block in content],
    "with marks of caches": lambda content: [
        said([{**one, "cache_control": {"type": "ephemeral"}} for one in content])
    ],
    "with an empty text": lambda content: [said([{"type": "text", "text": ""}, *content])],
    "the text alone before": lambda content: [said(content[0]["text"]), said(content[1:])],
    "the thought, as if it were shown": lambda content: [
        said([{"type": "thinking", "thinking": "SECRET 0.", "signature": ""}, *content])
    ],
}


@pytest.mark.parametrize("way", SAME)
def test_what_is_the_same_to_the_client_is_what_the_model_wrote(way: str) -> None:
    with served(TWO, REPLIES[4]) as (base, engine):
        answer = asked(base, [ASKED])
        asked(base, [ASKED, *SAME[way](answer["content"]), result(answer)])
    check_goes_on(engine, [TWO])


def changed(content: Any, **changes: Any) -> list[Fields]:
    return [said([content[0], {**content[1], **changes}])]


CHANGED: dict[str, tuple[Callable[[Any], list[Fields]], str]] = {
    "other arguments": (lambda content: changed(content, input={"city": "Basel"}), "Basel"),
    "another function": (lambda content: changed(content, name="rain"), "functions.rain"),
    "another text": (lambda content: [said([{"type": "text", "text": "No."}, content[1]])], "No."),
    "a thought of the client's own": (
        lambda content: [said([{"type": "thinking", "thinking": "Mine.", "signature": ""}, *content])],
        "Mine.",
    ),
}


@pytest.mark.parametrize("way", CHANGED)
def test_what_the_client_changed_stays_the_client_s(way: str) -> None:
    change, read = CHANGED[way]
    with served(TWO, REPLIES[4]) as (base, engine):
        answer = asked(base, [ASKED])
        asked(base, [ASKED, *change(answer["content"]), result(answer)])
    prompt = spelled(prompts(engine)[1])
    assert ("SECRET" in prompt, read in prompt) == (False, True)


def test_a_line_that_the_client_changes_with_each_request_changes_nothing() -> None:
    with served(TWO, REPLIES[4]) as (base, engine):
        line = "x-anthropic-billing-header: cch={};\nBe brief."
        answer = asked(base, [ASKED], system=line.format("a"))
        messages = [ASKED, *changed(answer["content"], id="mine"), result(answer, id="mine")]
        asked(base, messages, system=line.format("b"))
    assert "SECRET" in spelled(prompts(engine)[1])


def test_another_key_s_turn_is_not_there() -> None:
    (mine, a), (other, b) = new_key("a"), new_key("b")
    with served(TWO, REPLIES[4], keys=[a, b]) as (base, engine):
        answer = asked(base, [ASKED], key=mine)
        for key in (other, mine):
            asked(base, [ASKED, said(answer["content"]), result(answer)], key=key)
    assert ["SECRET" in spelled(prompt) for prompt in prompts(engine)] == [False, False, True]


def test_so_does_what_they_did_where_the_client_sees_their_blocks() -> None:
    class Python:
        recipient, parameters = "python", None

        async def run(self, call: ToolCall, arguments: object) -> ToolOutput:
            return ToolOutput(content=f"RAN {call.body}", plain=True)

    class Built(DescribedToolSet):
        tools = (Python(),)
        builtins = (ToolNamespace("python"),)

    first = thinking("SECRET 1.") + "<|channel|>analysis to=python code<|message|>print(3)<|call|>"
    second = thinking("SECRET 2.") + announcing("Then.") + call("Bern")
    listed = [{"type": "code_execution_20250825", "name": "code_execution"}, TOOL]
    with served(first, second, REPLIES[4], tools=Toolbox([Built()])) as (base, engine):
        answer = asked(base, [ASKED], tools=listed)
        kinds = [block["type"] for block in answer["content"]]
        assert kinds == ["server_tool_use", "code_execution_tool_result", "text", "tool_use"]
        asked(base, [ASKED, said(answer["content"]), result(answer)], tools=listed)
    check_goes_on(engine, [first, second])


def test_calls_in_messages_beside_each_other_are_one_turn() -> None:
    """No empty result stands between them, and each has its own."""
    messages = [
        ASKED,
        *(said([{"type": "tool_use", "id": f"mine{i}", "name": "weather", "input": {"city": str(i)}}]) for i in "ab"),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"mine{i}", "content": i} for i in "ab"]},
    ]
    with served(REPLIES[4]) as (base, engine):
        asked(base, messages)
    prompt = spelled(prompts(engine)[0])
    assert prompt.count("<|start|>functions.weather to=assistant") == 2
