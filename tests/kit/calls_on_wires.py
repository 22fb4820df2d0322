"""Calls as each wire tells them, streamed and whole: a model says a text, and what its client gets is read.

As a program it prints how many spellings of calls in other forms are read as calls, and how many texts that look like
some stay text (`make check-calls`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette

import antiphon
from antiphon.conversation import ToolSpec
from antiphon.engines import ScriptedEngine
from kit.api import END, Got, app, ids, model, post_in_process, scripted
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
    got = await post_in_process(says.app, "/v1/chat/completions", messages=QUESTION, tools=FUNCTIONS, stream=stream)
    assert got.status == 200, got.body
    if not stream:
        message = got.json["choices"][0]["message"]
        calls = [
            (one["function"]["name"], json.loads(one["function"]["arguments"]))
            for one in message.get("tool_calls") or ()
        ]
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


async def library(says: Says, *, stream: bool) -> Read:
    async with antiphon.open_model(model(says.engine)) as small:
        if stream:
            *deltas, last = [delta async for delta in small.stream("Hi", tools=TOOLS)]
            assert last.reply is not None
            reply = last.reply
            assert "".join(delta.text for delta in deltas) == reply.text
        else:
            reply = await small.chat("Hi", tools=TOOLS)
    calls = [(one.recipient.rpartition(".")[2], json.loads(one.body)) for one in reply.calls]
    return reply.text, calls


WIRES: dict[str, Callable[..., Any]] = {
    "chat": chat,
    "responses": responses,
    "messages": messages,
    "ollama": ollama,
    "library": library,
}


async def is_read(says: Says, wire: str, text: str, calls: str, *, stream: bool) -> bool:
    """Whether a text is read as these calls (JSON), or, where there are none, as the text that it is."""
    says.told(text)
    said, found = await WIRES[wire](says, stream=stream)
    return [list(one) for one in found] == json.loads(calls) and (calls != "[]" or said.strip() == text.strip())


async def figures() -> None:
    """Prints a line for each wire."""
    rows = {"spellings": SPELLINGS, "look-alikes": [(text, "[]") for text in LOOK_ALIKES]}
    for wire in WIRES:
        for stream in (False, True):
            says, counts = Says(), list[str]()
            for name, known in rows.items():
                right = [await is_read(says, wire, text, calls, stream=stream) for text, calls in known]
                counts.append(f"{sum(right)} of {len(right)} {name}")
            print(f"{wire:10} {'streamed' if stream else 'whole':9} {', '.join(counts)}", flush=True)


if __name__ == "__main__":
    asyncio.run(figures())
