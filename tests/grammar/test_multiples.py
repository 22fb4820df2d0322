"""Multiples on either side of zero, and numbers that are no more than the schema asks."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer

TOKENIZER = ByteTokenizer(["<eos>"])
VOCABULARY = Vocabulary(TOKENIZER, [256])
BOUNDS: list[dict[str, Any]] = [
    {},
    {"minimum": 0},
    {"maximum": 4},
    {"minimum": -10, "maximum": -1},
    {"minimum": -7.5, "maximum": 7.5},
    {"exclusiveMinimum": -5, "exclusiveMaximum": 5},
    {"exclusiveMaximum": 0},
    {"maximum": -5},
    {"exclusiveMinimum": -10, "maximum": 0},
]
STEPS: list[tuple[str, int | float]] = [
    ("integer", 5),
    ("integer", 2.5),
    ("number", 5),
    ("number", 0.01),
    ("number", 0.25),
    ("number", 2.5),
]


def grammar_of(schema: Any, *, strict: bool = False) -> CompiledGrammar:
    return compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), VOCABULARY)


def takes(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    matcher.consume([*TOKENIZER.encode(text), 256])
    return matcher.accepting


@pytest.mark.parametrize("bounds", BOUNDS, ids=json.dumps)
@pytest.mark.parametrize(("type", "step"), STEPS)
def test_every_multiple_within_the_bounds_can_be_written(type: str, step: float, bounds: dict[str, Any]) -> None:
    grammar = grammar_of({"type": type, "multipleOf": step, **bounds})
    schema = grammar.schemas["s"]
    for count in [*range(-40, 41), *range(-2000, 2000, 250)]:
        for number in (step * count, Decimal(str(step)) * count + Decimal("0.001")):
            text = format(Decimal(str(number)).normalize(), "f")
            fits = schema.fault(text) is None
            taken = takes(grammar, text)
            assert taken or not fits, text
            # Where multiples below zero are too many to be written out, the check finds what is none.
            assert fits or not taken or (schema.relaxed and text.startswith("-")), text


@pytest.mark.parametrize("bounds", [{"minimum": 0}, {"minimum": -1}, {"exclusiveMinimum": -2, "maximum": 5}])
def test_few_multiples_below_zero_are_enforced_in_strict_mode(bounds: dict[str, Any]) -> None:
    grammar = grammar_of({"type": "number", "multipleOf": 0.01, **bounds}, strict=True)
    assert not takes(grammar, "-0.005")
    assert takes(grammar, "-0.25") is (bounds != {"minimum": 0})


def test_many_are_not_and_strict_mode_says_what_would_help() -> None:
    with pytest.raises(RequestError) as refused:
        grammar_of({"properties": {"price": {"type": "number", "multipleOf": 0.01}}}, strict=True)
    assert refused.value.param == "s.properties.price.multipleOf"
    assert "minimum" in (refused.value.hint or "")


@pytest.mark.parametrize("step", [99_999, 99_999_999, 1.000001])
def test_a_step_for_which_the_engine_would_count_forever_is_left_to_the_check(step: float) -> None:
    schema = {"type": "number", "minimum": 0, "maximum": 1_000_000_000, "multipleOf": step}
    grammar = grammar_of(schema)
    assert [relaxation.keyword for relaxation in grammar.schemas["s"].relaxed] == ["multipleOf"]
    assert takes(grammar, format(Decimal(str(step)) * 2, "f"))
    together = grammar_of({"minimum": 0, "allOf": [{"multipleOf": 9_973}, {"multipleOf": 9_967}]})
    assert [relaxation.keyword for relaxation in together.schemas["s"].relaxed] == ["multipleOf"]


def test_multiples_of_which_there_are_none_are_refused() -> None:
    with pytest.raises(RequestError) as refused:
        grammar_of({"type": "integer", "multipleOf": 5, "minimum": -9, "maximum": -6})
    assert refused.value.code == "invalid_schema"
