"""Streaming and not streaming are the same response: item by item, byte by byte, whatever the model says."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_reply import CUTS, TEXTS, calls_of, chatml, harmony
from kit.api import post_in_process, scripted
from kit.call_ids import numbered
from kit.responses import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    MESSAGE,
    WEATHER_TOOL,
    checked_event,
    checked_response,
    events_of,
    responses_app,
)

TO_WEATHER = (" to=functions.weather", CHANNEL, "commentary ", CONSTRAIN, "json", MESSAGE)
TO_SHELL = (" to=functions.shell", CHANNEL, "commentary", MESSAGE)
HARMONY_REPLIES = harmony(
    TEXTS.map(lambda text: (*TO_WEATHER, text, CALL)),
    TEXTS.map(lambda text: (*TO_SHELL, json.dumps({"input": text}), CALL)),
)
CHATML_REPLIES = chatml(calls_of("weather", "city"), calls_of("shell", "input"))
SHELL: dict[str, Any] = {"type": "custom", "name": "shell", "description": "Runs a command."}


def without_ids(value: Any) -> Any:
    """Two responses differ in their ids, and in nothing else."""
    return json.loads(re.sub(r"_[0-9a-f]{24}", "_…", json.dumps(numbered(value))))


def accumulated(events: list[Any]) -> list[Any]:
    """The items as a client puts them together from deltas; each must be what its last event says it is."""
    items: list[Any] = []
    for event in events:
        match event["type"]:
            case "response.output_item.added":
                assert event["output_index"] == len(items)
                items.append(json.loads(json.dumps(event["item"])))
            case "response.content_part.added":
                items[event["output_index"]]["content"].append(event["part"])
            case "response.output_text.delta" | "response.reasoning_text.delta":
                items[event["output_index"]]["content"][event["content_index"]]["text"] += event["delta"]
            case "response.function_call_arguments.delta":
                items[event["output_index"]]["arguments"] += event["delta"]
            case "response.custom_tool_call_input.delta":
                items[event["output_index"]]["input"] += event["delta"]
            case "response.output_item.done":
                mine = items[event["output_index"]] | {"status": event["item"]["status"]}
                assert mine == event["item"]
    return [event["item"] for event in events if event["type"] == "response.output_item.done"]


@settings(max_examples=120, deadline=None)
@given(
    replies=st.one_of(st.tuples(st.just("oss"), HARMONY_REPLIES), st.tuples(st.just("small"), CHATML_REPLIES)),
    cuts=CUTS,
    limit=st.one_of(st.none(), st.integers(1, 40)),
    parallel=st.booleans(),
    expose=st.booleans(),
)
async def test_a_stream_and_a_whole_response_agree(
    replies: tuple[str, list[int]], cuts: tuple[int, int], limit: int | None, parallel: bool, expose: bool
) -> None:
    model, reply = replies
    body = {
        "model": model,
        "input": "Hi",
        "tools": [WEATHER_TOOL, SHELL],
        "max_output_tokens": limit,
        "parallel_tool_calls": parallel,
    }

    async def answered(chunk: int, *, stream: bool) -> Any:
        engine = scripted(reply, chunk=chunk)
        application = responses_app(**{model: engine}, expose_reasoning=expose, clock=lambda: 1e9)
        return await post_in_process(application, "/v1/responses", **body, stream=stream)

    events = events_of(await answered(cuts[0], stream=True))
    whole = (await answered(cuts[1], stream=False)).json
    checked_response(whole)
    for event in events:
        checked_event(event)
    last = events[-1]["response"]
    assert without_ids(last) == without_ids(whole)
    assert accumulated(events) == last["output"]
    assert expose or not any(item["content"] for item in last["output"] if item["type"] == "reasoning")
