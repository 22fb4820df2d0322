"""Numbers at the edge of what the engine holds exactly: the last that it enforces, and the first that is checked."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.grammar.schema.exact import Relaxation, within_reach

WITHIN = [
    {"maximum": 2**53}, {"minimum": -(2**53)}, {"exclusiveMaximum": 2.0**53}, {"exclusiveMinimum": -(2.0**53)},
    {"maximum": 0}, {"minimum": 0.0}, {"exclusiveMinimum": 1.1e-100}, {"maximum": -1.1e-100}, {"maximum": True},
    {"type": "integer", "maximum": 2**63 - 1}, {"multipleOf": 9_999}, {"multipleOf": 10_000_000},
    {"multipleOf": 0.01}, {"multipleOf": 3},
    {"enum": [2**53, -(2**53), True, [2**53], {"a": 2**53}, 1e300, str(2**64)]}, {"const": 2**53},
    {"default": {"maximum": 2**60}}, {"examples": [{"maximum": 2**60}]}, {"const": {"maximum": 2**53}},
]  # fmt: skip
BEYOND = [
    {"maximum": 2**53 + 1}, {"minimum": -(2**53) - 1}, {"exclusiveMaximum": 2**53 + 1}, {"exclusiveMinimum": 2**53 + 1},
    {"minimum": 1e-100}, {"maximum": -1e-100}, {"maximum": 2**63 - 1}, {"type": "number", "maximum": 2**63 - 1},
    {"type": "integer", "minimum": 2**63 - 1}, {"type": "integer", "maximum": 2**63},
    {"multipleOf": 10_001}, {"multipleOf": 99_999_999}, {"multipleOf": 1.00001},
    {"multipleOf": 1e-100}, {"type": "integer", "maximum": 2**63 - 2},
]  # fmt: skip


@pytest.mark.parametrize("schema", WITHIN, ids=str)
def test_what_the_engine_holds_is_left_to_it(schema: dict[str, Any]) -> None:
    assert within_reach(schema) == (schema, ())
    assert within_reach({"properties": {"a": schema}}) == ({"properties": {"a": schema}}, ())


@pytest.mark.parametrize("schema", BEYOND, ids=str)
def test_what_it_does_not_hold_is_named_and_left_to_the_check(schema: dict[str, Any]) -> None:
    keyword = next(key for key in schema if key != "type")
    rest = {key: value for key, value in schema.items() if key == "type"}
    assert within_reach(schema) == (rest, (Relaxation(keyword, f".{keyword}"),))
    inner = {"items": [{}, schema], "minItems": 1}
    assert within_reach(inner) == (
        {"items": [{}, rest], "minItems": 1},
        (Relaxation(keyword, f".items[1].{keyword}"),),
    )


@pytest.mark.parametrize("keyword", ["const", "enum"])
@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1])
@pytest.mark.parametrize("value", [lambda n: [n], lambda n: [[1, n]], lambda n: [{"a": {"b": n}}]])
def test_an_integer_that_must_be_written_and_cannot_be_is_refused_at_its_place(
    keyword: str, number: int, value: Any
) -> None:
    with pytest.raises(RequestError) as refused:
        within_reach({"properties": {"p": {keyword: value(number)}}}, "s")
    assert (refused.value.code, refused.value.param) == ("invalid_schema", f"s.properties.p.{keyword}")


@pytest.mark.parametrize("keyword", ["not", "oneOf", "if", "contains", "unevaluatedProperties"])
def test_below_a_keyword_that_denies_all_is_left_to_the_check(keyword: str) -> None:
    inner: Any = [{"maximum": 2**60}] if keyword == "oneOf" else {"maximum": 2**60}
    engine, relaxed = within_reach({"type": "object", keyword: inner})
    assert engine is True
    assert [relaxation.keyword for relaxation in relaxed] == ["maximum"]
    assert within_reach({"type": "object", keyword: True})[0] == {"type": "object", keyword: True}
