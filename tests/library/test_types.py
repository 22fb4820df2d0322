"""Types of answers: what the schema lets through is a value of the type, and what no schema can say is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from antiphon.errors import FormatError, RequestError
from antiphon.grammar.schema import compile_schema
from antiphon.library.shape import Shape


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = "high"


class Person(pydantic.BaseModel):
    born: date
    seen: datetime
    wealth: Decimal
    nap: timedelta
    tags: set[str] = set()


class Naive(pydantic.BaseModel):
    at: pydantic.NaiveDatetime


class Site(pydantic.BaseModel):
    url: pydantic.HttpUrl


class Event(TypedDict):
    at: datetime
    place: NotRequired[str]


@dataclass
class Inner:
    day: date
    colour: Colour


@dataclass
class Outer:
    many: list[Inner]
    one: Inner | None
    by_number: dict[int, Decimal]


class Circle(msgspec.Struct, tag=True):
    until: date


class Square(msgspec.Struct, tag=True):
    side: Decimal


@dataclass
class Positive:
    count: Annotated[int, pydantic.Field(gt=2)]


NAIVE = Annotated[datetime, msgspec.Meta(tz=False)]
CASES: list[tuple[Any, Any, list[Any]]] = [
    (datetime, "2024-02-29T23:59:59.5+01:00",
     ["2024-02-29", "2023-02-29T00:00:00Z", "2024-01-01T23:59:60Z", "0000-01-01T00:00:00Z"]),
    (NAIVE, "2024-02-29T23:59:59", ["2024-02-29T23:59:59Z", "0000-01-01T00:00:00", "2024-01-01T00:00:60"]),
    (date, "2024-02-29", ["2023-02-29", "0000-01-01", "tomorrow"]),
    (time, "23:59:59Z", ["24:00:00Z", "23:59:60Z"]),
    (timedelta, "P1DT2H", ["P1Y", "P1W", "P", "PT"]),
    (Decimal, "-12.50", ["NaN", "1e5", "01", "1_0", "x"]),
    (bytes, "aGk=", ["aGk", "a", "*"]),
    (UUID, "123e4567-e89b-12d3-a456-426614174000", ["123e4567", "x"]),
    (Colour, "red", ["green", 1]),
    (Level, None, []),
    (Literal["a", 1], 1, ["b", 2]),
    (Event, {"at": "2024-02-29T23:59:59Z"}, [{"at": "now"}, {}, {"at": "2024-02-29T23:59:59Z", "more": 1}]),
    (list[date], ["2024-02-29"], [["x"]]),
    (set[int], [1, 1, 2], [["x"]]),
    (tuple[int, date], [1, "2024-02-29"], [[1], [1, "x"]]),
    (dict[int, str], {"1": "a"}, [{"x": "a"}]),
    (dict[Colour, date], {"red": "2024-02-29"}, [{"red": "x"}, {"green": "2024-02-29"}]),
    (date | None, None, ["x"]),
    (int | date | None, "2024-02-29", ["x", 1.5]),
    (Circle | Square, {"type": "Square", "side": "1.5"},
     [{"type": "Circle", "until": "x"}, {"type": "Square", "side": "x"}]),
    (Outer, {"many": [{"day": "2024-02-29", "colour": "red"}], "one": None, "by_number": {"3": "1"}},
     [{"many": [{"day": "x", "colour": "red"}], "one": None, "by_number": {}},
      {"many": [], "one": None, "by_number": {"x": "1"}}]),
    (Person, {"born": "2024-02-29", "seen": "2024-02-29T00:00:00Z", "wealth": "1", "nap": "PT1H", "tags": ["a", "a"]},
     [{"born": "x", "seen": "2024-02-29T00:00:00Z", "wealth": "1", "nap": "PT1H"},
      {"born": "2024-02-29", "seen": "2024-02-29T00:00:60Z", "wealth": "1", "nap": "PT1H"},
      {"born": "2024-02-29", "seen": "2024-02-29T00:00:00Z", "wealth": "much", "nap": "PT1H"}]),
    (list[Site], [{"url": "https://example.org/a"}], [[{"url": "ftp://example.org"}], [{}]]),
    (dict[str, Naive], {"a": {"at": "2024-02-29T00:00:00"}}, [{"a": {"at": "2024-02-29T00:00:00Z"}}]),
    (Site | None, None, [{"url": "x"}]),
    (Positive, {"count": 3}, [{"count": 2}]),
]  # fmt: skip
USABLE = [case for case in CASES if case[0] is not Level]


@pytest.mark.parametrize(("kind", "good", "bad"), USABLE)
def test_the_schema_of_a_type_lets_its_values_through_and_no_others(kind: Any, good: Any, bad: list[Any]) -> None:
    shape: Shape[Any] = Shape(kind)
    compiled = compile_schema(shape.response_format.schema or {}, strict=True)
    assert compiled.fault(json.dumps(good)) is None
    shape.read(json.dumps(good))
    for value in bad:
        assert compiled.fault(json.dumps(value)) is not None, value


FLAT: list[Any] = [date, time, datetime, NAIVE, timedelta, Decimal, bytes, UUID]


@pytest.mark.parametrize("kind", FLAT)
def test_whatever_its_form_lets_through_is_a_value(kind: Any) -> None:
    @settings(max_examples=15, deadline=None)
    @given(st.data())
    def whatever(data: st.DataObject) -> None:
        shape: Shape[Any] = Shape(kind)
        schema = shape.response_format.schema
        assert isinstance(schema, dict)
        texts = st.one_of(
            *(st.from_regex(pattern, fullmatch=False) for pattern in patterns(compile_schema(schema).engine))
        )
        text = data.draw(texts)
        if compile_schema(schema).fault(json.dumps(text)) is None:
            shape.read(json.dumps(text))

    whatever()


def patterns(schema: Any) -> list[str]:
    """Every pattern of a schema as the engine sees it."""
    own = [schema["pattern"]] if "pattern" in schema else []
    return [*own, *(pattern for part in schema.get("allOf", ()) for pattern in patterns(part))]


class WithCallable(pydantic.BaseModel):
    act: Callable[[int], int]


class Past(pydantic.BaseModel):
    when: pydantic.PastDate


@dataclass
class Deep:
    inner: list[dict[str, WithComplex]]


@dataclass
class WithComplex:
    number: complex


class Mixed(msgspec.Struct):
    person: Person


@pytest.mark.parametrize(
    ("kind", "path", "words"),
    [
        (complex, "response", "no form in JSON"),
        (Level, "response", "all str or all int"),
        (Deep, "response.inner.number", "complex"),
        (list[WithCallable], "response.act", "no form in JSON"),
        (Past, "response.when", "bound"),
        (Mixed, "response", "pydantic"),
        (Inner | Outer, "response", "more than one"),
    ],
)
def test_a_type_that_cannot_be_honoured_is_refused_by_its_field(kind: Any, path: str, words: str) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        Shape(kind).response_format  # noqa: B018 - making it is the test
    assert caught.value.param == path
    assert caught.value.code == "invalid_type"
    assert caught.value.hint


def test_a_value_that_fails_a_check_of_its_type_alone_is_an_antiphon_error() -> None:
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("odd")
            return number

    with pytest.raises(FormatError, match="odd") as caught:
        Shape(Even).read('{"number": 3}')
    assert caught.value.code == "answer_type"
