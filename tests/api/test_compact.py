"""JSON without blanks, in any server's words, of a model that was trained to write some."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest
from llguidance import LLMatcher
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar.compiler import Vocabulary
from antiphon.tokens import Piece
from kit.api import in_process, post_in_process
from kit.masked import FORMATS, masked_app
from kit.responses import CALL, CHANNEL, CONSTRAIN, END, HARMONY, MESSAGE, RETURN, START, VOCABULARY, harmony_ids

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"input": "Hi", "store": False},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
ENDS = frozenset(VOCABULARY.controls[end] for end in (RETURN, CALL))
COMPILER = ReplyCompiler(HARMONY, VOCABULARY, ENDS, seconds=60)
TOKENS = Vocabulary(VOCABULARY, ENDS).tokens
COMPACT = '{"a":1}'
SPACED = [' {"a":1}', '{"a": 1}', '{ "a":1}', '{"a":1 }', '{\n  "a": 1\n}', '{"a":1}\n']


def said(answer: str) -> list[int]:
    return harmony_ids(CHANNEL, "final", MESSAGE, answer, RETURN)


async def admitted(route: str, fields: dict[str, Any]) -> list[str]:
    """Which of the answers with blanks the engine may write; the one without any it always may."""
    engine = ScriptedEngine(said(COMPACT), end_ids=ENDS)
    model = Model(name="m", engine=engine, tokenizer=VOCABULARY, format=HARMONY, compiler=COMPILER)
    got = await post_in_process(create_app(StaticCatalog({"m": model})), route, **BODIES[route], **fields)
    assert got.status == 200, got.body
    assert "x-antiphon-ignored" not in got.headers
    start = LLMatcher(TOKENS, engine.requests[-1][2] or "", log_level=0)
    assert _takes(start, COMPACT)
    return [answer for answer in SPACED if _takes(start, answer)]


def _takes(start: LLMatcher, answer: str) -> bool:
    matcher, ids = start.deep_copy(), said(answer)
    return bool(matcher.validate_tokens(ids) == len(ids))


def own(route: str, form: dict[str, Any]) -> dict[str, Any]:
    """The format in the route's own field."""
    if route == CHAT and form["type"] == "json_schema":
        inner = {"name": "n", "schema": form["schema"]}
        return {"response_format": {**{k: v for k, v in form.items() if k != "schema"}, "json_schema": inner}}
    return {"response_format": form} if route == CHAT else {"text": {"format": {"name": "n", **form}}}


FORMS: list[dict[str, Any]] = [{"type": "json_object"}, {"type": "json_schema", "schema": SCHEMA}]


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form["type"]))
async def test_a_form_has_blanks_unless_it_says_that_it_is_compact(route: str, form: dict[str, Any]) -> None:
    assert await admitted(route, own(route, form)) == SPACED
    assert await admitted(route, own(route, {**form, "compact": False})) == SPACED
    assert await admitted(route, own(route, {**form, "compact": True})) == []
    assert await admitted(route, {**own(route, form), "guided_whitespace_pattern": "[ ]?"}) == []


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    ("fields", "compact"),
    [
        ({"structured_outputs": {"json": SCHEMA}}, False),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": False}}, False),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, True),
        ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": ""}}, True),
        ({"structured_outputs": {"json_object": True, "whitespace_pattern": "\\s?"}}, True),
        ({"guided_json": SCHEMA}, False),
        ({"guided_json": SCHEMA, "guided_whitespace_pattern": " ?"}, True),
    ],
)
async def test_so_it_is_in_the_words_of_other_servers(route: str, fields: dict[str, Any], compact: bool) -> None:
    assert await admitted(route, fields) == ([] if compact else SPACED)


async def test_a_word_that_is_no_truth_value_is_an_error_at_its_place() -> None:
    model = Model(name="m", engine=ScriptedEngine([]), tokenizer=VOCABULARY, format=HARMONY)
    form = {"type": "json_object", "compact": "very"}
    got = await post_in_process(create_app(StaticCatalog({"m": model})), CHAT, **BODIES[CHAT], response_format=form)
    assert got.status == 400
    assert got.error["param"] == "response_format.compact"


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
NAMED = {"type": "function", "function": {"name": "weather"}}
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
TYPES: tuple[tuple[Piece, ...], ...] = ((), (" json",), (" ", CONSTRAIN, "json"), (CONSTRAIN, "json"), (" code",))
HEADERS: list[tuple[Piece, ...]] = [
    header
    for channel, type in product(("commentary", "analysis"), TYPES)
    for header in (
        (" to=functions.weather", CHANNEL, channel, *type, MESSAGE),
        (CHANNEL, f"{channel} to=functions.weather", *type, MESSAGE),
    )
]


def app(reply: Sequence[int]) -> Starlette:
    engine = ScriptedEngine(reply, end_ids=ENDS)
    return create_app(
        StaticCatalog({"m": Model(name="m", engine=engine, tokenizer=VOCABULARY, format=HARMONY, compiler=COMPILER)})
    )


@pytest.mark.parametrize(
    ("header", "choice"), [*zip(HEADERS, cycle(("auto", "required", NAMED)), strict=False)], ids=str
)
async def test_every_spelling_of_a_call_is_that_call(header: Sequence[Piece], choice: Any) -> None:
    application = app(harmony_ids(*header, '{"city": "Bern"}', CALL))
    got = await in_process(application, tools=[TOOL], tool_choice=choice)
    assert got.status == 200, got.body
    (answer,) = got.json["choices"]
    assert [call["function"] for call in answer["message"]["tool_calls"]] == [
        {"name": "weather", "arguments": '{"city": "Bern"}'}
    ]
    assert (answer["finish_reason"], answer["message"]["content"] or "") == ("tool_calls", "")


@pytest.mark.parametrize("header", HEADERS[::3], ids=lambda header: "".join(map(str, header)))
async def test_every_spelling_of_a_call_is_whole_at_its_limit(header: Sequence[Piece]) -> None:
    reply = harmony_ids(*header, '{"city": "Bern and all the villages around it"}', CALL)
    most = len(harmony_ids(*header)) + 25
    got = await in_process(app(reply), tools=[TOOL], tool_choice="required", max_tokens=most, finish="always")
    assert got.status == 200, got.body
    (answer,) = got.json["choices"]
    (called,) = answer["message"]["tool_calls"]
    assert json.loads(called["function"]["arguments"])["city"].startswith("Bern")
    assert answer["finish_reason"] == "length"


@pytest.mark.parametrize(("header", "choice"), [*zip(HEADERS[::3], cycle(("auto", "required")), strict=False)], ids=str)
async def test_a_thought_and_a_call_that_fit_are_the_models_own(header: Sequence[Piece], choice: str) -> None:
    """An ending is known at each token of them, or the reply would be ended at once."""
    thought: list[Piece] = [CHANNEL, "analysis", MESSAGE, "They ask for the weather.", END, START, "assistant"]
    preamble: list[Piece] = [CHANNEL, "commentary", MESSAGE, "One moment.", END, START, "assistant"]
    reply = harmony_ids(*thought, *preamble, *header, '{"city": "Bern"}', CALL)
    fields: dict[str, Any] = {"tools": [TOOL], "tool_choice": choice, "max_tokens": len(reply), "finish": "always"}
    got = await in_process(app(reply), **fields)
    assert got.status == 200, got.body
    (answer,) = got.json["choices"]
    assert [call["function"]["arguments"] for call in answer["message"]["tool_calls"]] == ['{"city": "Bern"}']
    assert answer["message"]["content"] == "One moment."
    assert answer["finish_reason"] == "tool_calls"


async def test_a_thought_and_an_answer_that_fit_are_the_models_own() -> None:
    thought: list[Piece] = [CHANNEL, "analysis", MESSAGE, "They ask for a city.", END, START, "assistant"]
    reply = harmony_ids(*thought, CHANNEL, "final", MESSAGE, '{"city": "Bern"}', RETURN)
    got = await in_process(app(reply), response_format=FORM, max_tokens=len(reply), finish="always")
    (answer,) = got.json["choices"]
    assert (answer["message"]["content"], answer["finish_reason"]) == ('{"city": "Bern"}', "stop")


@pytest.mark.parametrize("type", [(), (" ", CONSTRAIN, "json"), (CONSTRAIN, "json")], ids=str)
async def test_every_spelling_of_an_answer_is_that_answer(type: Sequence[Piece]) -> None:
    application = app(harmony_ids(CHANNEL, "final", *type, MESSAGE, '{"city": "Bern"}', RETURN))
    got = await in_process(application, response_format=FORM)
    assert got.status == 200, got.body
    (answer,) = got.json["choices"]
    assert (answer["message"]["content"], answer["finish_reason"]) == ('{"city": "Bern"}', "stop")
    assert not answer["message"].get("tool_calls")


BEFORE: dict[str, Any] = {
    "reasoning": {"type": "string", "maxLength": 20},
    "answer": {"type": "string", "maxLength": 10},
}
AFTER = {name: BEFORE[name] for name in reversed(BEFORE)}


def object_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
    }


PEOPLE = object_of(
    {
        "summary": object_of(AFTER),
        "step": object_of(BEFORE),
        "note": {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
    }
)
ORDER = {"summary": ["answer", "reasoning"], "step": ["reasoning", "answer"]}


served = cache(masked_app)


def order_of(text: str) -> dict[str, list[str]]:
    return {name: list(value) for name, value in json.loads(text).items() if isinstance(value, dict)}


@pytest.mark.parametrize("name", FORMATS)
async def test_an_answer_reasons_first_where_its_schema_does(name: str) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": PEOPLE}}
    messages = [{"role": "user", "content": "Is 7 prime? And is 9?"}]
    got = await post_in_process(served(), "/v1/chat/completions", model=name, messages=messages, response_format=form)
    assert got.status == 200, got.body
    assert order_of(got.json["choices"][0]["message"]["content"]) == ORDER


@pytest.mark.parametrize("name", FORMATS)
async def test_so_do_the_arguments_of_a_call(name: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": PEOPLE}}
    messages = [{"role": "user", "content": "Is 7 prime? Is 9 prime?"}]
    got = await post_in_process(
        served(), "/v1/chat/completions", model=name, messages=messages, tools=[tool], tool_choice="required"
    )
    assert got.status == 200, got.body
    call, *_ = got.json["choices"][0]["message"]["tool_calls"]
    assert order_of(call["function"]["arguments"]) == ORDER
