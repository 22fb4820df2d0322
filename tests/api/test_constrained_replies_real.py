"""The default model, constrained, behind a socket: what the official client's helpers ask for is what they get."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anthropic
import openai
import pytest
import pytest_asyncio
from pydantic import BaseModel, Field

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.formats.template.format import HERMES
from antiphon.generation.compile import ReplyCompiler
from kit.api import serving
from kit.call_ids import CALL_ID
from kit.real import chatml_model

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=130)


class Weather(BaseModel):
    """The weather now."""

    city: Literal["Paris", "Rome"]


class Clock(BaseModel):
    """The time now."""

    city: Literal["Paris", "Rome"]


TOOLS: list[Any] = [openai.pydantic_function_tool(Weather), openai.pydantic_function_tool(Clock)]
CLASSES = {"Weather": Weather, "Clock": Clock}
NAMED = {"type": "function", "function": {"name": "Clock"}}
PERSON: Any = [{"role": "user", "content": "Ada Lovelace is 36 years old. Who is she?"}]
PARIS: Any = [{"role": "user", "content": "How is the weather in Paris and in Rome, and what time is it there?"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(smollm2_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    async with chatml_model(smollm2_path, replies=HERMES, context=640, slots=1, cache_mib=64) as model:
        constrained = replace(model, compiler=ReplyCompiler(model.format, model.tokenizer, model.engine.info.end_ids))
        async with serving(create_app(StaticCatalog({"smollm2": constrained}))) as port:
            base = f"http://127.0.0.1:{port}/v1"
            async with openai.AsyncOpenAI(base_url=base, api_key="x", max_retries=0) as client:
                yield client


async def both(client: openai.AsyncOpenAI, **fields: Any) -> Any:
    """The choice that two answers to the same request have in common: one whole, one streamed."""
    fields = {"model": "smollm2", "temperature": 0, "max_tokens": 200, **fields}
    # The engine reckons a prompt that it has not seen in another batch than one that it has, and rounds otherwise.
    seen = {name: value for name, value in fields.items() if name != "response_format"}
    await client.chat.completions.create(**{**seen, "max_tokens": 1})
    whole = (await client.chat.completions.parse(**fields)).choices[0]
    async with client.chat.completions.stream(**fields) as stream:
        other = (await stream.get_final_completion()).choices[0]
    assert whole.finish_reason == other.finish_reason
    assert (whole.message.content or "") == (other.message.content or "")
    assert [_call_of(call) for call in whole.message.tool_calls or []] == [
        _call_of(call) for call in other.message.tool_calls or []
    ]
    return whole


def _call_of(call: Any) -> tuple[str, str]:
    assert CALL_ID.fullmatch(call.id)
    return call.function.name, call.function.arguments


async def test_chat_answers_are_parsed_into_the_callers_class(client: openai.AsyncOpenAI) -> None:
    choice = await both(client, messages=PERSON, response_format=Person, temperature=1.0, seed=3)
    assert isinstance(choice.message.parsed, Person)
    assert choice.finish_reason == "stop"


async def test_responses_are_parsed_into_the_callers_class(client: openai.AsyncOpenAI) -> None:
    request: dict[str, Any] = {"model": "smollm2", "input": PERSON, "temperature": 0, "text_format": Person}
    await client.responses.create(model="smollm2", input=PERSON, temperature=0, max_output_tokens=16)  # now it is seen
    whole = await client.responses.parse(**request)
    async with client.responses.stream(**request) as stream:
        streamed = await stream.get_final_response()
    assert isinstance(whole.output_parsed, Person)
    assert whole.usage is not None
    assert streamed.usage == whole.usage
    assert streamed.output_parsed == whole.output_parsed
    assert streamed.output_text == whole.output_text


ENDS = {"0": -100, "2": -100}
"""The model's own end tokens: forbidden, it calls for as long as it may."""


@pytest.mark.parametrize(
    ("fields", "least", "most"),
    [
        ({"tool_choice": "required", "logit_bias": ENDS}, 4, 4),
        ({"tool_choice": NAMED, "temperature": 1.0, "seed": 0}, 1, 1),
        ({"tool_choice": "none", "stop": ["."]}, 0, 0),
    ],
    ids=["four", "named", "none"],
)
async def test_calls_are_as_many_as_may_be_and_fit_their_classes(
    client: openai.AsyncOpenAI, fields: dict[str, Any], least: int, most: int
) -> None:
    choice = await both(client, messages=PARIS, tools=TOOLS, **fields)
    calls = choice.message.tool_calls or []
    assert least <= len(calls) <= most
    assert len({call.id for call in calls}) == len(calls)
    for call in calls:
        assert isinstance(call.function.parsed_arguments, CLASSES[call.function.name])
        assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")
        assert fields["tool_choice"] != NAMED or call.function.name == "Clock"
    assert choice.finish_reason == ("tool_calls" if calls else choice.finish_reason)
    assert calls or choice.message.content


async def test_an_answer_reasons_first_where_its_schema_does(client: openai.AsyncOpenAI) -> None:
    text: Any = {"type": "string", "maxLength": 20}
    objects = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "required": order,
            "properties": dict.fromkeys(order, text),
        }
        for name, order in {"summary": ["answer", "reasoning"], "step": ["reasoning", "answer"]}.items()
    }
    note = {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]}
    properties = {**objects, "note": note}
    schema = {"type": "object", "additionalProperties": False, "required": [*properties], "properties": properties}
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}
    question: Any = [{"role": "user", "content": "Is 7 prime? And is 9?"}]
    reply = await client.chat.completions.create(
        model="smollm2", messages=question, response_format=form, temperature=0, max_tokens=240
    )
    found = json.loads(reply.choices[0].message.content or "")
    assert {name: list(found[name]) for name in objects} == {
        "summary": ["answer", "reasoning"], "step": ["reasoning", "answer"]
    }  # fmt: skip


class City(BaseModel):
    """Free numbers, which a small model does not end by itself."""

    name: str = Field(max_length=20)
    population: int
    area: float
    height: float = Field(ge=0)


@pytest.mark.parametrize("seed", range(2))
async def test_a_number_ends(client: openai.AsyncOpenAI, seed: int) -> None:
    asked: Any = [{"role": "user", "content": "Tell me about Bern: its population, area and height."}]
    fields: dict[str, Any] = {"temperature": 1.0, "seed": seed, "max_tokens": 160}
    answer = await client.chat.completions.parse(model="smollm2", messages=asked, response_format=City, **fields)
    assert answer.choices[0].message.parsed is not None


@pytest.mark.parametrize("seed", range(2))
async def test_an_answer_is_whole_at_its_limit_where_the_request_says_so(client: openai.AsyncOpenAI, seed: int) -> None:
    asked: Any = [{"role": "user", "content": "Tell me about Bern: its population, area and height."}]
    schema = {"type": "json_schema", "json_schema": {"name": "city", "schema": City.model_json_schema()}}
    fields: dict[str, Any] = {"temperature": 1.0, "seed": seed, "response_format": schema, "max_tokens": 32 + seed}
    extra = {"finish": "always"}
    answer = await client.chat.completions.create(model="smollm2", messages=asked, extra_body=extra, **fields)
    assert City.model_validate_json(answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.completion_tokens <= 32 + seed


SUM = 'start: INT (" " SIGN " " INT)~1..3\nSIGN: "+" | "*"\nINT: /[0-9]{1,3}/\n'
DATE = r"^(Jan|Feb|Mar) [0-9]{1,2}, 20[0-9]{2}$"


async def test_the_text_of_a_custom_tool_fits_its_grammar(client: openai.AsyncOpenAI) -> None:
    asked = "Write what 3 plus 4 times 5 is, or a date."
    one: Any = {"temperature": 0, "parallel_tool_calls": False, "model": "smollm2", "tool_choice": "required"}
    form: Any = {"type": "grammar", "syntax": "lark", "definition": SUM}
    tool: Any = {"type": "custom", "name": "write", "format": form}
    response = await client.responses.create(input=asked, tools=[tool], max_output_tokens=200, **one)
    (item,) = [item for item in response.output if item.type == "custom_tool_call"]
    assert re.fullmatch(r"[0-9]{1,3}( [+*] [0-9]{1,3}){1,3}", item.input)
    grammar = {"syntax": "regex", "definition": DATE}
    tool = {"type": "custom", "custom": {"name": "write", "format": {"type": "grammar", "grammar": grammar}}}
    chat = await client.chat.completions.create(
        messages=[{"role": "user", "content": asked}], tools=[tool], max_tokens=200, **one
    )
    call = (chat.choices[0].message.tool_calls or [])[0]
    assert call.type == "custom"
    assert re.fullmatch(DATE, call.custom.input)


async def test_tools_by_type_are_called_as_their_clients_read_them(client: openai.AsyncOpenAI) -> None:
    asked, base = "List the files of the folder.", str(client.base_url).removesuffix("/v1/")
    async with anthropic.AsyncAnthropic(base_url=base, api_key="x", max_retries=0) as messages:
        said = await messages.messages.create(
            model="smollm2",
            max_tokens=300,
            messages=[{"role": "user", "content": asked}],
            tools=[{"type": "bash_20250124", "name": "bash"}],
            tool_choice={"type": "any", "disable_parallel_tool_use": True},
            extra_body={"temperature": 0},
        )
    (used,) = [block for block in said.content if block.type == "tool_use"]
    assert (said.stop_reason, used.name) == ("tool_use", "bash")
    assert "command" in used.input or used.input == {"restart": True}
    one: Any = {"model": "smollm2", "input": asked, "parallel_tool_calls": False, "temperature": 0}
    shell = await client.responses.create(tools=[{"type": "shell"}], tool_choice={"type": "shell"}, **one)
    (run,) = [item for item in shell.output if item.type == "shell_call"]
    assert run.action.commands
