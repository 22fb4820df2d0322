"""Numbers that end: what the patterns let through, by reckoning with decimals, and which texts the grammars take."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.json_values import Bounds, integers, numbers
from antiphon.grammar.lark_text import lark
from antiphon.tokens import ByteTokenizer

END = 256
VOCABULARY = Vocabulary(ByteTokenizer(["<eos>"]), [END])
SMALL = st.integers(-3000, 3000) | st.integers(-12, 12)
VALUES = st.builds(lambda whole, by: Decimal(whole) / by, SMALL, st.sampled_from([1, 10, 100, 1000]))


def takes(terminal: str, text: str) -> bool:
    return all(re.fullmatch(part.strip("/"), text) for part in terminal.split(" & "))


@given(SMALL, SMALL, st.lists(SMALL))
def test_integers_between_bounds(one: int, other: int, values: list[int]) -> None:
    low, high = sorted((one, other))
    pattern = re.compile(integers(low, high))
    for value in (*values, low - 1, low, low + 1, high - 1, high, high + 1, -low, -high, 0):
        assert bool(pattern.fullmatch(str(value))) == (low <= value <= high)


@given(VALUES, VALUES, st.booleans(), st.booleans(), st.sampled_from("lhb"), st.lists(VALUES))
def test_numbers_between_bounds(
    one: Decimal, other: Decimal, over: bool, under: bool, sides: str, values: list[Decimal]
) -> None:
    low, high = sorted((one, other))
    bounds = Bounds(low=low if sides != "h" else None, high=high if sides != "l" else None, over=over, under=under)
    terminal, step = numbers(bounds), Decimal("0.0001")
    for value in (*values, low, high, low - step, low + step, high - step, high + step, Decimal(1)):
        fits = bounds.low is None or (value > low if over else value >= low)
        fits = fits and (bounds.high is None or (value < high if under else value <= high))
        for text in {f"{value:f}", f"{value:.6f}"} - {"-0", "-0.000000"}:
            assert takes(terminal, text) == fits, text


@pytest.mark.parametrize("text", ["9223372036854775807", "-9223372036854775808", "0", "7"])
def test_free_integers_are_those_of_64_bits(text: str) -> None:
    pattern = re.compile(integers(None, None))
    assert pattern.fullmatch(text)
    beyond = int(text) + (1 if int(text) > 7 else -1)
    assert bool(pattern.fullmatch(str(beyond))) == (abs(int(text)) < 8)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_can_be_written_as_it_is_printed(value: float) -> None:
    written = json.dumps(value)
    digits = written.partition("e")[0].strip("-").replace(".", "").strip("0")
    assert takes(numbers(Bounds()), written) or len(digits) > 17 or abs(value) >= 1.6e308


def longest(schema: Any, *, begin: str, digit: str) -> int:
    """How many digits the grammar takes behind the beginning."""
    matcher = compile_grammar(chain(Json(schema), EndOfTurn()), VOCABULARY).matcher()
    assert matcher.consume(list(begin.encode())) is None
    violation = matcher.consume([ord(digit)] * 400)
    return 400 if violation is None else violation.position - len(begin)


INSIDE: dict[str, tuple[Any, str]] = {
    "alone": ({"type": "number"}, ""),
    "a member": ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a":'),
    "from 0 on": ({"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}}, '{"a":'),
    "of another name": ({"type": "object", "properties": {"a": {"type": "string"}}}, '{"b":'),
    "in a list": ({"type": "array", "items": {"type": ["integer", "null"]}}, "[1,"),
    "of a choice": ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ""),
    "by a reference": ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/m"}},
                                                      "m": {"type": "number"}}}, "["),
    "in what leads back to itself": ({"$ref": "#/$defs/a", "$defs": {
        "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "number"}]},
        "b": {"type": "array", "items": {"$ref": "#/$defs/a"}},
    }}, "[["),
    "in any object": ({"type": "object"}, '{"x":[{"y":'),
    "anything": (True, ""),
}  # fmt: skip


INTEGERS, BOUNDED = ("a member", "in a list", "of a choice"), ("from 0 on",)
SIGNS = {"": 19, "-": 19, "1.": 20, "1.5e": 3}
CASES = [
    (place, sign)
    for place in INSIDE
    for sign in SIGNS
    if not (place in INTEGERS and "." in sign) and not (place in BOUNDED and sign in ("-", "1.5e"))
]


@pytest.mark.parametrize(("place", "sign"), CASES)
def test_no_place_of_a_schema_has_a_number_without_end(place: str, sign: str) -> None:
    schema, begin = INSIDE[place]
    assert longest(schema, begin=begin + sign, digit="1") <= SIGNS[sign]


def test_a_schema_s_own_bounds_may_be_longer() -> None:
    schema = {"type": "integer", "minimum": 0, "maximum": 2**256}
    assert longest(schema, begin="", digit="1") == len(str(2**256))


def test_an_optional_member_that_nothing_fits_is_left_out_as_before() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 5, "maximum": 3}, "b": {"type": "integer"}},
    }
    matcher = compile_grammar(chain(Json(schema), EndOfTurn()), VOCABULARY).matcher()
    assert matcher.consume([*b'{"b":1}', END]) is None
    assert matcher.accepting


def test_numbers_end_unless_that_is_given_up() -> None:
    one = Json({"type": "number"})
    given_up, by_itself = lark(one, controls={}, end_ids=[END], finite=False), lark(one, controls={}, end_ids=[END])
    assert by_itself == lark(one, controls={}, end_ids=[END], finite=True) != given_up
