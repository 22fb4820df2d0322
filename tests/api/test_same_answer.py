"""Streaming and not streaming are the same changes, of chat and of responses, however they are cut."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit.any_reply import CUTS, LOOKING, MARKS, STOPS, TEXTS, calls_of, chatml, harmony
from kit.api import app, in_process, post_in_process, scripted
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


def assembled(events: list[Any]) -> dict[str, Any]:
    """What a client puts together from a stream."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            whole = choices.setdefault(choice["index"], {"content": "", "reasoning": "", "calls": [], "finish": None})
            assert whole["finish"] is None, "something came after the finish"
            whole["finish"] = choice["finish_reason"]
            whole["content"] += choice["delta"].get("content", "")
            whole["reasoning"] += choice["delta"].get("reasoning", "")
            for delta in choice["delta"].get("tool_calls", ()):
                if "id" in delta:
                    assert delta["index"] == len(whole["calls"])
                    whole["calls"].append([delta["id"], delta["function"]["name"], ""])
                whole["calls"][delta["index"]][2] += delta["function"]["arguments"]
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def collected(answer: dict[str, Any]) -> dict[str, Any]:
    """The same of a whole answer."""
    return {
        "choices": [
            {
                "content": choice["message"]["content"] or "",
                "reasoning": choice["message"].get("reasoning", ""),
                "calls": [
                    [call["id"], call["function"]["name"], call["function"]["arguments"]]
                    for call in choice["message"].get("tool_calls", ())
                ],
                "finish": choice["finish_reason"],
            }
            for choice in answer["choices"]
        ],
        "usage": answer["usage"],
    }


@settings(max_examples=40, deadline=None)
@given(
    replies=st.lists(chatml(LOOKING, MARKS, most=6), min_size=1, max_size=2),
    cuts=CUTS,
    limit=st.one_of(st.none(), st.integers(0, 40)),
    stop=STOPS,
    parallel=st.booleans(),
    expose=st.booleans(),
    offered=st.sampled_from([["look"], ["other"], []]),
)
async def test_a_stream_and_a_whole_answer_agree(
    replies: list[list[int]],
    cuts: tuple[int, int],
    limit: int | None,
    stop: list[str] | None,
    parallel: bool,
    expose: bool,
    offered: list[str],
) -> None:
    fields: dict[str, Any] = {"n": len(replies), "max_tokens": limit, "stop": stop, "parallel_tool_calls": parallel}
    fields["tools"] = [{"type": "function", "function": {"name": name}} for name in offered]
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    one, other = (
        app(scripted(lambda prompt, sampling, choice: replies[choice], chunk=cut), expose_reasoning=expose)
        for cut in cuts
    )
    whole = await in_process(one, **fields)
    streamed = await in_process(other, **fields, **usage)
    assert (whole.status, streamed.status) == (200, 200), (whole.body, streamed.body)
    assert streamed.events[-1] == "[DONE]"
    assert numbered(assembled(streamed.events[:-1])) == numbered(collected(whole.json))
    calls = [call for choice in collected(whole.json)["choices"] for call in choice["calls"]]
    assert all(name in offered for _, name, _ in calls)


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


@settings(max_examples=40, deadline=None)
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
