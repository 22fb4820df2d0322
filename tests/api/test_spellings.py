"""Every spelling of a call, and of an answer, that a constrained model may sample is the same over HTTP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import Piece
from kit.api import in_process
from kit.responses import CALL, CHANNEL, CONSTRAIN, END, HARMONY, MESSAGE, RETURN, START, VOCABULARY, harmony_ids

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
ENDS = frozenset(VOCABULARY.controls[end] for end in (RETURN, CALL))
COMPILER = ReplyCompiler(HARMONY, VOCABULARY, ENDS, seconds=60)
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


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "weather"}}], ids=str)
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: "".join(map(str, header)))
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


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: "".join(map(str, header)))
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
