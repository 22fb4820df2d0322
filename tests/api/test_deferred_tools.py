"""Tools that come later: each is defined where a result first refers to it, and may be called from there on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.formats import Format
from antiphon.formats.openchatml import OpenChatML
from antiphon.generation import Model
from antiphon.tokens import decode
from kit.api import CHATML, END, TOKENIZER, Got, app, call, exchange, ids, replies, running, scripted
from kit.messages import USER, WEATHER, Fields
from kit.obliging import ObligingEngine, constrained
from kit.responses import HARMONY, VOCABULARY, harmony_ids
from kit.responses import RETURN as HARMONY_END

SEARCH: Fields = {"name": "ToolSearch", "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}}}
LATER: Fields = {**WEATHER, "defer_loading": True}
OTHER: Fields = {"name": "other", "description": "Never needed.", "input_schema": {"type": "object"}}
SEARCHED: list[Fields] = [
    USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "s", "name": "ToolSearch", "input": {}}]}
]  # fmt: skip
OPENCHATML = OpenChatML()
JSON = json.dumps({"type": "function", "function": {
    "name": "weather", "description": "The weather of a city.", "parameters": WEATHER["input_schema"]}})  # fmt: skip
DEFINED = {
    CHATML: JSON,
    OPENCHATML: '# Tools\n\n## functions\n{"name": "functions.weather"',
    HARMONY: "namespace functions {\n\n// The weather of a city.\ntype weather = (_: {\ncity: string,\n}) => any;",
}


def found(*names: str | None, **fields: Any) -> Fields:
    """The result of a search."""
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    block = {"type": "tool_result", "tool_use_id": "s", "content": references, **fields}
    return {"role": "user", "content": [block]}


async def asked(format: Format, tools: Sequence[Fields], *messages: Fields, **fields: Any) -> tuple[Got, str]:
    """The answer, and the prompt that its model read."""
    tokenizer, reply = (VOCABULARY, harmony_ids(HARMONY_END)) if format is HARMONY else (TOKENIZER, ids(END))
    engine = scripted(reply)
    model = Model(name="small", engine=engine, tokenizer=tokenizer, format=format)
    body = {"model": "small", "max_tokens": 99, "tools": tools, "messages": [*SEARCHED, *messages], **fields}
    got = await exchange(create_app(StaticCatalog({"small": model})), "/v1/messages", body, [])
    return got, decode(tokenizer, engine.requests[-1][0]) if engine.requests else ""


@pytest.mark.parametrize("format", DEFINED, ids=lambda format: format.name)
async def test_a_tool_stands_where_a_result_refers_to_it_and_the_prompt_before_it_is_as_without_it(
    format: Format,
) -> None:
    with_all, prompt = await asked(format, [SEARCH, LATER, {**OTHER, "defer_loading": True}], found("weather"))
    without, plain = await asked(format, [SEARCH], found("ToolSearch"))
    assert (with_all.status, without.status) == (200, 200), (with_all.body, without.body)
    before = plain[: plain.rindex("ToolSearch")]
    assert prompt.startswith(before)
    assert DEFINED[format] in prompt[len(before) :]
    assert DEFINED[format] not in before
    assert "Never needed" not in prompt


async def test_a_tool_that_nothing_refers_to_is_no_part_of_the_prompt_and_cannot_be_called() -> None:
    _, prompt = await asked(CHATML, [SEARCH, LATER], found("ToolSearch"))
    _, without = await asked(CHATML, [SEARCH], found("ToolSearch"))
    assert prompt == without
    chosen = {"type": "tool", "name": "weather"}
    refused, _ = await asked(CHATML, [SEARCH, LATER], found("ToolSearch"), tool_choice=chosen)
    assert (refused.status, refused.json["error"]["message"]) == (
        400,
        "tool_choice.name: no tool is named 'weather'. Known: ToolSearch.",
    )


async def test_a_tool_is_defined_once_and_named_where_it_stands_already() -> None:
    again = [{**message, "content": json.loads(json.dumps(message["content"]).replace('"s"', '"t"'))} for message in
             (SEARCHED[1], found("weather", "ToolSearch"))]  # fmt: skip
    got, prompt = await asked(CHATML, [SEARCH, LATER], found("weather"), *again)
    assert got.status == 200, got.body
    assert prompt.count(JSON) == 1
    assert "<tool_response>\nweather\nToolSearch\n\n</tool_response>" in prompt


async def test_a_definition_stands_apart_from_other_texts_and_in_no_document() -> None:
    reference = {"type": "tool_reference", "tool_name": "weather"}
    got, prompt = await asked(CHATML, [SEARCH, LATER], found(content=[{"type": "text", "text": "Found:"}, reference]))
    assert got.status == 200, got.body
    assert f"<tool_response>\nFound:\n\n{JSON}\n</tool_response>" in prompt
    inside = {"type": "search_result", "title": "t", "source": "s", "content": [reference]}
    refused, _ = await asked(CHATML, [SEARCH, LATER], found(content=[inside]))
    assert refused.status == 400
    assert refused.json["error"]["message"].startswith("messages[2].content[0].content[0].content[0]: blocks of type")


@pytest.mark.parametrize("name", ["nobody", "", None, "Weather", "weather "])
async def test_a_reference_to_no_tool_is_refused_at_its_place(name: str | None) -> None:
    got, _ = await asked(CHATML, [SEARCH, LATER], found(name))
    assert got.status == 400
    assert got.json["error"]["message"].startswith("messages[2].content[0].content[0].tool_name: no tool is named")


@pytest.mark.parametrize("name", ["weather", "ToolSearch"])
async def test_the_grammar_has_it_from_there_on(name: str) -> None:
    """The model writes at random what its grammar allows."""
    engine = ObligingEngine()
    application = create_app(StaticCatalog({"small": constrained(engine)}))
    chosen = {"type": "tool", "name": name}
    body = {"model": "small", "max_tokens": 300, "tools": [SEARCH, LATER], "messages": [*SEARCHED, found("weather")],
            "tool_choice": chosen}  # fmt: skip
    got = await exchange(application, "/v1/messages", body, [])
    assert got.status == 200, got.body
    (use,) = [block for block in got.json["content"] if block["type"] == "tool_use"]
    assert use["name"] == name
    assert name != "weather" or isinstance(use["input"]["city"], str)


async def test_a_call_of_it_is_the_client_s_and_its_history_is_read() -> None:
    engine = scripted(ids(*call("weather", '{"city": "Bern"}'), END))
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=CHATML)
    body = {"model": "small", "max_tokens": 99, "tools": [SEARCH, LATER], "messages": [*SEARCHED, found("weather")]}
    got = await exchange(create_app(StaticCatalog({"small": model})), "/v1/messages", body, [])
    content = got.json["content"]
    assert [(block["type"], block["name"], block["input"]) for block in content] == [
        ("tool_use", "weather", {"city": "Bern"})
    ]
    answer = {"type": "tool_result", "tool_use_id": content[0]["id"], "content": "sunny"}
    history = [found("weather"), {"role": "assistant", "content": content}, {"role": "user", "content": [answer]}]
    again, prompt = await asked(CHATML, [SEARCH, LATER], *history)
    assert again.status == 200, again.body
    assert prompt.index(JSON) < prompt.index('"city": "Bern"') < prompt.index("sunny")


# Responses: a search that the client runs.

FIND: Fields = {"type": "tool_search", "execution": "client"}
OPEN: Fields = {"type": "function", "name": "weather", "description": "The weather of a city.",
                "parameters": WEATHER["input_schema"]}  # fmt: skip
SKY: Fields = {"type": "namespace", "name": "sky", "description": "Of the sky.", "tools": [OPEN]}
FOUND = JSON.replace('"weather"', '"sky.weather"', 1)


def searched(*tools: Fields, **fields: Any) -> list[Fields]:
    """A question, the model's search, and what it found."""
    return [
        {"role": "user", "content": "Hi"},
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "the weather"}},
        {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": list(tools), **fields},
    ]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_search_of_the_client_s_is_an_item_of_its_own_and_what_it_finds_may_be_called(streamed: bool) -> None:
    engine = replies(
        (*call("tool_search", '{"query": "the weather"}'), END),
        (*call("sky.weather", '{"city": "Bern"}'), END),
        ("Sunny.", END),
    )
    tools = [FIND, {**OPEN, "name": "other", "defer_loading": True}]
    with running(app(engine)) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client:

        def ask(**fields: Any) -> Any:
            if not streamed:
                return client.responses.create(model="small", tools=tools, **fields)
            events = list(client.responses.create(model="small", tools=tools, stream=True, **fields))
            assert [event.type for event in events if "item" in event.type][-1] == "response.output_item.done"
            return events[-1].response

        first = ask(input="Hi")
        (search,) = first.output
        assert (search.type, search.execution, search.arguments) == (
            "tool_search_call",
            "client",
            {"query": "the weather"},
        )
        found = {"type": "tool_search_output", "call_id": search.call_id, "execution": "client", "status": "completed",
                 "tools": [SKY]}  # fmt: skip
        second = ask(input=[found], previous_response_id=first.id)
        (called,) = second.output
        assert (called.type, called.namespace, called.name) == ("function_call", "sky", "weather")
        third = {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"}
        ask(input=[third], previous_response_id=second.id)
    one, two, three = (decode(TOKENIZER, prompt) for prompt, *_ in engine.requests)
    assert two.startswith(one)
    assert three.startswith(two)
    assert (FOUND in one, two.count(FOUND), three.count(FOUND)) == (False, 1, 1)
    assert "other" not in three


@pytest.mark.parametrize("name", [None, "weather", "tool_search"])
async def test_what_a_search_found_may_be_chosen_and_nothing_else_that_comes_later(name: str | None) -> None:
    choice = {"type": "function", "name": name} if name else {"type": "function", "name": "other"}
    choice = FIND | {"type": "tool_search"} if name == "tool_search" else choice
    choice.pop("execution", None)
    application = create_app(StaticCatalog({"small": constrained(ObligingEngine())}))
    body = {"model": "small", "tools": [FIND, {**OPEN, "name": "other", "defer_loading": True}], "tool_choice": choice,
            "input": searched(OPEN), "max_output_tokens": 300}  # fmt: skip
    got = await exchange(application, "/v1/responses", body, [])
    if name is None:
        assert (got.status, got.json["error"]["param"]) == (400, "tool_choice.name")
        return
    assert got.status == 200, got.body
    (item,) = got.json["output"]
    assert item["type"] == ("tool_search_call" if name == "tool_search" else "function_call")


async def test_without_a_search_of_the_client_s_tools_come_at_once_and_that_is_told() -> None:
    engine = scripted(ids(END))
    model = Model(name="small", engine=engine, tokenizer=TOKENIZER, format=CHATML)
    application = create_app(StaticCatalog({"small": model}))
    chosen = {"type": "function", "name": "weather"}
    body: Fields = {"model": "small", "tools": [{"type": "tool_search"}, {**OPEN, "defer_loading": True}],
            "input": "Hi"}  # fmt: skip
    got = await exchange(application, "/v1/responses", body, [])
    assert got.status == 200, got.body
    assert got.headers["x-antiphon-ignored"] == "tools[0].type=tool_search, tools[1].defer_loading"
    chosen_one = constrained(ObligingEngine())
    body |= {"tool_choice": chosen, "max_output_tokens": 300}
    got = await exchange(create_app(StaticCatalog({"small": chosen_one})), "/v1/responses", body, [])
    assert [item["type"] for item in got.json["output"]] == ["function_call"]


@pytest.mark.parametrize(
    ("items", "param"),
    [
        (searched({"type": "web_search"}), "input[2].tools[0].name"),
        (searched({**OPEN, "type": "custom"}), "input[2].tools[0].type"),
        (searched({**SKY, "tools": [SKY]}), "input[2].tools[0].tools[0].type"),
        (searched({**SKY, "name": "a.b"}), "input[2].tools[0].name"),
        (searched({**OPEN, "name": "a.b"}), "input[2].tools[0].name"),
        (searched({**OPEN, "name": "a b"}), "input[2].tools[0].name"),
        (searched(OPEN, OPEN), "input[2].tools[1].name"),
        (searched(tools=None), "input[2].tools"),
        (searched(call_id=None), "input[2].call_id"),
        ([*searched()[:1], {**searched()[1], "arguments": "{}"}], "input[1].arguments"),
        ([*searched()[:1], {**searched()[1], "arguments": None}], "input[1].arguments"),
        (
            [*searched()[:1], {"type": "function_call", "call_id": "s", "name": "f", "arguments": {}}],
            "input[1].arguments",
        ),
        (
            [{"type": "mcp_list_tools", "server_label": "x", "tools": [{"name": 1}]}],
            "input[0].tools[0].name",
        ),
    ],
)
async def test_a_search_that_is_none_is_refused_at_its_place(items: list[Fields], param: str) -> None:
    got = await exchange(app(scripted(ids(END))), "/v1/responses", {"input": items, "tools": [FIND]}, [])
    assert (got.status, got.json["error"]["param"]) == (400, param), got.body
