"""Streaming and not streaming are the same response: item by item, byte by byte, whatever the model says."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.tokens import Piece
from kit.api import END as CHATML_END
from kit.api import THINK, UNTHINK, call, ids, post_in_process, scripted
from kit.call_ids import numbered
from kit.responses import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    MESSAGE,
    RETURN,
    START,
    WEATHER_TOOL,
    checked_event,
    checked_response,
    events_of,
    harmony_ids,
    responses_app,
)

TEXTS = st.text(alphabet=st.sampled_from('ab \n{}"é漢🜂<|>/'), min_size=1, max_size=12)
FRAMES: st.SearchStrategy[tuple[Piece, ...]] = st.one_of(
    TEXTS.map(lambda text: (CHANNEL, "analysis", MESSAGE, text, END, START, "assistant")),
    TEXTS.map(lambda text: (CHANNEL, "commentary", MESSAGE, text, END, START, "assistant")),
    TEXTS.map(lambda text: (CHANNEL, "final", MESSAGE, text, RETURN)),
    TEXTS.map(lambda text: (" to=functions.weather", CHANNEL, "commentary ", CONSTRAIN, "json", MESSAGE, text, CALL)),
    TEXTS.map(lambda text: (" to=functions.shell", CHANNEL, "commentary", MESSAGE, json.dumps({"input": text}), CALL)),
    st.sampled_from([(START,), (CHANNEL,), (MESSAGE,), (END,), (CALL,), ("assistant",)]),
)
HARMONY_REPLIES = st.lists(FRAMES, max_size=5).map(lambda frames: harmony_ids(*(p for frame in frames for p in frame)))
CHATML_PARTS: st.SearchStrategy[tuple[Piece, ...]] = st.one_of(
    TEXTS.map(lambda text: (text,)),
    TEXTS.map(lambda text: (THINK, text, UNTHINK)),
    TEXTS.map(lambda text: call("weather", json.dumps({"city": text}))),
    TEXTS.map(lambda text: call("shell", json.dumps({"input": text}))),
)
CHATML_REPLIES = st.lists(CHATML_PARTS, max_size=5).map(
    lambda parts: ids(*(piece for part in parts for piece in part), CHATML_END)
)
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
    cuts=st.tuples(st.integers(1, 7), st.integers(1, 7)),
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
