"""What a grammar costs a token is bounded: by what it may spell out, by what is forced, and by a look at its masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from llguidance import LLMatcher, LLParserLimits

from antiphon.errors import RequestError
from antiphon.generation.constraint import EVERY, LOOKS, MaskBudget
from antiphon.grammar import LIMITS, Json, Limits, Regex, check_schema, lark
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.following import Matcher
from antiphon.tokens import ByteTokenizer, Control

END = 256
LONGEST = LIMITS.literal


class CountingTokenizer(ByteTokenizer):
    """Counts the characters that it is given to encode."""

    def __init__(self) -> None:
        super().__init__([Control("<end>")])
        self.encoded = 0

    def encode(self, text: str) -> list[int]:
        self.encoded += len(text)
        return super().encode(text)


TEXT = "x" * 10_000
FORCED: dict[str, Any] = {
    "a const": {"const": TEXT},
    "a name": {"type": "object", "properties": {TEXT: {"const": 1}}, "required": [TEXT], "additionalProperties": False},
    "a pattern": {"type": "string", "pattern": "^(?:x{100}){100}$"},
    "a length": {"type": "string", "pattern": "^x*$", "minLength": 10_000},
    "many items": {"type": "array", "items": {"const": "x" * 20}, "minItems": 500},
}


@pytest.mark.parametrize("name", FORCED)
def test_what_a_grammar_forces_is_not_tokenized_at_every_token(name: str) -> None:
    tokenizer = CountingTokenizer()
    matcher = compile_grammar(Json(FORCED[name]), Vocabulary(tokenizer, {END})).matcher()
    before = tokenizer.encoded
    for _ in range(50):
        mask = matcher.mask()
        allowed = next(id for id in (*b"x", *range(256)) if mask[id // 8] >> id % 8 & 1)
        assert matcher.consume([allowed]) is None
    assert tokenizer.encoded - before < 50 * 100


LONG: dict[str, tuple[Any, str]] = {
    "const": ({"const": "x" * (LONGEST + 1)}, "s.const"),
    "const in parts": ({"const": {"a": ["x" * (LONGEST // 2)] * 2}}, "s.const"),
    "const, in bytes": ({"const": "é" * (LONGEST // 2 + 1)}, "s.const"),
    "enum": ({"items": {"enum": [1, "x" * (LONGEST + 1)]}}, "s.items.enum[1]"),
    "name": ({"properties": {"x" * (LONGEST + 1): True}}, "s.properties"),
    "required": ({"required": ["x" * (LONGEST + 1)]}, "s.required"),
    "pattern": ({"pattern": "^(?:x{200}){100}$"}, "s.pattern"),
}


@pytest.mark.parametrize("name", LONG)
def test_a_literal_longer_than_the_limit_is_refused_with_its_place(name: str) -> None:
    schema, place = LONG[name]
    with pytest.raises(RequestError) as caught:
        check_schema(schema, "s")
    assert (caught.value.code, caught.value.param) == ("invalid_schema", place)
    check_schema(schema, "s", Limits(literal=10 * LONGEST, unrolled=10 * LONGEST))


def test_a_literal_of_the_limit_passes() -> None:
    check_schema({"const": "x" * LONGEST, "enum": ["é" * (LONGEST // 2)]}, "s")


def at_the_end_of(ids: int, pattern: str = "a*") -> Matcher:
    matcher = compile_grammar(Regex(pattern), Vocabulary(ByteTokenizer([Control("<end>")]), {END})).matcher()
    matcher.consume([97] * ids)
    return matcher


def ticking(*seconds: float) -> Iterator[float]:
    """Times of a clock between whose pairs of readings so many seconds pass."""
    now = 0.0
    for passed in seconds:
        yield now
        now += passed
        yield now


def followed(*seconds: float) -> Matcher:
    """A reply whose masks, each time that one is looked at, take so long."""
    clock = ticking(*seconds)
    watch, matcher = MaskBudget(0.005, clock=lambda: next(clock)), at_the_end_of(0)
    for _ in seconds:
        matcher.consume([97] * EVERY)
        watch.look(matcher)
    return matcher


def test_a_reply_whose_masks_take_too_long_is_ended() -> None:
    with pytest.raises(RequestError) as caught:
        followed(*[0.006] * LOOKS)
    assert caught.value.code == "invalid_grammar"
    assert caught.value.hint


def test_one_slow_mask_among_quick_ones_ends_nothing() -> None:
    assert followed(0.001, 0.017, *[0.0005] * 6).position == 8 * EVERY


def test_short_replies_are_not_looked_at() -> None:
    watch = MaskBudget(0.0, clock=lambda: pytest.fail("looked"))
    watch.look(at_the_end_of(EVERY - 1))


def test_a_grammar_at_which_the_engine_gives_up_is_refused() -> None:
    """At one of its own limits a matcher ends for good: the engine would go on without a grammar."""
    vocabulary = Vocabulary(ByteTokenizer([Control("<end>")]), {END})
    text = lark(Regex("(?:.*a.{100}|.*b.{99}c)*"), controls={}, end_ids=())
    limits = LLParserLimits(step_lexer_fuel=1_000)
    matcher, watch = Matcher(LLMatcher(vocabulary.tokens, text, log_level=0, limits=limits)), MaskBudget(1e9)
    matcher.consume(b"abcabcabcabcabcabc")
    with pytest.raises(RequestError) as caught:
        watch.look(matcher)
    assert caught.value.code == "invalid_grammar"
