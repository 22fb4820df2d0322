"""Whatever a schema asks for is honoured, or refused with a code and its place, in every format: it is never a 5xx."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from itertools import cycle, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.errors import AntiphonError, RequestError
from antiphon.grammar.schema import compile_schema
from kit.api import Got, post_in_process
from kit.hostile_schemas import CONTROLS, HOSTILE, HOSTILE_PATTERNS, schemas
from kit.masked import FORMATS, masked_app

WAYS = ("answer", "strict answer", "optional tool", "required tool", "strict tool")
Asked = tuple[str, str]
"""A format and one of `WAYS`."""


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@cache
def served() -> Starlette:
    return masked_app()


def fields(schema: Any, way: str) -> dict[str, Any]:
    strict = way.startswith("strict")
    if way.endswith("answer"):
        asked = {"name": "x", "schema": schema, "strict": strict}
        return {"response_format": {"type": "json_schema", "json_schema": asked}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, "strict": strict}}
    return {"tools": [tool], "tool_choice": "auto" if way.startswith("optional") else "required"}


async def answer(schema: Any, asked: Asked) -> Got:
    format, way = asked
    body = {"model": format, "max_tokens": 400, **fields(schema, way)}
    return await post_in_process(served(), "/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}], **body)


def checked(got: Got, schema: Any, way: str) -> None:
    if got.status != 200:
        assert 400 <= got.status < 500, got.body
        assert got.error["code"] in ("invalid_schema", "invalid_grammar", "invalid_json", "invalid_type",
                                     "unsupported_parameter", "invalid_value", "work_limit"), got.error  # fmt: skip
        assert str(got.error["param"]).startswith(("response_format", "tools")), got.error
        return
    (choice,) = got.json["choices"]
    for text in values(choice, way):
        assert complies(schema, text, way), text


def values(choice: Any, way: str) -> list[str]:
    """The finished values of a reply that answer to the schema."""
    if choice["finish_reason"] == "length":
        return []
    calls = [call["function"]["arguments"] for call in choice["message"].get("tool_calls") or []]
    return [choice["message"]["content"]] if way.endswith("answer") else calls


def complies(schema: Any, text: str, way: str) -> bool:
    """Whether the value fits; only JSON is promised where a keyword is left to the final check, which is not strict.

    Nor is more of a call that the model may leave, where nothing fits its schema or that is none.
    """
    json.loads(text)
    try:
        compiled = compile_schema(schema)
    except RequestError:
        return way == "optional tool"
    return compiled.fault(text) is None or (not way.startswith("strict") and bool(compiled.relaxed))


ASKED = list(product(FORMATS, ("strict answer", "optional tool", "required tool")))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        *zip(HOSTILE, cycle(ASKED), strict=False),
        *zip(CONTROLS, cycle((format, "required tool") for format in FORMATS), strict=False),
    ],
    ids=str,
)
def test_a_hostile_schema_is_honoured_or_refused_in_every_format(
    loop: asyncio.AbstractEventLoop, name: str, asked: Asked
) -> None:
    """Each in one format and way; what spells a control in two, and each control in all formats."""
    checked(loop.run_until_complete(answer(HOSTILE[name], asked)), HOSTILE[name], asked[1])


PLACES = (("chatml", "strict answer"), ("harmony", "answer"), ("chatml, spelled out", "required tool"))


@pytest.mark.parametrize(("name", "asked"), [*zip(HOSTILE_PATTERNS, cycle(PLACES), strict=False)], ids=str)
def test_a_hostile_pattern_is_honoured_or_refused_wherever_it_stands(
    loop: asyncio.AbstractEventLoop, name: str, asked: Asked
) -> None:
    checked(loop.run_until_complete(answer(HOSTILE_PATTERNS[name], asked)), HOSTILE_PATTERNS[name], asked[1])


@settings(max_examples=60, derandomize=True)
@given(schema=schemas, asked=st.tuples(st.sampled_from(sorted(FORMATS)), st.sampled_from(WAYS)))
def test_any_schema_is_honoured_or_refused(loop: asyncio.AbstractEventLoop, schema: Any, asked: Asked) -> None:
    checked(loop.run_until_complete(answer(schema, asked)), schema, asked[1])


@pytest.mark.parametrize("limit", [2**53, -(2**53)])
def test_a_great_integer_that_a_double_holds_is_written_as_it_stands(
    loop: asyncio.AbstractEventLoop, limit: int
) -> None:
    got = loop.run_until_complete(answer({"const": limit}, ("chatml", "strict answer")))
    assert got.json["choices"][0]["message"]["content"].strip() == str(limit)


def test_the_place_of_a_contradiction_is_named(loop: asyncio.AbstractEventLoop) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["b"]}
    schema = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    got = loop.run_until_complete(answer(schema, ("harmony", "required tool")))
    assert got.error["param"] == "tools[0].function.parameters.properties.a.properties.b"


def test_no_words_of_the_compiler_reach_the_caller(loop: asyncio.AbstractEventLoop) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}
    with pytest.raises(AntiphonError) as caught:
        loop.run_until_complete(_compiled(schema))
    (words,) = caught.value.__notes__
    got = loop.run_until_complete(answer(schema, ("chatml", "answer")))
    assert words not in got.error["message"]


async def _compiled(schema: Any) -> None:
    from antiphon.grammar import Json
    from antiphon.grammar.compiler import Vocabulary, compile_grammar

    _, tokenizer, end = FORMATS["chatml"]
    compile_grammar(Json(schema), Vocabulary(tokenizer, {tokenizer.controls[end]}))
