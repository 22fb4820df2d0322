"""Calls in other forms and texts that look like them, on every wire: streamed and whole, they are the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from starlette.applications import Starlette

import antiphon
from antiphon.conversation import ToolSpec
from antiphon.engines import ScriptedEngine
from kit.api import CALL, END, Got, app, ids, model, post_in_process, scripted
from kit.other_calls import TOOLS, look_alikes, spellings

Read = tuple[str, list[tuple[str, Any]]]
"""The text of an answer, and its calls: names and arguments."""
SPELLINGS = list(dict.fromkeys((text, json.dumps([(t.name, a) for t, a in calls])) for text, calls in spellings()))
LOOK_ALIKES = list(dict.fromkeys(look_alikes()))
QUESTION = [{"role": "user", "content": "Hi"}]


class Says:
    """An application whose model says what it is told to."""

    def __init__(self) -> None:
        self._reply: Sequence[int] = ()
        self.engine: ScriptedEngine = scripted(lambda prompt, sampling, choice: self._reply, chunk=3)
        self.app: Starlette = app(self.engine)

    def told(self, text: str) -> None:
        self._reply = ids(text, END)


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


FUNCTIONS = [{"type": "function", "function": _function(tool)} for tool in TOOLS]


async def chat(says: Says, *, stream: bool) -> Read:
    got = await post_in_process(
        says.app, "/v1/chat/completions", messages=QUESTION, tools=FUNCTIONS, stream=stream
    )
    assert got.status == 200, got.body
    if not stream:
        message = got.json["choices"][0]["message"]
        calls = [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in message.get("tool_calls") or ()]
        return message.get("content") or "", calls
    text, parts = "", list[list[str]]()
    for event in got.events[:-1]:
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or ():
                if "name" in part["function"]:
                    parts.append([part["function"]["name"], ""])
                parts[part["index"]][1] += part["function"].get("arguments") or ""
    return text, [(name, json.loads(arguments)) for name, arguments in parts]


async def responses(says: Says, *, stream: bool) -> Read:
    tools = [{"type": "function", **_function(tool)} for tool in TOOLS]
    got = await post_in_process(says.app, "/v1/responses", input="Hi", tools=tools, stream=stream, store=False)
    assert got.status == 200, got.body
    response = got.json if not stream else next(e["response"] for e in _sse(got) if e["type"] == "response.completed")
    items = response["output"]
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    calls = [(one["name"], json.loads(one["arguments"])) for one in items if one["type"] == "function_call"]
    if stream:
        assert text == "".join(e["delta"] for e in _sse(got) if e["type"] == "response.output_text.delta")
        done = [e for e in _sse(got) if e["type"] == "response.function_call_arguments.done"]
        assert [json.loads(e["arguments"]) for e in done] == [arguments for _, arguments in calls]
    return text, calls


async def messages(says: Says, *, stream: bool) -> Read:
    tools = [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in TOOLS]
    got = await post_in_process(
        says.app, "/v1/messages", messages=QUESTION, tools=tools, stream=stream, max_tokens=4000, model="small"
    )
    assert got.status == 200, got.body
    if not stream:
        blocks = got.json["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return text, [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    text, calls = "", list[list[str]]()
    for event in _sse(got):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls.append([event["content_block"]["name"], ""])
        delta = event.get("delta") or {}
        text += delta.get("text", "")
        if delta.get("type") == "input_json_delta":
            calls[-1][1] += delta["partial_json"]
    return text, [(name, json.loads(arguments or "{}")) for name, arguments in calls]


async def ollama(says: Says, *, stream: bool) -> Read:
    got = await post_in_process(says.app, "/api/chat", messages=QUESTION, tools=FUNCTIONS, stream=stream, model="small")
    assert got.status == 200, got.body
    parts = [json.loads(line)["message"] for line in got.body.splitlines() if line]
    calls = [one["function"] for part in parts for one in part.get("tool_calls") or ()]
    text = "".join(part.get("content") or "" for part in parts)
    return text, [(one["name"], one["arguments"]) for one in calls]


def _sse(got: Got) -> list[dict[str, Any]]:
    lines = got.body.decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


WIRES: dict[str, Callable[..., Any]] = {"chat": chat, "responses": responses, "messages": messages, "ollama": ollama}


def every(rows: Sequence[Any], step: int, first: int) -> Iterable[Any]:
    """Each row comes to one of the wires."""
    return rows[first::step]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_each_spelling_is_a_call_on_every_wire(wire: str, stream: bool) -> None:
    says, missed = Says(), []
    for text, calls in every(SPELLINGS, len(WIRES), list(WIRES).index(wire)):
        says.told(text)
        _, found = await WIRES[wire](says, stream=stream)
        if [list(one) for one in found] != json.loads(calls):
            missed.append(text)
    assert not missed


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_each_text_that_looks_alike_is_an_answer_on_every_wire(wire: str, stream: bool) -> None:
    says, wrong = Says(), []
    for text in every(LOOK_ALIKES, len(WIRES), list(WIRES).index(wire)):
        says.told(text)
        said, calls = await WIRES[wire](says, stream=stream)
        if calls or said.strip() != text.strip():
            wrong.append((text, said, calls))
    assert not wrong


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_library_reads_them_too(stream: bool) -> None:
    says = Says()
    with antiphon.open_model(model(says.engine)) as small:
        for text, calls in [*SPELLINGS[::23], *((text, "[]") for text in LOOK_ALIKES[::23])]:
            says.told(text)
            reply = small.chat("Hi", tools=TOOLS) if not stream else _streamed(small, text)
            found = [[one.recipient.rpartition(".")[2], json.loads(one.text)] for one in reply.calls]
            assert found == json.loads(calls), text


def _streamed(small: Any, text: str) -> Any:
    *deltas, last = small.stream("Hi", tools=TOOLS)
    assert "".join(delta.text for delta in deltas) == last.reply.text
    return last.reply


async def test_a_call_in_another_form_is_written_in_the_trained_one_in_the_next_prompt() -> None:
    says = Says()
    says.told('I look.\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```')
    got = await post_in_process(says.app, "/v1/chat/completions", messages=QUESTION, tools=FUNCTIONS)
    message = got.json["choices"][0]["message"]
    assert got.headers["x-antiphon-incidents"] == "call_in_other_form"
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    says.told("It is sunny.")
    await post_in_process(says.app, "/v1/chat/completions", messages=[*QUESTION, message, result], tools=FUNCTIONS)
    prompt = list(says.engine.requests[-1][0])
    assert contains(prompt, ids(CALL)) and contains(prompt, ids('"name": "get_weather"'))
    assert not contains(prompt, ids("```json"))


async def test_a_call_that_was_just_answered_and_is_made_again_is_named_in_the_header() -> None:
    says = Says()
    asked = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    named = []
    for reply in (
        '{"name": "get_weather", "arguments": {"city": "Paris"}}',
        '{"name": "get_weather", "arguments": {"city": "Rome"}}',
        '{"name": "get_time", "arguments": {}}',
        "It is sunny.",
    ):
        says.told(reply)
        got = await post_in_process(says.app, "/v1/chat/completions", messages=history, tools=FUNCTIONS)
        named.append("call_repeated" in got.headers.get("x-antiphon-incidents", ""))
    later = [*history, {"role": "assistant", "content": "Sunny."}, *QUESTION]
    says.told('{"name": "get_weather", "arguments": {"city": "Paris"}}')
    got = await post_in_process(says.app, "/v1/chat/completions", messages=later, tools=FUNCTIONS)
    named.append("call_repeated" in got.headers.get("x-antiphon-incidents", ""))
    assert named == [True, False, False, False, False]


def contains(ids: Sequence[int], part: Sequence[int]) -> bool:
    return any(list(ids[i : i + len(part)]) == list(part) for i in range(len(ids) - len(part) + 1))
