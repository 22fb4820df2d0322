"""Typed answers of the real model: whatever it writes is a value of the requested type."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin
from uuid import UUID

import msgspec
import pydantic
import pytest

import antiphon
from antiphon.conversation import FinishReason
from antiphon.engines import Scripted
from antiphon.errors import EngineError
from antiphon.library.shape import Shape


class Struct(msgspec.Struct):
    name: str
    population: int


@dataclass
class Dated:
    at: datetime
    price: Decimal
    id: UUID


class Listed(pydantic.BaseModel):
    day: date


@dataclass
class Data:
    name: str
    size: Literal["small", "large"]


class Pydantic(pydantic.BaseModel):
    name: str
    tags: list[str] = pydantic.Field(max_length=3)


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Iterator[antiphon.ChatModel]:
    with antiphon.open_model(smollm2_path, format="chatml", threads=1) as opened:
        yield opened


@pytest.mark.parametrize("kind", [Struct, Data, Pydantic])
def test_an_answer_is_a_value_of_the_type(smollm2: antiphon.ChatModel, kind: type) -> None:
    reply: antiphon.Reply[object] = smollm2.chat(
        "Describe Rome.", response=kind, max_tokens=400, temperature=0.0, seed=1
    )
    if reply.finish_reason is FinishReason.STOP_EOS:
        assert isinstance(reply.parsed, kind)
    else:  # A small model may talk inside a string until its limit.
        assert reply.parsed is None


@pytest.mark.parametrize("kind", [Dated, list[Listed], timedelta, Literal["yes", "no"], int | None])
def test_dates_numbers_lists_and_unions_are_constrained_to_what_can_be_read(
    smollm2: antiphon.ChatModel, kind: Any
) -> None:
    reply = smollm2.chat("When was Rome founded?", response=kind, max_tokens=300, temperature=1.2, seed=2)
    if reply.finish_reason is FinishReason.STOP_EOS:
        assert msgspec.convert(reply.parsed, list if get_origin(kind) is list else kind) == reply.parsed
    else:
        assert reply.parsed is None


def test_a_schema_gives_plain_values(smollm2: antiphon.ChatModel) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3, "maximum": 5}}, "required": ["n"],
              "additionalProperties": False}  # fmt: skip
    reply = smollm2.chat("A number from 3 to 5.", response=schema, max_tokens=60)
    assert reply.parsed is not None
    assert reply.parsed["n"] in (3, 4, 5)


@pytest.mark.parametrize(
    "messages",
    [
        "Describe Rome.",
        [{"role": "user", "content": "Describe Rome."}, {"role": "assistant", "content": "In JSON?"}],
        [{"role": "user", "content": [{"type": "text", "text": "Describe"}, {"type": "text", "text": " Rome."}]}],
    ],
)
def test_the_last_message_of_the_user_says_which_json_is_wanted(smollm2: antiphon.ChatModel, messages: Any) -> None:
    """`render` shows what the model is given, and the conversation stays as the caller wrote it."""
    prompt = smollm2.render(messages, response=Struct)
    assert (
        f"Describe Rome.\n\nAnswer with JSON of this schema: {json.dumps(Shape(Struct).response_format.schema)}"
        in str(prompt)
    )
    reply = smollm2.chat(messages, response=Struct, max_tokens=2)
    assert reply.usage.prompt_tokens == len(prompt.ids or ())
    assert [message.text for message in reply.conversation.messages if "schema" in message.text] == []


class Team(Enum):
    SALES = "sales"
    LOGIN = "login"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "Answer with a whole number only."),
        (float, "Answer with a number only."),
        (Annotated[int, msgspec.Meta(ge=1, le=5)], "Answer with a whole number only, from 1 up to 5."),
        (Literal["a", "ü"], 'Answer with one of these only: "a", "ü"'),
        (Team, 'Answer with one of these only: "login", "sales"'),
        (date, 'Answer with a date only, as "YYYY-MM-DD".'),
        (bool, ""),
        (str, ""),
    ],
)
def test_a_number_a_choice_and_a_date_are_told_in_words(smollm2: antiphon.ChatModel, kind: Any, words: str) -> None:
    told = f"2 + 2?\n\n{words}" if words else "2 + 2?"
    assert str(smollm2.render("2 + 2?", response=kind)) == str(smollm2.render(told))


@pytest.mark.parametrize("format", ["harmony", "openchatml"])
def test_a_format_that_says_so_itself_says_it_once(format: str) -> None:
    with antiphon.open_model("smollm2", format=format, engine=Scripted(reply="Rome."), fetch=False) as opened:
        prompt = str(opened.render("Describe Rome.", response=Struct))
    assert prompt.count("population") == 2 * prompt.count('"required"') > 0
    assert "Answer with JSON" not in prompt


def test_an_answer_that_its_limit_cut_has_no_value(smollm2: antiphon.ChatModel) -> None:
    reply = smollm2.chat("Describe Rome.", response=Struct, max_tokens=2)
    assert reply.parsed is None
    assert reply.text


def test_leaving_the_with_ends_an_answer_that_is_still_made(smollm2_path: Path) -> None:
    with antiphon.open_model(smollm2_path, format="chatml", threads=1) as opened:
        deltas = opened.stream("Count to a thousand.", max_tokens=2000)
        next(deltas)
    with pytest.raises(EngineError):
        list(deltas)


def test_a_type_leaves_no_room_for_properties_that_it_does_not_have() -> None:
    class Inner(pydantic.BaseModel):
        properties: dict[str, int] = {}

    class Outer(pydantic.BaseModel):
        default: Inner
        many: list[Inner]

    schema = Shape(Outer).response_format.schema
    assert isinstance(schema, dict)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["Inner"]["additionalProperties"] is False
    assert schema["$defs"]["Inner"]["properties"]["properties"]["additionalProperties"] == {"type": "integer"}
