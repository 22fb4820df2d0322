"""Responses: their events in the order that clients need, and the whole answer that is the last of them."""

from __future__ import annotations

from typing import Any

import pytest

from kit.api import END as CHATML_END
from kit.api import ids, running, scripted, served
from kit.responses import (
    FINAL,
    PREAMBLE,
    THOUGHT,
    WEATHER,
    WEATHER_TOOL,
    checked_response,
    events_of,
    harmony_ids,
    oss_app,
    respond,
    responses_app,
    text_of,
)

HELLO = ids("Hello there, friend.", CHATML_END)
MESSAGE_EVENTS = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


def types(events: list[Any]) -> list[str]:
    """The events' types, a run of equal ones once."""
    kinds = [event["type"] for event in events]
    return [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind]


base = served(lambda: responses_app(small=scripted(HELLO)))


def test_a_text_is_streamed_in_the_order_that_clients_need(base: str) -> None:
    events = events_of(respond(base, {"stream": True}))
    assert types(events) == [
        "response.created",
        "response.in_progress",
        *MESSAGE_EVENTS,
        "response.completed",
    ]
    assert "".join(e["delta"] for e in events if e["type"].endswith("text.delta")) == "Hello there, friend."
    done = events[-1]["response"]
    assert text_of(done) == "Hello there, friend."
    assert done["usage"]["output_tokens"] == len(HELLO)


def test_reasoning_preamble_call_and_answer_are_items_in_their_order() -> None:
    reply = harmony_ids(*THOUGHT, *PREAMBLE, *WEATHER)
    with running(oss_app(reply, expose_reasoning=True)) as base:
        events = events_of(respond(base, {"stream": True, "tools": [WEATHER_TOOL]}))
    assert types(events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        *MESSAGE_EVENTS,
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    thought, preamble, call = events[-1]["response"]["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "The user wants the weather."}]
    assert (preamble["phase"], preamble["content"][0]["text"]) == ("commentary", "Let me look.")
    assert (call["name"], call["arguments"]) == ("weather", '{"city": "Bern"}')
    assert call["call_id"]


def test_what_is_added_is_what_is_done_and_what_the_response_holds() -> None:
    with running(oss_app(harmony_ids(*THOUGHT, *PREAMBLE, *FINAL), expose_reasoning=True)) as base:
        events = events_of(respond(base, {"stream": True}))
    added = [e["item"]["id"] for e in events if e["type"] == "response.output_item.added"]
    done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
    assert added == [item["id"] for item in done]
    assert events[-1]["response"]["output"] == done
    for event in events:
        if "item_id" in event:
            assert event["item_id"] == added[event["output_index"]]


def test_reasoning_is_hidden_unless_the_owner_exposes_it() -> None:
    with running(oss_app(harmony_ids(*THOUGHT, *FINAL))) as base:
        streamed = respond(base, {"stream": True})
        whole = respond(base)
    assert b"wants the weather" not in streamed.body + whole.body
    thought, answer = whole.json["output"]
    assert (thought["type"], thought["content"], answer["type"]) == ("reasoning", [], "message")
    assert types(events_of(streamed))[2:5] == [
        "response.output_item.added",
        "response.output_item.done",
        "response.output_item.added",
    ]


def test_an_answer_that_is_cut_is_incomplete(base: str) -> None:
    events = events_of(respond(base, {"stream": True, "max_output_tokens": 5}))
    one = respond(base, {"input": "", "max_output_tokens": 1})
    assert events[-1]["type"] == "response.incomplete"
    response = events[-1]["response"]
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")
    assert one.status == 200
    assert checked_response(one.json)["status"] == "incomplete"


@pytest.mark.parametrize("stream", [False, True])
def test_the_response_tells_the_settings_it_was_made_with(base: str, stream: bool) -> None:
    requested: dict[str, Any] = {
        "instructions": "Be brief.",
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 100,
        "metadata": {"a": "b"},
        "tools": [WEATHER_TOOL],
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low"},
        "truncation": "auto",
        "user": "me",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "presence_penalty": 0.5,
        "store": False,
    }
    got = respond(base, {**requested, "stream": stream})
    response = events_of(got)[-1]["response"] if stream else checked_response(got.json)
    assert {name: response[name] for name in requested if name != "reasoning"} == {
        name: value for name, value in requested.items() if name != "reasoning"
    }
    assert response["reasoning"] == {"effort": "low", "summary": None}


def test_log_probabilities_come_when_they_are_included(base: str) -> None:
    events = events_of(respond(base, {"stream": True, "include": ["message.output_text.logprobs"], "top_logprobs": 2}))
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert all(len(entry["top_logprobs"]) == 2 for delta in deltas for entry in delta["logprobs"])
    part = events[-1]["response"]["output"][0]["content"][0]
    assert "".join(entry["token"] for entry in part["logprobs"]) == "Hello there, friend."
