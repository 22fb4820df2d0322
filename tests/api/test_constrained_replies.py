"""Constrained replies behind the API: the official client's helpers, one to three calls, what cannot be enforced."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.tokens import Piece
from kit.api import CALL, END, UNCALL, Got, chat, ids, request, running, scripted
from kit.obliging import ENDS, constrained

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "parameters": CITY}} for name in ("weather", "time", "news")
]
ASK: list[Any] = [{"role": "user", "content": "Hi"}]


def says(*pieces: Piece, chunk: int = 3) -> Any:
    """An application whose model says this, constrained to what is requested of it."""
    engine = scripted(ids(*pieces, END), end_ids=ENDS, chunk=chunk)
    return create_app(StaticCatalog({"small": constrained(engine)}))


def calls(*names: str) -> list[Piece]:
    """Calls as the template's model writes them."""
    reply: list[Piece] = []
    for name in names:
        reply += ["\n"] if reply else []
        reply += [CALL, f'\n{{"name": "{name}", "arguments": {{"city": "Zürich"}}}}\n', UNCALL]
    return reply


class Weather(BaseModel):
    city: str


class Person(BaseModel):
    name: str
    age: int


@pytest.mark.parametrize("names", [["weather"], ["weather", "time"], ["weather", "time", "news"]])
def test_calls_are_the_same_streamed_and_not(names: list[str]) -> None:
    with running(says(*calls(*names))) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
        request: dict[str, Any] = {"model": "small", "messages": ASK, "tools": TOOLS, "tool_choice": "required"}
        whole = client.chat.completions.create(**request).choices[0]
        with client.chat.completions.stream(**request) as stream:
            streamed = stream.get_final_completion().choices[0]
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"
    calls_made = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls or []]
    assert calls_made == [(c.function.name, c.function.arguments) for c in streamed.message.tool_calls or []]
    assert calls_made == [(name, '{"city": "Zürich"}') for name in names]
    given = [c.id for c in (*(whole.message.tool_calls or ()), *(streamed.message.tool_calls or ()))]
    assert len({*given}) == 2 * len(names), "each call of each answer has an id of its own"


def test_the_client_parses_what_was_constrained_to_its_own_classes() -> None:
    with (
        running(says('{"name":"Ada","age":36}')) as base,
        openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client,
    ):
        request: dict[str, Any] = {"model": "small", "messages": ASK, "response_format": Person}
        parsed = client.chat.completions.parse(**request).choices[0].message.parsed
        with client.chat.completions.stream(**request) as stream:
            streamed = stream.get_final_completion().choices[0].message.parsed
    assert parsed == streamed == Person(name="Ada", age=36)


def test_the_client_parses_the_arguments_of_strict_tools() -> None:
    with running(says(*calls("Weather"))) as base, openai.OpenAI(base_url=f"{base}/v1", api_key="x") as client:
        tool = openai.pydantic_function_tool(Weather)
        answer = client.chat.completions.parse(model="small", messages=ASK, tools=[tool]).choices[0]
    assert answer.message.tool_calls
    assert answer.message.tool_calls[0].function.parsed_arguments == Weather(city="Zürich")


NAMED = {"type": "function", "function": {"name": "time"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        (calls("weather"), {"tool_choice": NAMED}),
        (calls("weather"), {"tool_choice": ALLOWED}),
        (calls("weather"), {"tool_choice": "none"}),
        (["No."], {"tool_choice": "required"}),
        (["No."], {"response_format": {"type": "json_object"}}),
    ],
)
def test_an_engine_that_says_otherwise_is_an_error_and_never_a_success(reply: Sequence[Piece], fields: Any) -> None:
    with running(says(*reply)) as base:
        whole, streamed = chat(base, tools=TOOLS, **fields), chat(base, tools=TOOLS, stream=True, **fields)
    assert (whole.status, whole.error["code"]) == (502, "grammar_broken")
    assert streamed.status == 502 or streamed.events[-1]["error"]["code"] == "grammar_broken"


def test_without_parallel_calls_there_is_one() -> None:
    with running(says(*calls("weather", "time"), chunk=1)) as base:
        (choice,) = chat(base, tools=TOOLS, parallel_tool_calls=False).json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["weather"]


def test_what_ends_within_a_value_says_length() -> None:
    with running(says('{"name":"Ada Lovelace","age":36}')) as base:
        answer = chat(base, response_format={"type": "json_object"}, max_tokens=9)
    assert answer.json["choices"][0]["finish_reason"] == "length"
    assert answer.json["choices"][0]["message"]["content"] == '{"name":"'


def nested(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


HOSTILE: dict[str, Any] = {
    "type": {"type": "strin"},
    "missing reference": {"$ref": "#/$defs/x"},
    "remote reference": {"$ref": "http://127.0.0.1:9/x"},
    "file": {"$ref": "file:///etc/passwd"},
    "items": {"type": "array", "minItems": 10**9},
    "most items": {"type": "array", "maxItems": 10**9},
    "properties": {"type": "object", "minProperties": 10**9},
    "negative": {"type": "string", "minLength": -1},
    "fraction": {"type": "string", "minLength": 1.5},
    "deep": nested(200),
    "look-around": {"type": "string", "pattern": "(?=x)"},
    "back-reference": {"type": "string", "pattern": r"(a)\1"},
    "repetitions": {"type": "string", "pattern": "((a{1000}){1000}){1000}"},
    "crossed": {"allOf": [{"oneOf": [{"required": [f"{i}{k}"]} for k in "abcd"]} for i in range(12)]},
    "U+0000": {"type": "string", "pattern": "a\0"},
    "least above most": {"type": "integer", "minimum": 3, "maximum": 2},
    "a tiny step": {"type": "number", "multipleOf": 1e-300},
    "enum": {"enum": list(range(20_000))},
    "long enum": {"enum": list(range(200_000))},
    "megabytes": {"description": "x" * 1_000_000},
    "many properties": {"type": "object", "properties": {f"p{i}": {} for i in range(5_000)}},
    "nothing": False,
}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with running(says("yes")) as url:
        chat(url, response_format={"type": "json_object"})  # builds the vocabulary, once a model
        yield url


def refused(got: Got, *place: str) -> None:
    assert got.status == 400, got.body[:300]
    assert str(got.error["param"]).startswith(place), got.error
    assert got.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused_quickly_and_by_name(base: str, name: str) -> None:
    format = {"name": "x", "schema": HOSTILE[name], "strict": True}
    started = time.process_time()
    refused(chat(base, response_format={"type": "json_schema", "json_schema": format}), "response_format")
    tool = {"type": "function", "function": {"name": "f", "parameters": HOSTILE[name], "strict": True}}
    if HOSTILE[name] is not False:  # parameters are an object
        refused(chat(base, tools=[tool], tool_choice="required"), "tools[0]")
    # 100 ms each on an idle machine; client and server are this process.
    assert time.process_time() - started < 2
    assert chat(base).json["choices"][0]["message"]["content"] == "yes"


@pytest.mark.parametrize("schema", [[], "", 1])
def test_what_is_no_schema_is_refused(base: str, schema: object) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    refused(chat(base, response_format=format), "response_format")
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    refused(chat(base, tools=[tool]), "tools[0].function.parameters")


@pytest.mark.parametrize("depth", [200, 10_000, 100_000])
def test_deep_schemas_are_refused_however_deep(base: str, depth: int) -> None:
    schema = '{"items":' * depth + "{}" + "}" * depth
    format = f'{{"type":"json_schema","json_schema":{{"name":"x","schema":{schema}}}}}'
    # Elsewhere in a body a little nesting harms nobody, and says nothing.
    for place, statuses in ((f'"response_format":{format}', {400}), (f'"metadata":{schema}', {200, 400})):
        body = f'{{"messages":[{{"role":"user","content":"Hi"}}],{place}}}'.encode()
        got = request(base, "POST", "/v1/chat/completions", body, content_type="application/json")
        assert got.status in statuses, got.body[:300]


def test_a_thousand_tools_and_large_ones_are_refused_by_name(base: str) -> None:
    large = {"type": "object", "description": "x" * 1_000, "properties": {f"p{i}": CITY for i in range(20)}}
    many = [{"type": "function", "function": {"name": f"f{i}", "parameters": large}} for i in range(1_000)]
    started = time.process_time()
    refused(chat(base, tools=many, tool_choice="required"), "tools")
    assert time.process_time() - started < 10


@pytest.mark.parametrize("raw", [{"grammar": "root ::= " + "(" * 50_000}, {"guided_grammar": "%llguidance {}"}])
def test_a_callers_own_grammar_never_reaches_the_engine(raw: dict[str, str]) -> None:
    engine = scripted(ids("yes", END), end_ids=ENDS)
    with running(create_app(StaticCatalog({"small": constrained(engine)}))) as base:
        refused(chat(base, **raw), next(iter(raw)))
    assert all(grammar is None for _, _, grammar in engine.requests)


def test_unknown_names_and_doubled_tools_are_refused(base: str) -> None:
    refused(chat(base, tools=TOOLS, tool_choice={"type": "function", "function": {"name": "sun"}}), "tool_choice")
    refused(chat(base, tool_choice="required"), "tool_choice")
    refused(chat(base, tools=[TOOLS[0], TOOLS[0]]), "tools[1]")
    for name in ("a b", "..", "x" * 65, "<|x|>"):
        refused(chat(base, tools=[{"type": "function", "function": {"name": name}}]), "tools[0].function.name")
