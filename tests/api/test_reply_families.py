"""Families of replies behind the API: each model says what its own template writes, the official client reads it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import openai
import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from kit.api import in_process, running
from kit.call_ids import numbered
from kit.family_server import ASK, SOURCES, Family, FreeEngine, family

ARGUMENTS: dict[str, Any] = {
    "city": "02134",
    "days": 3,
    "exact": True,
    "note": None,
    "filters": {"by": "the sea", "tags": ["a", "b"]},
}
FILTERS = {
    "type": "object",
    "properties": {"by": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["by"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "exact": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "filters": FILTERS,
    },
    "required": ["city"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "weather", "description": "Says it.", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": NOTHING}},
]
THOUGHT, SAID = "Perhaps rain.", "I look it up."
IDS = {"kimi k2": ["functions.weather:0", "functions.now:1"], "command": ["0", "1"]}
"""The ids that models of a family give their calls, where they are of a kind of their own."""
WRITES_IDS = {"kimi k2", "command", "mistral list", "mistral named", "solar"}


def calling(name: str) -> dict[str, Any]:
    """The message with all that the family's replies have: two calls, one where a reply is one."""
    ids = IDS.get(name, ["call00001", "call00002"])
    functions = [{"name": "weather", "arguments": ARGUMENTS}, {"name": "now", "arguments": {}}]
    calls = [{"id": id, "type": "function", "function": f} for id, f in zip(ids, functions, strict=True)]
    return {
        "role": "assistant",
        "content": SAID,
        "reasoning_content": THOUGHT,
        "tool_calls": calls[:1] if name == "bare object" else calls,
    }


def answering(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, "reasoning_content": THOUGHT}


@pytest.fixture(scope="module", params=SOURCES)
def spoken(request: pytest.FixtureRequest) -> tuple[Family, str]:
    """A family, and the reply with the calls."""
    found = family(request.param)
    return found, found.says(calling(found.name), TOOLS)


def client_of(base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0)


def asked(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**{"model": "small", "messages": ASK, "tools": TOOLS, **fields}).choices[0]


def streamed(client: openai.OpenAI, **fields: Any) -> Any:
    """The choice that the client's own helper puts together from the chunks."""
    with client.chat.completions.stream(**{"model": "small", "messages": ASK, "tools": TOOLS, **fields}) as stream:
        return stream.get_final_completion().choices[0]


def seen(choice: Any) -> dict[str, Any]:
    """What a client sees of a choice."""
    message = choice.message
    return {
        "finish": choice.finish_reason,
        "content": message.content or None,
        "reasoning": getattr(message, "reasoning", None),
        "calls": [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()],
    }


def test_the_official_client_sees_the_message_streamed_and_not(spoken: tuple[Family, str]) -> None:
    family, reply = spoken
    chunk = 1 if len(reply) % 2 else 7
    with running(family.app(reply, chunk=chunk, expose_reasoning=True)) as base, client_of(base) as client:
        whole, parts = numbered(seen(asked(client))), numbered(seen(streamed(client)))
    assert whole == parts
    calls = calling(family.name)["tool_calls"]
    assert whole["finish"] == "tool_calls"
    assert whole["content"] == (SAID if SAID in reply else None)
    assert whole["reasoning"] == (THOUGHT if THOUGHT in reply else None)
    assert [name for _, name, _ in whole["calls"]] == [call["function"]["name"] for call in calls]
    assert [json.loads(text) for *_, text in whole["calls"]] == [call["function"]["arguments"] for call in calls]
    ids = [id for id, *_ in whole["calls"]]
    assert len(set(ids)) == len(calls)
    if family.name in WRITES_IDS:
        assert ids == [call["id"] for call in calls]


async def chatted(application: Starlette, **fields: Any) -> Any:
    """The choice of an answer within this process."""
    got = await in_process(application, **{"messages": ASK, "tools": TOOLS, **fields})
    assert got.status == 200, got.body
    return got.json["choices"][0]


def results_of(called: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"role": "tool", "tool_call_id": call["id"], "content": f"Result of {call['id']}."}
        for call in called["tool_calls"]
    ]


async def test_a_tools_result_goes_back_into_the_prompt_that_the_template_itself_writes(
    spoken: tuple[Family, str],
) -> None:
    family, reply = spoken
    answer = family.says(answering("Rain, at eight."))
    engine = family.plays(lambda turn: reply if turn == 0 else answer)
    application = create_app(StaticCatalog({"small": family.model("small", engine)}), expose_reasoning=True)
    called = (await chatted(application))["message"]
    results = results_of(called)
    told = await chatted(application, messages=[*ASK, called, *results])
    assert (told["finish_reason"], told["message"]["content"]) == ("stop", "Rain, at eight.")
    for call in called["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    first, second = (family.spelled(prompt) for prompt, *_ in engine.requests)
    assert first == family.prompt(ASK, TOOLS)
    assert second == family.prompt([*ASK, called, *results], TOOLS)


async def test_reasoning_that_is_in_no_answer_stands_in_the_next_prompt_as_if_the_client_had_sent_it(
    spoken: tuple[Family, str],
) -> None:
    """The memory of the unfinished turn gives it, and the template decides what it writes of it."""
    family, reply = spoken
    engine = family.plays(lambda turn: reply if turn < 2 else family.says(answering("Rain, at eight.")), chunk=3)
    application = create_app(StaticCatalog({"small": family.model("small", engine)}))
    flow = (await in_process(application, messages=ASK, tools=TOOLS, stream=True)).events
    assert THOUGHT not in "".join(c["delta"].get("content") or "" for event in flow[:-1] for c in event["choices"])
    assert not any("reasoning" in c["delta"] for event in flow[:-1] for c in event["choices"])
    called = (await chatted(application))["message"]
    assert THOUGHT not in json.dumps(called)
    results = results_of(called)
    messages = [*ASK, called, *results]
    await chatted(application, messages=messages)
    await chatted(application, messages=[*messages, {"role": "assistant", "content": "Rain."}, *ASK])
    for call in called["tool_calls"]:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    thought = {"reasoning": THOUGHT, "reasoning_content": THOUGHT} if THOUGHT in reply else {}
    *_, during, afterwards = (family.spelled(prompt) for prompt, *_ in engine.requests)
    assert during == family.prompt([*ASK, {**called, **thought}, *results], TOOLS)
    if THOUGHT in reply:
        assert THOUGHT in during
    assert THOUGHT not in afterwards


async def test_a_call_that_the_limit_cuts_off_is_not_passed_off_as_whole(spoken: tuple[Family, str]) -> None:
    family, reply = spoken
    limit = len(family.ids(reply[: reply.index("02134") + 3]))
    fields = {"messages": ASK, "tools": TOOLS, "max_tokens": limit}
    (choice,) = (await in_process(family.app(reply), **fields)).json["choices"]
    events = (await in_process(family.app(reply, chunk=7), **fields, stream=True)).events[:-1]
    assert choice["finish_reason"] == events[-1]["choices"][0]["finish_reason"] == "length"
    (call,) = choice["message"]["tool_calls"]
    deltas = [d for event in events for c in event["choices"] for d in c["delta"].get("tool_calls", ())]
    assert call["function"]["name"] == deltas[0]["function"]["name"] == "weather"
    arguments = call["function"]["arguments"]
    assert arguments == "".join(delta["function"]["arguments"] for delta in deltas)
    assert arguments.replace(" ", "") == '{"city":"021'


async def test_a_reply_that_ends_anywhere_loses_nothing_and_shows_nothing_private(spoken: tuple[Family, str]) -> None:
    family, reply = spoken
    end = family.format.replies.ends[0]
    cuts = [reply[:place] for place in range(1, len(reply), max(1, len(reply) // 6))]
    engine = family.plays(lambda turn: cuts[turn] + end, chunk=4)
    model = family.model("small", engine, grammar=False)
    application = create_app(StaticCatalog({"small": model}), expose_reasoning=True)
    for begun in cuts:
        (choice,) = (await in_process(application, messages=ASK, tools=TOOLS)).json["choices"]
        message = choice["message"]
        everything = json.dumps(message, ensure_ascii=False)
        for words in (THOUGHT, SAID, "weather", "02134", "the sea"):
            assert words not in begun or words in everything, (begun, message)
        assert THOUGHT not in (message["content"] or ""), begun


def counted(model: Family, text: str) -> int:
    """Characters, of which one that may begin a mark counts with the next."""
    return len(text) - sum(text.count(first) for first in {mark[0] for mark in model.format.replies.literals if mark})


@pytest.mark.parametrize("name", SOURCES)
async def test_a_call_that_is_required_is_made_whatever_the_model_would_say(name: str) -> None:
    model = family(name)
    application = create_app(StaticCatalog({"small": model.model("small", FreeEngine(model))}))
    named = {"type": "function", "function": {"name": "weather"}}
    for seed, choice in enumerate(("required", named)):
        answer = await in_process(application, messages=ASK, tools=TOOLS, tool_choice=choice, seed=seed)
        assert answer.status == 200, answer.body
        (made,) = answer.json["choices"]
        said = made["message"]["content"]
        assert made["finish_reason"] == "tool_calls"
        assert said is None or (model.format.habits.text_beside == "before" and counted(model, said) <= 200)
        for call in made["message"]["tool_calls"]:
            called = call["function"]["name"]
            assert called == "weather" or (choice == "required" and called == "now")
            arguments = json.loads(call["function"]["arguments"])
            assert jsonschema_rs.is_valid(WEATHER if called == "weather" else NOTHING, arguments)


@pytest.mark.parametrize("name", SOURCES)
async def test_an_engine_that_does_not_keep_to_the_grammar_is_an_error(name: str) -> None:
    model = family(name)
    application = model.app(model.says(answering("No.")))
    answer = await in_process(application, messages=ASK, tools=TOOLS, tool_choice="required")
    assert (answer.status, answer.error["code"]) == (502, "grammar_broken")
