"""Output items that a client sends back stand for what the model wrote, as long as they say what it said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest

from antiphon.engines import ScriptedEngine
from antiphon.http.gate.keys import new_key
from antiphon.store import SessionLimits, TurnLimits
from antiphon.tools import FunctionToolSet, Toolbox
from kit.api import Got, post, post_in_process, request, running
from kit.responses import events_of, respond
from kit.tool_loops import (
    CHAT_TOOL,
    HEADERS,
    QUESTION,
    REPLIES,
    TOOL,
    announcing,
    call,
    check_goes_on,
    oss_app,
    plays,
    prompts,
    spelled,
    thinking,
)

Item = dict[str, Any]


@contextmanager
def served(*replies: str, **options: Any) -> Iterator[tuple[str, ScriptedEngine]]:
    engine = plays(*(replies or REPLIES))
    with running(oss_app(engine, **options)) as base:
        yield base, engine


def asked(base: str, *items: Item, **fields: Any) -> Got:
    got = respond(base, {"input": [{"role": "user", "content": QUESTION}, *items], "tools": [TOOL], **fields})
    assert got.status == 200, got.body
    return got


def result(items: list[Item]) -> Item:
    (id,) = [item["call_id"] for item in items if item["type"] == "function_call"]
    return {"type": "function_call_output", "call_id": id, "output": "dry"}


def changed(kind: str, **changes: Any) -> Callable[[list[Item]], list[Item]]:
    return lambda items: [{**item, **changes} if item["type"] == kind else item for item in items]


THE_SAME: dict[str, Callable[[list[Item]], list[Item]]] = {
    "as they came": lambda items: items,
    "reasoning by its id alone": changed("reasoning", status=None, summary=None, content=None),
    "arguments anew": changed("function_call", arguments='{"city":"Bern"}'),
    "without their status": changed("function_call", status=None),
    "reasoning without an id": changed("reasoning", id=None, status=None),
    "reasoning with an id of the client's": changed("reasoning", id="mine"),
    "reasoning with an id that nobody knows": changed("reasoning", id=f"rs_{'0' * 28}"),
    "a call without its reasoning": lambda items: without("reasoning", items),
    "a call without its reasoning and its id": lambda items: changed("function_call", id=None)(
        without("reasoning", items)
    ),
    "a call with an id of the client's": lambda items: changed("function_call", id="fc_mine")(
        without("reasoning", items)
    ),
    "a call alone": lambda items: without("reasoning", without("message", items)),
}
ODD = thinking("SECRET 0.") + announcing("One more.") + call("Bern", header=HEADERS[1])
"""A reply whose call stands behind a preamble, and under a header that nobody would write anew."""


def without(kind: str, items: list[Item]) -> list[Item]:
    return [item for item in items if item["type"] != kind]


@pytest.mark.parametrize("fields", [{}, {"stream": True, "store": False}], ids=str)
@pytest.mark.parametrize("way", THE_SAME)
async def test_items_that_say_the_same_are_what_the_model_wrote(way: str, fields: dict[str, Any]) -> None:
    for first in (REPLIES[0], ODD):
        engine = plays(first, REPLIES[-1])
        application = oss_app(engine)
        body = {"input": [{"role": "user", "content": QUESTION}], "tools": [TOOL], "model": "oss", **fields}
        items = THE_SAME[way](output(await post_in_process(application, "/v1/responses", **body)))
        body["input"] = [*body["input"], *items, result(items)]
        got = await post_in_process(application, "/v1/responses", **body)
        output(got)
        check_goes_on(engine, [first])
        assert "x-antiphon-ignored" not in got.headers


def output(got: Got) -> list[Item]:
    """The items of a response, streamed or not."""
    assert got.status == 200, got.body
    response = got.json if got.body.startswith(b"{") else events_of(got)[-1]["response"]
    items: list[Item] = response["output"]
    return items


async def test_a_turn_is_found_by_its_call_in_whichever_api_it_comes_back() -> None:
    engine = plays(REPLIES[0], REPLIES[-1])
    application = oss_app(engine)
    question = {"role": "user", "content": QUESTION}
    (answer,) = (
        await post_in_process(application, "/v1/chat/completions", messages=[question], tools=[CHAT_TOOL])
    ).json["choices"]
    (made,) = answer["message"]["tool_calls"]
    items = [
        {"type": "function_call", "call_id": made["id"], **made["function"]},
        {"type": "function_call_output", "call_id": made["id"], "output": "dry"},
    ]
    output(await post_in_process(application, "/v1/responses", input=[question, *items], tools=[TOOL]))
    check_goes_on(engine, REPLIES[:1])


CHANGED: dict[str, tuple[Callable[[list[Item]], list[Item]], str]] = {
    "arguments": (changed("function_call", arguments='{"city": "Basel"}'), "Basel"),
    "a name": (changed("function_call", name="rain"), "functions.rain"),
    "content of reasoning": (changed("reasoning", content=[{"type": "reasoning_text", "text": "Mine."}]), "Mine."),
    "a summary of reasoning": (changed("reasoning", summary=[{"type": "summary_text", "text": "Short."}]), "Short."),
}


@pytest.mark.parametrize("way", CHANGED)
def test_what_the_client_changed_stays_the_client_s(way: str) -> None:
    change, said = CHANGED[way]
    with served() as (base, engine):
        items = change(asked(base).json["output"])
        asked(base, *items, result(items))
    prompt = spelled(prompts(engine)[1])
    assert said in prompt
    assert ("SECRET" in prompt) is ("reasoning" not in way), "the other items are as they were"


@pytest.mark.parametrize(("fields", "id"), [({"store": False}, None), ({}, f"rs_{'0' * 28}"), ({}, "mine")])
def test_reasoning_that_nobody_knows_is_named_as_ignored(fields: dict[str, Any], id: str | None) -> None:
    with served(session_limits=SessionLimits(turns=TurnLimits(lifetime=0))) as (base, engine):
        items = asked(base, **fields).json["output"]
        items = items if id is None else changed("reasoning", id=id)(items)
        got = asked(base, *items, result(items), **fields)
    assert got.headers["x-antiphon-ignored"] == "input[1]"
    assert "SECRET" not in spelled(prompts(engine)[1])


def test_another_key_s_items_are_not_there() -> None:
    (ann, anns), (bob, bobs) = new_key("ann"), new_key("bob")
    with served(keys=[anns, bobs]) as (base, engine):

        def as_who(key: str, *items: Item) -> Got:
            fields = {"input": [{"role": "user", "content": QUESTION}, *items], "tools": [TOOL]}
            bearer = {"content_type": "application/json", "authorization": f"Bearer {key}"}
            got = request(base, "POST", "/v1/responses", json.dumps(fields).encode(), **bearer)
            assert got.status == 200, got.body
            return got

        items = as_who(ann).json["output"]
        got = as_who(bob, *items, result(items))
        as_who(ann, *items, result(items))
    _, of_bob, of_ann = map(spelled, prompts(engine))
    assert "SECRET" not in of_bob
    assert got.headers["x-antiphon-ignored"] == "input[1]"
    assert "SECRET" in of_ann


def test_items_of_a_conversation_and_of_what_was_answered() -> None:
    """Of the unfinished turn everything is found; what was thought before the last answer is not needed any more."""
    with served() as (base, engine):
        id = post(base, "/v1/conversations").json["id"]
        items = asked(base, conversation=id).json["output"]
        asked(base, *items, result(items))
        answered = {"role": "assistant", "content": "Dry."}
        got = asked(base, *items, result(items), answered, {"role": "user", "content": "Sure?"})
    _, second, third = map(spelled, prompts(engine))
    assert "SECRET" in second
    assert "SECRET" not in third
    assert "x-antiphon-ignored" not in got.headers


def test_a_conversation_that_is_made_of_items_has_their_reasons() -> None:
    with served() as (base, engine):
        question = {"role": "user", "content": QUESTION}
        first = asked(base).json["output"]
        id = post(base, "/v1/conversations", items=[question, *first]).json["id"]
        other = post(base, "/v1/conversations", items=[question]).json["id"]
        references = [{"type": "item_reference", "id": item["id"]} for item in first]
        assert post(base, f"/v1/conversations/{other}/items", items=references).status == 200
        for conversation in (id, other):
            assert (
                respond(base, {"input": [result(first)], "conversation": conversation, "tools": [TOOL]}).status == 200
            )
    first_prompt, *rest = prompts(engine)
    for prompt in rest:
        assert spelled(prompt).startswith(spelled(first_prompt) + REPLIES[0])


@pytest.mark.parametrize("options", [{}, {"store": False, "include": ["reasoning.encrypted_content"]}])
def test_what_the_server_s_tools_did_comes_back_with_the_items(options: dict[str, Any]) -> None:
    def look(city: str) -> str:
        return f"LOOKED at {city}"

    replies = (thinking("SECRET a.") + call("Bern", "look"), thinking("SECRET b.") + call("Bern"), REPLIES[-1])
    with served(*replies, tools=Toolbox([FunctionToolSet([look])]), offer_tools=True) as (base, engine):
        items = asked(base, **options).json["output"]
        assert [item["type"] for item in items] == ["reasoning", "mcp_call", "reasoning", "function_call"]
        asked(base, *items, result(items), **options)
        asked(base, *changed("mcp_call", output="LOST")(items), result(items), **options)
    check_goes_on(engine, replies[:2])
    assert "LOOKED at Bern" in spelled(prompts(engine)[2])
    assert "LOOKED at Bern" not in spelled(prompts(engine)[3])
    assert "LOST" in spelled(prompts(engine)[3])


def test_encrypted_items_say_what_the_client_says_or_are_left_aside() -> None:
    options: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    with served() as (base, engine):
        items = asked(base, **options).json["output"]
        asked(base, *items, result(items), **options)
        edited = changed("function_call", arguments='{"city": "Basel"}')(items)
        asked(base, *edited, result(items), **options)
        (encrypted,) = [item["encrypted_content"] for item in items if item["type"] == "function_call"]
        swapped = changed("reasoning", encrypted_content=encrypted)(items)
        body = {"input": [{"role": "user", "content": QUESTION}, *swapped, result(items)]}
        refused = respond(base, body)
    check_goes_on(engine, REPLIES[:1])
    assert "Basel" in spelled(prompts(engine)[2])
    assert (refused.status, refused.error["code"]) == (400, "invalid_encrypted_content")
    assert refused.error["param"] == "input[1].encrypted_content"


def test_the_official_client_sends_items_of_custom_tools_back() -> None:
    tool: Any = {"type": "custom", "name": "note", "description": "Notes it."}
    written = call("x", "note").replace("city", "input")
    replies = (thinking("SECRET") + written, REPLIES[-1])
    with served(*replies) as (base, engine), openai.OpenAI(base_url=f"{base}/v1", api_key="any") as client:
        first = client.responses.create(model="oss", input=QUESTION, tools=[tool])
        (id,) = [item.call_id for item in first.output if item.type == "custom_tool_call"]
        output: Any = {"type": "custom_tool_call_output", "call_id": id, "output": "noted"}
        history: list[Any] = [{"role": "user", "content": QUESTION}, *first.output, output]
        client.responses.create(model="oss", input=history, tools=[tool])
    check_goes_on(engine, replies[:1])
