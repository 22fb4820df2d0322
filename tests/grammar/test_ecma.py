"""Patterns mean to the engine what they mean to ECMA-262: classes, the dot, and what Rust has operators for."""

from __future__ import annotations

import json
import re

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import UnsupportedError
from antiphon.grammar import EndOfTurn, Json, Regex, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer

END = 256
VOCABULARY = Vocabulary(ByteTokenizer(["<eos>"]), [END])
SPACES = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
CHARACTERS = SPACES + "\x1c\x1f\x85\u180e\u200b09azAZ_\u0663\u096a\u01c5é\u017f\u212aλ-[]^&~:.$/\"'<|\\😀"
"""Spaces and their likes, digits and letters of other scripts, and what has a meaning in classes."""

PAIRS = {
    r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[A-Za-z0-9_]", r"\W": "[^A-Za-z0-9_]",
    r"\s": f"[{SPACES}\u2002-\u2009]", r"\S": f"[^{SPACES}\u2002-\u2009]", ".": "[^\n\r\u2028\u2029]",
    r"\.": r"\.", r"\/": "/", r"\-": "-", r"\cJ": "\n", r"\x41": "A", r"\u00e9": "é", "é": "é", "a": "a", "😀": "😀",
}  # fmt: skip
"""Atoms as ECMA-262 spells them, and the same spelled out for Python."""
MEMBERS = {
    r"\d": "0-9", r"\w": "A-Za-z0-9_", r"\s": f"{SPACES}\u2002-\u2009", "a-z": "a-z", "[": r"\[", "&&": r"\&",
    "~~": r"\~", "[:alpha:": r"\[:alph", "é": "é", r"\]": r"\]", ".": ".", r"\-": r"\-", r"\/": "/", "+--": "+,\\-",
}  # fmt: skip
ATOMS = st.sampled_from(sorted(PAIRS.items()))
CLASSES = st.tuples(st.booleans(), st.lists(st.sampled_from(sorted(MEMBERS.items())), min_size=1, max_size=4)).map(
    lambda drawn: (
        f"[{'^' * drawn[0]}{''.join(ecma for ecma, _ in drawn[1])}]",
        f"[{'^' * drawn[0]}{''.join(python for _, python in drawn[1])}]",
    )
)
REPEATS = st.sampled_from(["", "?", "*", "+", "{2}", "{1,2}"])
PATTERNS = st.lists(st.tuples(ATOMS | CLASSES, REPEATS), min_size=1, max_size=3).map(
    lambda parts: tuple("".join(part[side] + repeat for part, repeat in parts) for side in (0, 1))
)


def accepts(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return matcher.consume([*text.encode(), END]) is None and matcher.accepting


@settings(max_examples=17, deadline=None)
@given(pattern=PATTERNS, texts=st.lists(st.text(CHARACTERS, max_size=4), min_size=5, max_size=10))
def test_a_pattern_accepts_what_a_plain_reading_of_ecma_262_accepts(pattern: tuple[str, str], texts: list[str]) -> None:
    ecma, python = pattern
    schema = {"type": "string", "pattern": f"^(?:{ecma})$"}
    enforced = compile_grammar(chain(Json(schema, "s", strict=True), EndOfTurn()), VOCABULARY)
    bare = compile_grammar(chain(Regex(ecma, "r"), EndOfTurn()), VOCABULARY)
    judge = jsonschema_rs.validator_for(schema)
    for text in [*texts, *CHARACTERS]:
        expected = re.fullmatch(python, text) is not None
        assert accepts(bare, text) is expected, (ecma, text)
        as_json = json.dumps(text, ensure_ascii=False)
        assert accepts(enforced, as_json) is expected, (ecma, text)
        assert not expected or judge.is_valid(text), (ecma, text)


@pytest.mark.parametrize(
    ("schema", "fits", "fails"),
    [
        ({"patternProperties": {r"^\d$": {"type": "null"}}}, '{"5":null}', '{"\u0663":null}'),
        ({"propertyNames": {"pattern": r"^\w$"}}, '{"a":1}', '{"é":1}'),
        ({"allOf": [{"pattern": r"^\S+$"}, {"minLength": 2}], "type": "string"}, '"a\x85"', '"a\ufeff"'),
    ],
)
def test_names_and_lowered_patterns_are_read_the_same_way(schema: dict[str, object], fits: str, fails: str) -> None:
    closed = {**schema, "additionalProperties": False} if "patternProperties" in schema else schema
    grammar = compile_grammar(chain(Json({"type": "object", **closed}, "s", strict=True), EndOfTurn()), VOCABULARY)
    assert accepts(grammar, fits)
    assert not accepts(grammar, fails)


ESCAPED = st.sampled_from(
    ['"', r"\\", r"\n", r"\t", r"\x0b", '["]', '[^"]', r"[^\\]", r'[^"\\]', r"[\x00-\x1f]", "[ax]", "a", "."]
)


@settings(max_examples=60, deadline=None)
@given(
    parts=st.lists(st.tuples(ESCAPED, REPEATS), min_size=1, max_size=3),
    texts=st.lists(st.text('"\\\n\t\vax', max_size=4)),
)
def test_what_json_escapes_is_enforced_like_any_other_character(parts: list[tuple[str, str]], texts: list[str]) -> None:
    pattern = "".join(part + repeat for part, repeat in parts)
    schema = {"type": "string", "pattern": f"^{pattern}$"}
    enforced = compile_grammar(chain(Json(schema, "s", strict=True), EndOfTurn()), VOCABULARY)
    for text in [*texts, *'"\\\n\tax', '"a', 'a"', "\\a", "\na", '""', "\\\\"]:
        assert accepts(enforced, json.dumps(text)) is (re.fullmatch(pattern, text) is not None), (pattern, text)


@pytest.mark.parametrize("pattern", [r"^a\b", r"\Ba", r"^x\\\b"])
def test_a_word_boundary_is_checked_when_the_value_is_whole(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    grammar = compile_grammar(chain(Json(schema, "s"), EndOfTurn()), VOCABULARY)
    assert [relaxed.keyword for relaxed in grammar.schemas["s"].relaxed] == ["pattern"]
    with pytest.raises(UnsupportedError) as refused:
        compile_grammar(chain(Json(schema, "s", strict=True), EndOfTurn()), VOCABULARY)
    assert refused.value.param == "s.pattern"
