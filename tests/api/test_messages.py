"""POST /v1/messages: blocks in the order in which they were said, streamed and whole, and why an answer ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.http.gate.keys import Scope, new_key
from antiphon.store import MemoryStore, SessionLimits, TurnLimits
from antiphon.tokens import Piece
from kit.api import END as CHATML_END
from kit.api import Got, exchange, ids, model, scripted, served
from kit.messages import THINKING, USER, WEATHER, Fields, accumulated, checked, events_of, message, without_ids
from kit.obedient import catalog
from kit.responses import (
    CALL,
    CHANNEL,
    END,
    FINAL,
    MESSAGE,
    PREAMBLE,
    THOUGHT,
    harmony_ids,
    responses_app,
)
from kit.responses import WEATHER as CALL_WEATHER

FORGETS = SessionLimits(turns=TurnLimits(lifetime=0))
"""No unfinished turn is stored, so that blocks speak for themselves."""
USAGE = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "service_tier": "standard"}


base = served(lambda: create_app(catalog(), expose_reasoning=True))
"""Models that do what their user says, on a server that shows reasoning."""


def oss(*pieces: Piece, **options: Any) -> Any:
    """An application over a Harmony model that says these pieces."""
    return responses_app(oss=scripted(harmony_ids(*pieces)), **options)


def small(*pieces: Piece, **options: Any) -> Any:
    return responses_app(scripted(ids(*pieces)), **options)


async def asked(application: Any, **fields: Any) -> Got:
    body: Fields = {"max_tokens": 400, "messages": [USER], **fields}
    return await exchange(application, "/v1/messages", body, [])


async def test_a_thought_a_preamble_and_a_call_are_three_blocks() -> None:
    got = await asked(
        oss(*THOUGHT, *PREAMBLE, *CALL_WEATHER, expose_reasoning=True), model="oss", tools=[WEATHER], thinking=THINKING
    )
    answer = checked(got.json)
    assert without_ids(answer["content"]) == [
        {"type": "thinking", "thinking": "The user wants the weather.", "signature": "…"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_…", "name": "weather", "input": {"city": "Bern"}},
    ]
    assert (answer["stop_reason"], answer["stop_sequence"], answer["model"]) == ("tool_use", None, "oss")
    assert answer["usage"].items() >= USAGE.items()
    assert answer["usage"]["output_tokens_details"] == {"thinking_tokens": 28}


async def test_the_events_of_a_call_are_these() -> None:
    application = responses_app(oss=scripted(harmony_ids(*THOUGHT, *CALL_WEATHER), chunk=500), expose_reasoning=True)
    events = events_of(await asked(application, model="oss", tools=[WEATHER], thinking=THINKING, stream=True))
    start, end = events[0]["message"], events[-2]
    prompt = start["usage"]["input_tokens"]
    assert without_ids(start) == {
        "id": "msg_…", "type": "message", "role": "assistant", "model": "oss", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": prompt, "output_tokens": 0, **USAGE},
    }  # fmt: skip
    assert without_ids(events[1:-2]) == [
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "thinking_delta", "thinking": "The user wants the weather."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "…"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1,
         "content_block": {"type": "tool_use", "id": "toolu_…", "name": "weather", "input": {}}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "input_json_delta", "partial_json": '{"city": "Bern"}'}},
        {"type": "content_block_stop", "index": 1},
    ]  # fmt: skip
    assert end["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert end["usage"]["input_tokens"] == prompt
    assert events[-1] == {"type": "message_stop"}


@pytest.mark.parametrize("stream", [False, True])
async def test_hidden_reasoning_is_a_block_without_text_that_goes_on_where_it_ended(stream: bool) -> None:
    application = oss(*THOUGHT, *CALL_WEATHER, store=MemoryStore(), session_limits=FORGETS)
    fields: Fields = {"model": "oss", "tools": [WEATHER], "thinking": THINKING}
    got = await asked(application, **fields, stream=stream)
    answer = accumulated(events_of(got)) if stream else checked(got.json)
    thought, used = answer["content"]
    assert (thought["thinking"], bool(thought["signature"])) == ("", True)
    assert "weather" not in thought["signature"]
    result = {"type": "tool_result", "tool_use_id": used["id"], "content": "sunny"}
    history = [USER, {"role": "assistant", "content": [thought, used]}, {"role": "user", "content": [result]}]
    shown = [{**thought, "thinking": "The user wants the weather.", "signature": "x"}, used]
    counts = [
        (await exchange(application, "/v1/messages/count_tokens", {**fields, "messages": messages}, [])).json
        for messages in (history, [USER, {"role": "assistant", "content": shown}, history[2]])
    ]
    assert counts[0] == counts[1], "the sealed thought is the very thought"
    without = [USER, {"role": "assistant", "content": [used]}, history[2]]
    less = await exchange(application, "/v1/messages/count_tokens", {**fields, "messages": without}, [])
    assert less.json["input_tokens"] < counts[0]["input_tokens"]


async def test_a_thought_of_another_key_is_left_out_and_told() -> None:
    (mine, a), (other, b) = new_key("a"), new_key("b")
    application = oss(*THOUGHT, *FINAL, keys=[a, b])
    body: Fields = {"model": "oss", "messages": [USER], "max_tokens": 400, "thinking": THINKING}
    first = await exchange(application, "/v1/messages", body, [], key=mine)
    thought = first.json["content"][0]
    body["messages"] = [USER, {"role": "assistant", "content": [thought]}, USER]
    own = await exchange(application, "/v1/messages", body, [], key=mine)
    foreign = await exchange(application, "/v1/messages", body, [], key=other)
    assert "x-antiphon-ignored" not in own.headers
    assert foreign.headers["x-antiphon-ignored"] == "messages[1].content[0]"
    assert foreign.status == 200


async def test_without_thinking_there_is_no_block_of_it() -> None:
    for thinking in (None, {"type": "disabled"}, {"type": "between_tools"}):
        got = await asked(oss(*THOUGHT, *FINAL, expose_reasoning=True), model="oss", thinking=thinking)
        assert checked(got.json)["content"] == [{"type": "text", "text": "It is sunny in Bern."}]


async def test_thinking_that_is_to_be_omitted_has_a_signature_alone() -> None:
    thinking = {"type": "adaptive", "display": "omitted"}
    got = await asked(oss(*THOUGHT, *FINAL, expose_reasoning=True), model="oss", thinking=thinking)
    assert checked(got.json)["content"][0]["thinking"] == ""


async def test_a_key_that_may_debug_reads_the_thinking_and_no_other_does() -> None:
    (plain, first), (debug, second) = new_key("plain"), new_key("debug", [Scope.INFERENCE, Scope.DEBUG])
    application = oss(*THOUGHT, *FINAL, keys=[first, second])
    body: Fields = {"model": "oss", "messages": [USER], "max_tokens": 400, "thinking": THINKING}
    hidden = await exchange(application, "/v1/messages", body, [], key=plain)
    shown = await exchange(application, "/v1/messages", body, [], key=debug)
    assert hidden.json["content"][0]["thinking"] == ""
    assert shown.json["content"][0]["thinking"] == "The user wants the weather."


@pytest.mark.parametrize(
    ("limit", "stops", "reason", "text", "matched"),
    [
        (400, ["sunny"], "stop_sequence", "It is ", "sunny"),
        (400, ["x", "in Bern"], "stop_sequence", "It is sunny ", "in Bern"),
        (400, [], "end_turn", "It is sunny in Bern.", None),
        (37, [], "max_tokens", "It is ", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_why_it_stopped(
    limit: int, stops: list[str], reason: str, text: str, matched: str | None, stream: bool
) -> None:
    pieces = (CHANNEL, "analysis", MESSAGE, "Hm.", END, *FINAL)
    got = await asked(oss(*pieces), model="oss", max_tokens=limit, stop_sequences=stops, stream=stream)
    answer = accumulated(events_of(got)) if stream else checked(got.json)
    assert (answer["stop_reason"], answer["stop_sequence"]) == (reason, matched)
    assert [block["text"] for block in answer["content"]] == [text]


async def test_an_answer_as_long_as_the_context_says_so_and_a_larger_limit_is_no_mistake() -> None:
    engine = scripted(ids("x" * 500, CHATML_END), context=100)
    application = create_app(StaticCatalog({"small": model(engine)}))
    got = await asked(application, model="small", max_tokens=32_000)
    assert checked(got.json)["stop_reason"] == "model_context_window_exceeded"


async def test_a_prompt_that_is_too_long_is_told_in_the_words_that_clients_look_for() -> None:
    engine = scripted(ids("x", CHATML_END), context=100)
    application = create_app(StaticCatalog({"small": model(engine)}))
    for text in ("x" * 300, "x" * 3_000_000):
        got = await asked(application, model="small", messages=[{"role": "user", "content": text}])
        assert got.status == 400
        said = got.json["error"]["message"].split()
        assert "prompt is too long: " in got.json["error"]["message"]
        assert said[said.index("tokens") + 1] == ">"
        assert int(said[said.index("tokens") - 1]) > int(said[said.index("tokens") + 2]) == 99


async def test_a_call_that_its_limit_cut_is_no_block_of_a_whole_answer_and_is_closed_in_a_stream() -> None:
    pieces = (*CALL_WEATHER[1:7], '{"city": "Be')
    whole = await asked(oss(*pieces), model="oss", tools=[WEATHER], max_tokens=50)
    assert (checked(whole.json)["content"], whole.json["stop_reason"]) == ([], "max_tokens")
    events = events_of(await asked(oss(*pieces), model="oss", tools=[WEATHER], max_tokens=50, stream=True))
    assert [event["type"] for event in events[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"


@pytest.mark.parametrize("arguments", ["[1", "[1]", '"x"', "null", "{'city': 'X'}", '{"a":1,}', "{}{}", "print(1)"])
async def test_arguments_that_are_no_object_are_told_as_what_they_are(arguments: str) -> None:
    pieces = (*CALL_WEATHER[1:7], arguments, CALL)
    answer = checked((await asked(oss(*pieces), model="oss", tools=[WEATHER])).json)
    assert answer["content"][0]["input"] == {"INVALID_JSON": arguments}


async def test_blanks_alone_are_no_arguments_in_a_stream_either() -> None:
    pieces = (*CALL_WEATHER[1:7], " \n", CALL)
    events = events_of(await asked(oss(*pieces), model="oss", tools=[WEATHER], stream=True))
    assert [event for event in events if event["type"] == "content_block_delta"] == []


@pytest.mark.parametrize("stream", [False, True])
async def test_a_limit_of_nothing_reads_the_prompt_and_answers_nothing(stream: bool) -> None:
    engine = scripted(ids("Hi", CHATML_END))
    got = await asked(responses_app(engine), model="small", max_tokens=0, stream=stream)
    answer = accumulated(events_of(got)) if stream else got.json
    assert checked(answer)["content"] == []
    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("max_tokens", 0)
    assert answer["usage"]["input_tokens"] > 0
    ((_, sampling, _),) = engine.requests
    assert sampling.max_tokens == 1, "an engine has read a prompt when it samples"


async def test_ids_of_calls_are_unique_over_all_answers_also_where_the_model_gives_its_own(base: str) -> None:
    order = {"role": "user", "content": 'call: weather {"city": "Bern"}'}
    found = [
        message(base, model=name, messages=[order], tools=[WEATHER]).json["content"][-1]["id"]
        for name in ("small", "oss", "small", "oss")
    ]
    assert len(set(found)) == len(found)
    assert all(id.startswith("toolu_") and len(id) >= 22 for id in found)


@pytest.mark.parametrize("name", ["small", "oss"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_and_its_result_are_a_round_trip(base: str, name: str, stream: bool) -> None:
    order = {"role": "user", "content": 'call: weather {"city": "Bern"}'}
    fields: Fields = {"model": name, "tools": [WEATHER], "thinking": THINKING, "stream": stream}
    got = message(base, messages=[order], **fields)
    content = (accumulated(events_of(got)) if stream else got.json)["content"]
    assert content[-1]["input"] == {"city": "Bern"}
    result = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": [{"type": "text", "text": "sunny"}]}
    history = [order, {"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    again = message(base, messages=history, **fields)
    content = (accumulated(events_of(again)) if stream else again.json)["content"]
    assert content[-1]["text"] == "it said: sunny"


def test_the_choice_of_tools_is_kept(base: str) -> None:
    order = {"role": "user", "content": 'call: weather {"city": "Bern"}'}
    kinds = {
        choice: [block["type"] for block in message(
            base, model="small", messages=[order], tools=[WEATHER], tool_choice={"type": choice, **more}
        ).json["content"]]
        for choice, more in {"auto": {}, "any": {}, "tool": {"name": "weather"}}.items()
    }  # fmt: skip
    assert kinds == {"auto": ["tool_use"], "any": ["tool_use"], "tool": ["tool_use"]}
    one = message(
        base, model="small", messages=[order], tools=[WEATHER],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )  # fmt: skip
    assert [block["type"] for block in one.json["content"]] == ["tool_use"]


def test_a_schema_constrains_the_answer_under_both_its_names(base: str) -> None:
    order = {"role": "user", "content": 'say: {"ok": true}'}
    fields_of = {"ok": {"type": "boolean"}}
    schema = {"type": "object", "properties": fields_of, "required": ["ok"], "additionalProperties": False}
    form = {"type": "json_schema", "schema": schema}
    for fields in ({"output_config": {"format": form, "effort": "low"}}, {"output_format": form}):
        got = message(base, model="small", messages=[order], **fields)
        assert json.loads(checked(got.json)["content"][0]["text"]) == {"ok": True}
