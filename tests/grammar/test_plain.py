"""A plain schema is compiled in the server's process: what that takes grows with its size and with nothing else.

Counted are calls of functions, the fuel that the engine's lexer burns and the symbols of its grammar, never time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLParserLimits

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.schema import is_plain
from antiphon.grammar.trial import dear
from antiphon.tokens import ByteTokenizer
from kit.hostile_schemas import closed

VOCABULARY = Vocabulary(ByteTokenizer(["<eos>"]), [256])
CALLS, FUEL, SYMBOLS = 40, 100, 10
"""For each character of a schema's JSON: calls of functions; the lexer's fuel, and symbols of the engine's grammar."""

KEYWORDS = (
    "$anchor $dynamicAnchor $dynamicRef $id $recursiveRef $vocabulary additionalItems allOf contains contentEncoding "
    "contentMediaType contentSchema dependencies dependentRequired dependentSchemas discriminator else externalDocs "
    "format if maxContains maxProperties minContains minProperties multipleOf not oneOf patternProperties prefixItems "
    "propertyNames then unevaluatedItems unevaluatedProperties uniqueItems x-guidance"
).split()  # fmt: skip
"""Of all drafts, and of the engine, but those that are plain."""

names = st.text("abcdé _", min_size=1, max_size=8)
leaves = st.one_of(
    st.just({"type": "string"}),
    st.builds(lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
              st.integers(0, 9), st.integers(0, 10_000)),
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
              st.integers(-(10**9), 10**9), st.integers(0, 10**15)),
    st.builds(lambda most: {"type": "number", "exclusiveMaximum": most}, st.floats(-1e15, 1e15)),
    st.builds(lambda values: {"enum": values}, st.lists(names, min_size=1, max_size=40, unique=True)),
    st.builds(lambda pattern: {"type": "string", "pattern": pattern},
              st.sampled_from(["^[a-z]+$", "^(a|b)*c$", "^.*x$", "[0-9]+"])),
)  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda properties, open: closed(properties, optional=open),
                  st.dictionaries(names, inner, min_size=1, max_size=12), st.booleans()),
        st.builds(lambda items, low, more: {"type": "array", "items": items, "minItems": low, "maxItems": low + more},
                  inner, st.integers(0, 20), st.integers(0, 100)),
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=6)),
    ),
    max_leaves=60,
)  # fmt: skip


def calls_of(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, of Python's and of C's."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def led_to_twice(steps: int, step: Callable[[dict[str, str], dict[str, str]], dict[str, Any]]) -> dict[str, Any]:
    """Definitions of which each leads to the next in two ways: as many ways as two to the power of their number."""
    to = [{"$ref": f"#/$defs/d{i}"} for i in range(steps + 1)]
    chained = {f"d{i}": step(to[i + 1], to[min(i + 2, steps)]) for i in range(steps)}
    return {"$ref": "#/$defs/d0", "$defs": {**chained, f"d{steps}": {"type": "string"}}}


DOUBLED: dict[str, Callable[[dict[str, str], dict[str, str]], dict[str, Any]]] = {
    "two properties": lambda next, _: closed({"a": next, "b": next}),
    "two properties that may be left out": lambda next, _: closed({"a": next, "b": next}, optional=True),
    "the same twice": lambda next, _: {"anyOf": [next, next]},
    "eight times": lambda next, _: {"anyOf": [next] * 8},
    "itself or a list": lambda next, _: {"anyOf": [next, {"type": "array", "items": next}]},
    "the next two": lambda next, after: {"anyOf": [next, after]},
    "the next as others": lambda next, _: {"type": "object", "properties": {"a": next}, "additionalProperties": next},
}


def holds_to_its_size(schema: Any) -> None:
    """Compiles a schema, and asserts what that takes; a refusal may take as much."""
    size = len(json.dumps(schema))
    compiled = []

    def work() -> None:
        with suppress(RequestError):
            compiled.append(compile_grammar(chain(Json(schema, "s"), EndOfTurn()), VOCABULARY))

    assert calls_of(work) <= CALLS * size
    limits = LLParserLimits(initial_lexer_fuel=FUEL * size, max_grammar_size=SYMBOLS * size)
    for grammar in compiled:
        within = LLMatcher(VOCABULARY.tokens, grammar.lark, log_level=0, limits=limits)
        assert not within.is_error(), within.get_error()


@settings(max_examples=10)
@given(schemas)
def test_what_a_plain_schema_takes_is_in_proportion_to_its_size(schema: Any) -> None:
    assume(is_plain(schema))
    holds_to_its_size(schema)


@pytest.mark.parametrize("how", DOUBLED)
def test_definitions_that_many_ways_lead_to_are_looked_at_once(how: str) -> None:
    schema = led_to_twice(24, DOUBLED[how])
    assert is_plain(schema)
    holds_to_its_size(schema)


@pytest.mark.parametrize("number", [10**41, -(10**4000), 1e300, 1e-300])
@pytest.mark.parametrize("keyword", ["minimum", "maximum", "exclusiveMinimum", "const"])
def test_numbers_of_many_digits_are_not_plain(keyword: str, number: float) -> None:
    assert not is_plain({"type": "array", "items": {keyword: number}})
    assert is_plain({"type": "array", "items": {keyword: 2**64}})


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_keyword_that_no_table_calls_plain_is_tried_elsewhere(keyword: str) -> None:
    assert [one.path for one in dear([Json({"properties": {"a": {keyword: 1}}}, "s")])] == ["s"]
