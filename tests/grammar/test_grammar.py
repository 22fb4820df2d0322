"""What a grammar accepts, byte by byte, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from antiphon.conversation import ResponseFormat, ToolChoice, ToolSpec
from antiphon.errors import RequestError
from antiphon.grammar import (
    AnyText,
    EndOfTurn,
    Grammar,
    Json,
    Literal,
    Regex,
    ReplyShape,
    Shared,
    chain,
    choice,
    optional,
)
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.following import Matcher
from antiphon.grammar.rules import text_without
from antiphon.tokens import ByteTokenizer, Control, ControlScanner

EOS, END, START = Control("<eos>"), Control("<|end|>"), Control("<|start|>")
SPELLED = ByteTokenizer([EOS])
"""A vocabulary without the format's controls: they are spelled out."""
OWNING = ByteTokenizer([EOS, END, START])
VOCABULARY = {tokenizer: Vocabulary(tokenizer, [256]) for tokenizer in (SPELLED, OWNING)}


def ids(tokenizer: ByteTokenizer, *pieces: str | Control) -> list[int]:
    return [
        id
        for piece in pieces
        for id in (tokenizer.encode(piece) if isinstance(piece, str) else [tokenizer.controls[piece]])
    ]


def follow(grammar: Grammar, *pieces: str | Control, tokenizer: ByteTokenizer = SPELLED) -> Matcher:
    matcher = compile_grammar(grammar, VOCABULARY[tokenizer]).matcher()
    matcher.consume(ids(tokenizer, *pieces))
    return matcher


def accepts(grammar: Grammar, *pieces: str | Control, tokenizer: ByteTokenizer = SPELLED) -> bool:
    return follow(grammar, *pieces, tokenizer=tokenizer).accepting


def test_a_turn_ends_with_the_models_own_end_token_and_with_nothing_else() -> None:
    turn = chain("hello", EndOfTurn())
    assert accepts(turn, "hello", EOS)
    assert not accepts(turn, "hello")
    assert not accepts(turn, "hello", EOS, "hello")


def test_a_closing_control_of_the_vocabulary_is_the_end_of_the_turn() -> None:
    turn = chain("hello", EndOfTurn(END))
    assert accepts(turn, "hello", END, tokenizer=OWNING)
    assert accepts(turn, "hello<|end|>", tokenizer=SPELLED)
    assert accepts(turn, "hello<|end|>", EOS, tokenizer=SPELLED)
    assert not accepts(turn, "hello", EOS, tokenizer=SPELLED)


def test_a_marker_given_as_text_is_spelled_out_whatever_the_vocabulary_has() -> None:
    turn = chain(AnyText("<|end|>"), EndOfTurn())
    assert accepts(turn, "hello<|end|>", EOS, tokenizer=OWNING)
    assert not accepts(turn, "hello", END, EOS, tokenizer=OWNING)


@pytest.mark.parametrize(
    "text",
    ["", "hello", "a < b <| c |> <|en", "<|<|end", "<<<<", "naïve 漢字 🙂\n\n", "<|start", "</end>", "<|end|"],
)
def test_free_text_may_be_anything_that_spells_no_control(text: str) -> None:
    body = chain(AnyText(END, (START,)), "!", EndOfTurn())
    assert accepts(body, f"{text}<|end|>!", EOS)
    assert accepts(body, text, END, "!", EOS, tokenizer=OWNING)


@pytest.mark.parametrize("text", ["<|start|>", "a<|start|>b", "<<|start|>", "<|<|start|> "])
def test_free_text_cannot_spell_a_control_that_the_vocabulary_lacks(text: str) -> None:
    body = chain(AnyText(END, (START,)), EndOfTurn())
    assert not accepts(body, f"{text}<|end|>", EOS)
    assert accepts(body, text, END, EOS, tokenizer=OWNING)


def test_free_text_closes_at_its_first_closer() -> None:
    body = chain(AnyText(END), "!", EndOfTurn())
    assert not accepts(body, "a<|end|>b<|end|>!", EOS)


def test_an_escaped_control_is_text_and_a_closer_is_never_escaped() -> None:
    body = chain(AnyText(END, (START,), escaped=True), EndOfTurn())
    assert accepts(body, "a <<|start|> b <<|end|> c<|end|>", EOS)
    assert not accepts(body, "a <|start|> b<|end|>", EOS)
    assert not accepts(body, "a<<|end|>", EOS)


@pytest.mark.parametrize("limit", [0, 3, 2000])
def test_at_its_limit_the_closer_is_forced(limit: int) -> None:
    body = chain(AnyText(END, (START,), limit=limit), EndOfTurn())
    assert accepts(body, "é" * limit + "<|end|>", EOS)
    assert not accepts(body, "é" * (limit + 1) + "<|end|>", EOS)


def test_equal_bodies_are_one_rule() -> None:
    item = Json({"type": "integer"})
    text = compile_grammar(chain(item, ",", Json({"type": "integer"}), EndOfTurn()), VOCABULARY[SPELLED]).lark
    assert len([line for line in text.splitlines() if line.startswith("INTEGER")]) == 1


def test_json_has_no_white_space_to_get_lost_in() -> None:
    answer = chain(Json({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}), EndOfTurn())
    assert accepts(answer, '{"a":1}', EOS)
    assert not accepts(answer, '{"a": 1}', EOS)


TREE = {"type": "object", "properties": {"at": {"$ref": "#/$defs/tree"}, "tags": {"type": "array", "items": {}}}}
FLAT = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": ["x", {"y": [1, 2]}]}}}


@pytest.mark.parametrize(
    ("schema", "text", "accepted"),
    [
        (FLAT, '{"a":"x","b":"x"}', True),
        (FLAT, '{"a": "x", "b": "x"}', True),
        (FLAT, '{ "a" : "x" ,"b":{"y": [1,2 ]}}', True),
        (FLAT, '{\n  "a": "x",\r\n\t"b":\n  {"y": [\n1, 2]}\n}', True),
        (FLAT, '{"a":\n\n"x"}', False),
        (FLAT, f'{{"a":{" " * 16}"x"}}', True),
        (FLAT, f'{{"a":{" " * 17}"x"}}', False),
        (FLAT, '{"a":\u00a0"x"}', False),
        ({**TREE, "$defs": {"tree": TREE}}, '{"at": {"at":{"tags": [1,[], {"x":[null, 2]}]}}}', True),
        ({"type": "object", "allOf": [FLAT, {"minProperties": 1}]}, '{"a": "x"}', True),
        ({"type": "object", "patternProperties": {"^x": {"type": "string"}}}, '{"x": "a", "xy": "b"}', True),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, '"a, b: c"', True),
    ],
)
def test_blanks_are_a_line_break_and_an_indentation_at_most_wherever_json_has_them(
    schema: Any, text: str, accepted: bool
) -> None:
    assert accepts(chain(Json(schema, any_whitespace=True), EndOfTurn()), text, EOS) is accepted


ESCAPED = {
    "type": "object",
    "properties": {
        "ü/<": {"enum": ["é", "e"]},
        "short": {"type": "string", "maxLength": 2},
        "a": {"type": "integer"},
        "of": {"const": {"\U0001f600": ["\x7f"]}},
    },
}


@pytest.mark.parametrize("whitespace", [False, True])
@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        (r'{"ü/<":"é"}', True),
        (r'{"\u00fc\/\u003c":"\u00E9"}', True),
        (r'{"\u00fc/\u003C":"\u00ea"}', False),
        (r'{"short":"\u00fc\/"}', True),
        (r'{"short":"\ud83d\ude00\uD83D\uDE00"}', True),
        (r'{"short":"\u00fc\/x"}', False),
        (r'{"short":"\ud83d"}', False),
        ('{"short":"\x7f\\u007f"}', True),
        ('{"short":"\x1f"}', False),
        (r'{"of":{"\ud83d\ude00":["\u007f"]}}', True),
        ('{"of":{"\U0001f600":["\x7f"]}}', True),
        (r'{"other\u00fc\/\n\u003c":null}', True),
        (r'{"\u0061":"no integer"}', False),
        (r'{"\u00fc\/\u003c":"another"}', False),
    ],
)
def test_strings_and_names_may_be_escaped_as_json_has_it(text: str, accepted: bool, whitespace: bool) -> None:
    assert accepts(chain(Json(ESCAPED, any_whitespace=whitespace), EndOfTurn()), text, EOS) is accepted


def test_what_is_shared_is_written_once_wherever_it_stands() -> None:
    body = Shared(chain("x", Json({"type": "object", "maxProperties": 1})))
    turn = chain(choice(chain("a", body), chain("b", body)), EndOfTurn())
    assert compile_grammar(turn, VOCABULARY[SPELLED]).lark.count("maxProperties") == 1
    assert accepts(turn, "ax{}", EOS)
    assert accepts(turn, "bx{}", EOS)
    assert not accepts(turn, "x{}", EOS)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"[A-Z]{3}-\d{4}", "ABC-1234"),
        ("a/b", "a/b"),
        (r"a\/b", "a/b"),
        ("a\nb", "a\nb"),
        ("a\\\nb", "a\nb"),
        ("[/]", "/"),
    ],
)
def test_a_pattern_matches_the_whole_answer(pattern: str, text: str) -> None:
    assert accepts(chain(Regex(pattern), EndOfTurn()), text, EOS)
    assert not accepts(chain(Regex(pattern), EndOfTurn()), text + "x", EOS)


def test_choices_and_options_are_what_they_say() -> None:
    answer = chain(optional(Literal("oh ")), choice("yes", "no", 'a "quoted" \\ one'), EndOfTurn())
    for text in ("yes", "oh no", 'a "quoted" \\ one'):
        assert accepts(answer, text, EOS)
    assert not accepts(answer, "oh oh no", EOS)


def test_a_matcher_tells_the_first_violation_and_stays_there() -> None:
    matcher = follow(chain("hello", EndOfTurn()))
    assert matcher.consume(ids(SPELLED, "hel")) is None
    violation = matcher.consume(ids(SPELLED, "p!"))
    assert violation is not None
    assert (violation.position, violation.id) == (3, ord("p"))
    assert matcher.consume(ids(SPELLED, "lo", EOS)) == violation
    assert not matcher.accepting


def test_a_mask_has_a_bit_for_each_id_that_may_come_next() -> None:
    matcher = follow(chain(choice("ab", "b"), EndOfTurn()))

    def allowed() -> list[int]:
        mask = matcher.mask()
        return [id for id in range(SPELLED.size) if mask and mask[id // 8] >> id % 8 & 1]

    assert allowed() == [ord("a"), ord("b")]
    matcher.consume([ord("a")])
    assert allowed() == [ord("b")]
    matcher.consume([ord("b")])
    assert allowed() == [SPELLED.controls[EOS]]
    matcher.consume([SPELLED.controls[EOS]])
    assert allowed() == []
    assert matcher.stopped


def test_matchers_of_one_grammar_do_not_see_each_other() -> None:
    compiled = compile_grammar(chain("ab", EndOfTurn()), VOCABULARY[SPELLED])
    one, other = compiled.matcher(), compiled.matcher()
    assert one.consume([ord("x")]) is not None
    assert other.consume(ids(SPELLED, "ab", EOS)) is None
    assert other.accepting
    assert compiled.matcher().consume(ids(SPELLED, "ab")) is None


WEATHER, ADD = ToolSpec("weather", parameters={"type": "object"}), ToolSpec("add")


def test_a_shape_offers_the_tools_that_the_choice_allows() -> None:
    def callable_with(*names: str, mode: str = "auto") -> tuple[ToolSpec, ...]:
        return ReplyShape(tools=(WEATHER, ADD), tool_choice=ToolChoice(mode, names)).callable  # type: ignore[arg-type]  # parametrised mode

    assert callable_with() == (WEATHER, ADD)
    assert callable_with("add") == (ADD,)
    assert callable_with("functions.add", mode="required") == (ADD,)
    assert callable_with(mode="none") == ()


@pytest.mark.parametrize(
    "shape",
    [
        ReplyShape(tools=(ADD,), tool_choice=ToolChoice("auto", ("subtract",))),
        ReplyShape(tool_choice=ToolChoice("required")),
    ],
)
def test_a_choice_that_cannot_be_met_is_refused(shape: ReplyShape) -> None:
    with pytest.raises(RequestError) as refused:
        _ = shape.callable
    assert refused.value.param == "tool_choice"


def test_one_call_at_most_unless_parallel() -> None:
    assert ReplyShape(call_ids=("a", "b")).ids == ("a", "b")
    assert ReplyShape(call_ids=("a", "b"), parallel=False).ids == ("a",)


def test_a_shape_says_what_the_answer_must_be() -> None:
    schema = {"type": "integer"}
    strict = ResponseFormat("json_schema", schema=schema, strict=True)
    assert ReplyShape().answer() is None
    assert ReplyShape(response_format=strict).answer() == Json(schema, "response_format.json_schema.schema", True)
    assert ReplyShape(response_format=ResponseFormat("choice", choices=("a", "b"))).answer() == choice("a", "b")
    with pytest.raises(RequestError, match="non-empty"):
        ReplyShape(response_format=ResponseFormat("choice", choices=("a", ""))).answer()


def test_the_scanner_reads_what_the_grammar_lets_through() -> None:
    text = "a < b <| c <|en<|end|>"
    assert accepts(chain(AnyText(END, (START,)), EndOfTurn()), text, EOS)
    scanner = ControlScanner([END, START])
    assert [*scanner.feed(text), *scanner.close()] == ["a < b <| c <|en", END]


def test_a_bounded_text_has_no_complement_and_comes_to_no_spelling() -> None:
    # A count that meets a complement makes the engine's lexer give up in mid-reply: then it runs on without grammar.
    spelled = text_without({"<|end|>", "<|call|>", "[X]"}, limit=5, escaped=True, closed=True)
    assert "~" not in spelled
    pattern = re.compile(spelled.strip("/"))
    for text in ("", "a b", "a<b|c", "[a]", "1 < 2"):
        assert pattern.fullmatch(text), text
    for text in ("<|", "a<|end", "[X", "abcdef", "a<"):
        assert not pattern.fullmatch(text), text
