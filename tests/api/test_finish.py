"""``finish: always``: a constrained answer is whole at every limit, however it is streamed and cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import Piece
from kit.api import CALL, CHATML, END, TOKENIZER, UNCALL, Got, in_process, post_in_process
from kit.api import ids as chatml_ids
from kit.responses import CALL as OSS_CALL
from kit.responses import CHANNEL, CONSTRAIN, HARMONY, MESSAGE, RETURN, VOCABULARY, harmony_ids

REQUIRED = ["name", "people", "kind", "tags"]
SHORTEST = '{"name":"aa","people":0,"kind":"village","tags":[""]}'
CITY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "people": {"type": "integer"},
        "kind": {"enum": ["town", "village"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": REQUIRED,
    "additionalProperties": False,
}
BERN = '{"name":"Bern and more","people":134591,"kind":"town","tags":["bears","old town","river"]}'
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": CITY}}


def app(reply: Sequence[int], *, harmony: bool = False, chunk: int = 1, grammar: bool = True) -> Starlette:
    format, tokenizer = (HARMONY, VOCABULARY) if harmony else (CHATML, TOKENIZER)
    ends = frozenset(tokenizer.controls[end] for end in (END, RETURN, OSS_CALL) if end in tokenizer.controls)
    engine = ScriptedEngine(reply, end_ids=ends, chunk=chunk, grammar=grammar)
    compiler = ReplyCompiler(format, tokenizer, ends) if grammar else None
    return create_app(
        StaticCatalog({"m": Model(name="m", engine=engine, tokenizer=tokenizer, format=format, compiler=compiler)})
    )


def content(got: Got) -> tuple[str, str]:
    assert got.status == 200, got.body
    if got.body.startswith(b"{"):
        choice = got.json["choices"][0]
        assert got.json["usage"]["completion_tokens"] > 0
        return choice["message"]["content"], choice["finish_reason"]
    choices = [event["choices"][0] for event in got.events[:-1]]
    return "".join(choice["delta"].get("content") or "" for choice in choices), choices[-1]["finish_reason"]


WHOLE = chatml_ids(BERN, END)


@pytest.mark.parametrize(("stream", "chunk"), [(True, 1), (False, 7), (True, 1000)])
async def test_an_answer_is_whole_at_every_limit(stream: bool, chunk: int) -> None:
    fits = 0
    for most in range(40, len(WHOLE) + 3, 7):
        fields: dict[str, Any] = {"response_format": FORM, "max_tokens": most, "stream": stream}
        got = await in_process(app(WHOLE, chunk=chunk), **fields, finish="always")
        if got.status == 400:
            assert not fits, "a longer limit is no harder"
            assert got.error["param"] == "max_tokens"
            continue
        text, reason = content(got)
        value = json.loads(text)
        assert list(value) == REQUIRED
        assert reason == ("stop" if most >= len(WHOLE) else "length")
        assert BERN.startswith(text[: most - len(SHORTEST)]), "what fits is the model's"
        fits += 1
        if not stream:
            assert got.json["usage"]["completion_tokens"] <= most
    assert fits > 5


async def test_a_long_answer_is_whole_at_its_limit() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "rows", "schema": {"type": "array", "items": {"const": 7}}}}
    reply = chatml_ids("[" + ",".join("7" * 800) + "]", END)
    text, reason = content(await in_process(app(reply), response_format=form, max_tokens=701, finish="always"))
    assert set(json.loads(text)) == {7}
    assert 680 < len(text) < 702
    assert reason == "length"


async def test_without_it_an_answer_is_cut() -> None:
    text, reason = content(await in_process(app(WHOLE), response_format=FORM, max_tokens=60))
    assert (text, reason) == (BERN[:60], "length")


@pytest.mark.parametrize("harmony", [False, True])
async def test_a_call_is_whole_too(harmony: bool) -> None:
    spaced = json.dumps(json.loads(BERN))
    pieces: list[Piece] = [CALL, f'\n{{"name": "f", "arguments": {spaced}}}\n', UNCALL, END]
    head: list[Piece] = [" to=functions.f", CHANNEL, "commentary ", CONSTRAIN, "json", MESSAGE, BERN, OSS_CALL]
    reply = harmony_ids(*head) if harmony else chatml_ids(*pieces)
    fields: dict[str, Any] = {"tools": [TOOL], "tool_choice": "required", "max_tokens": len(reply) - 9}
    got = await in_process(app(reply, harmony=harmony), **fields, finish="always")
    choice = got.json["choices"][0]
    (call,) = choice["message"]["tool_calls"]
    assert set(json.loads(call["function"]["arguments"])) == {*REQUIRED}
    assert choice["finish_reason"] == "length"


async def test_several_choices_and_responses_have_it() -> None:
    fields: dict[str, Any] = {"response_format": FORM, "max_tokens": 80, "finish": "always", "n": 3}
    for choice in (await in_process(app(WHOLE), **fields)).json["choices"]:
        assert json.loads(choice["message"]["content"])["people"] >= 0
    body = {"input": "Hi", "text": {"format": {"type": "json_schema", "name": "city", "schema": CITY}}}
    response = (await post_in_process(app(WHOLE), "/v1/responses", **body, max_output_tokens=80, finish="always")).json
    assert response["status"] == "incomplete"
    assert json.loads(response["output"][0]["content"][0]["text"])["kind"] in ("town", "village")


async def test_a_text_without_a_form_is_cut_where_it_is() -> None:
    text, reason = content(await in_process(app(chatml_ids("Hello there", END)), max_tokens=5, finish="always"))
    assert (text, reason) == ("Hello", "length")


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [({"logprobs": True}, True), ({}, False)],
    ids=["with logprobs", "an engine without grammars"],
)
async def test_what_cannot_be_promised_is_refused_by_name(fields: dict[str, Any], grammar: bool) -> None:
    got = await in_process(app(WHOLE, grammar=grammar), finish="always", max_tokens=80, **fields)
    assert (got.status, got.error["param"], got.error["code"]) == (400, "finish", "unsupported_parameter")


async def test_completions_have_it_too() -> None:
    fields: dict[str, Any] = {"prompt": "Hi", "structured_outputs": {"json": CITY}, "max_tokens": 80}
    got = await post_in_process(app(WHOLE), "/v1/completions", **fields, finish="always")
    assert got.status == 200, got.body
    choice = got.json["choices"][0]
    assert list(json.loads(choice["text"])) == REQUIRED
    assert choice["finish_reason"] == "length"
