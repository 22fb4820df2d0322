"""Limits at their edges: the last that is taken, and the first that is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from antiphon.errors import RequestError
from antiphon.grammar import Choice, EndOfTurn, Json, Regex, chain, check_pattern, check_schema
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.lark_text import lark
from antiphon.grammar.limits import Limits
from antiphon.grammar.schema import compile_schema
from antiphon.grammar.schema.context import MOST_NODES
from antiphon.tokens import ByteTokenizer

VOCABULARY = Vocabulary(ByteTokenizer(["<eos>"]), [256])

ONE_SIGN = {"type": "string", "pattern": "^a$", "minLength": 2}
"""No text is so short and so long."""


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


SCHEMAS: dict[str, tuple[Callable[[int], Any], int, str]] = {
    "characters": (lambda n: {"description": "x" * (n - len("description"))}, 256 * 1024, "s"),
    "characters of names": (lambda n: {"x" * (n // 2): "x" * (n - n // 2)}, 256 * 1024, "s"),
    "depth": (nested, 64, "s" + ".not" * 65),
    "depth of lists": (lambda n: {"a": [nested(n - 2)]}, 64, "s.a[0]" + ".not" * 63),
    "values": (lambda n: {"x": [0] * (n - 2)}, 20_000, "s"),
    "values of an enum": (lambda n: {"a": {"enum": [0] * n}}, 5_000, "s.a.enum"),
    "entries": (lambda n: {"properties": {f"{i}": {} for i in range(n)}}, 2_000, "s.properties"),
    "pattern": (lambda n: {"pattern": "a" * n}, 2_000, "s.pattern"),
    "pattern of names": (lambda n: {"patternProperties": {"a" * n: {}}}, 2_000, "s.patternProperties"),
    "bytes of a constant": (lambda n: {"a": {"const": "é" * (n // 2) + "x" * (n % 2)}}, 16 * 1024, "s.a.const"),
    "bytes within a constant": (lambda n: {"const": {"k": ["x" * (n - 4)]}}, 16 * 1024, "s.const"),
    "bytes of a value": (lambda n: {"enum": ["a", "x" * n]}, 16 * 1024, "s.enum[1]"),
    "bytes of a name": (lambda n: {"properties": {"x" * n: {}}}, 16 * 1024, "s.properties"),
    "bytes of a required name": (lambda n: {"required": ["x" * n]}, 16 * 1024, "s.required"),
    "repetitions": (lambda n: {"pattern": f"a{{{n}}}"}, 16 * 1024, "s.pattern"),
}
KEYWORDS = {
    **dict.fromkeys(("minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"), 10_000),
    **dict.fromkeys(("minLength", "maxLength"), 1_000_000),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_taken_up_to_its_limit_and_refused_at_its_place_beyond(name: str) -> None:
    schema, most, place = SCHEMAS[name]
    check_schema(schema(most), "s")
    with pytest.raises(RequestError) as refused:
        check_schema(schema(most + 1), "s")
    assert (refused.value.code, refused.value.param) == ("invalid_schema", place)


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_a_count_is_taken_up_to_its_limit_and_refused_at_its_place_beyond(keyword: str) -> None:
    most = KEYWORDS[keyword]
    check_schema({"a": {keyword: most}}, "s")
    for beyond in (most + 1, most + 0.5):
        with pytest.raises(RequestError) as refused:
            check_schema({"a": {keyword: beyond}}, "s")
        assert (refused.value.code, refused.value.param) == ("invalid_schema", f"s.a.{keyword}")


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        ("a{7}", 7),
        ("a{2,7}", 7),
        ("a{7,}", 7),
        ("a{0}", 1),
        ("(ab){3}c", 7),
        ("((a{2}){2}b){2}", 10),
        ("a{2}{3}", 6),
        ("[abc]{4}d", 5),
        (r"\d{4}-", 5),
        (r"\{9}", 3),
        ("[{9}]{2}", 2),
        ("(a|bc)", 4),
        ("a)b{3}", 5),
        ("(a{3}", 3),
    ],
)
def test_a_pattern_counts_with_its_repetitions_written_out(pattern: str, size: int) -> None:
    check_pattern(pattern, "p", Limits(unrolled=size))
    with pytest.raises(RequestError) as refused:
        check_pattern(pattern, "p", Limits(unrolled=size - 1))
    assert (refused.value.code, refused.value.param) == ("invalid_schema", "p")


@pytest.mark.parametrize("pattern", ["a{1000000000}", "a{0,1000000000}", "a{1000000000}{0}", "(a{9}){99999999}"])
def test_no_count_is_so_large_that_it_is_not_seen(pattern: str) -> None:
    with pytest.raises(RequestError, match="more than 16384 characters"):
        compile_grammar(chain(Regex(pattern, "p"), EndOfTurn()), VOCABULARY)


def test_one_grammar_has_a_bounded_text() -> None:
    grammar = chain(Json({"type": "integer"}), EndOfTurn())
    size = len(compile_grammar(grammar, VOCABULARY).lark)
    assert compile_grammar(grammar, VOCABULARY, Limits(text=size)).lark
    left_to_the_engine = len(compile_grammar(grammar, VOCABULARY, Limits(text=size - 1)).lark)
    with pytest.raises(RequestError, match=f"more than {left_to_the_engine - 1} characters"):
        compile_grammar(grammar, VOCABULARY, Limits(text=left_to_the_engine - 1))


def test_what_compiles_alone_and_not_together_is_an_error_of_the_whole() -> None:
    objects = [{"type": "object", "properties": {f"{i} {k}": {} for k in range(20)}} for i in range(600)]
    with pytest.raises(RequestError) as refused:
        compile_grammar(chain(Choice(tuple(map(Json, objects))), EndOfTurn()), VOCABULARY)
    assert refused.value.code == "invalid_grammar"
    assert refused.value.hint == "Ask for something simpler."


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"allOf": [{"type": "array", "items": ONE_SIGN, "minItems": 1}]}, "s.allOf[0].items.pattern"),
        ({"not": {"not": {"type": "array", "items": ONE_SIGN, "minItems": 1}}}, "s.not.not.items.pattern"),
    ],
)
def test_a_fault_is_named_where_the_request_has_it_though_the_engine_is_shown_it_elsewhere(
    schema: Any, place: str
) -> None:
    with pytest.raises(RequestError, match="no value fits it") as refused:
        compile_grammar(chain(Json(schema, "s"), EndOfTurn()), VOCABULARY)
    assert refused.value.param == place


RELAXED: dict[str, tuple[Callable[[int], Any], int]] = {
    "places of an array": (lambda n: {"type": "array", "contains": {"const": 1}, "maxItems": n}, 16),
    "selections of properties": (
        lambda n: {
            "type": "object",
            "properties": {f"{i}": {"type": "integer"} for i in range(n)},
            "additionalProperties": False,
            "minProperties": 1,
        },
        64,
    ),
    "orders of values": (
        lambda n: {"type": "array", "items": {"enum": [*range(n)]}, "uniqueItems": True},
        6,
    ),
}


@pytest.mark.parametrize("name", RELAXED)
def test_what_is_written_out_is_written_out_up_to_its_limit_and_checked_afterwards_beyond(name: str) -> None:
    schema, most = RELAXED[name]
    assert compile_schema(schema(most)).relaxed == ()
    assert len(compile_schema(schema(most + 1)).relaxed) == 1


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"type": "array", "contains": {"type": "string"}, "minContains": 2}},
        {"unevaluatedItems": False, "anyOf": [{"prefixItems": [{}]}, {"contains": {"type": "integer"}}]},
    ],
    ids=["a denial", "a rare keyword"],
)
def test_where_nothing_can_be_enforced_any_value_gets_through_to_the_check_afterwards(schema: Any) -> None:
    compiled = compile_schema(schema)
    assert compiled.engine is True
    assert len(compiled.relaxed) == 1


def cases(count: int) -> dict[str, Any]:
    """Two to the power of ``count`` cases, each with as many properties."""

    def case(name: str, kind: str) -> dict[str, Any]:
        return {"properties": {name: {"type": kind}}, "required": [name]}

    pairs = [[case(f"a{i}", "integer"), case(f"b{i}", "string")] for i in range(count)]
    return {"type": "object", "allOf": [{"anyOf": pair} for pair in pairs]}


def test_a_schema_of_too_many_cases_is_refused_and_not_written_out() -> None:
    assert compile_schema(cases(8)).relaxed == ()
    with pytest.raises(RequestError, match="too many cases") as refused:
        compile_schema(cases(12))
    assert (refused.value.code, MOST_NODES) == ("invalid_schema", 20_000)


@pytest.mark.parametrize(
    ("names", "enforced"),
    [
        ({"format": "date"}, True),
        ({"format": "uuid"}, True),
        ({"pattern": "^a"}, True),
        ({"minLength": 2}, True),
        ({"maxLength": 2}, True),
        ({"minLength": 2, "maxLength": 3}, True),
        ({"format": "date", "minLength": 2}, False),
        ({"pattern": "^a", "format": "date"}, False),
        ({"pattern": "^a", "maxLength": 3}, False),
        ({"format": "its own"}, False),
    ],
    ids=str,
)
def test_one_rule_for_names_is_enforced_and_several_are_checked_afterwards(names: Any, enforced: bool) -> None:
    compiled = compile_schema({"type": "object", "propertyNames": names})
    assert [relaxation.keyword for relaxation in compiled.relaxed] == ([] if enforced else ["propertyNames"])
    assert isinstance(compiled.engine, dict)
    assert ("patternProperties" in compiled.engine) is enforced


def test_a_matcher_names_the_first_id_that_was_refused_whatever_comes_then() -> None:
    matcher = compile_grammar(chain(Regex("abc"), EndOfTurn()), VOCABULARY).matcher()
    assert matcher.consume([]) is None
    assert matcher.consume(b"a") is None
    refused = matcher.consume(b"bxy")
    assert refused is not None
    assert (refused.position, refused.id) == (2, ord("x"))
    for ids in (b"c", b"zz", b"", b"x"):
        assert matcher.consume(ids) is refused
        assert matcher.position == 2
    assert matcher.copy().consume(b"c") is refused


@pytest.mark.parametrize(
    ("pattern", "enforced"), [("^a*$", True), ('^"a*$', False), (r"^\\a*$", False), ("^[\n]$", False)]
)
def test_names_that_the_engine_knows_only_by_two_patterns_are_checked_afterwards(pattern: str, enforced: bool) -> None:
    names = {"patternProperties": {pattern: {"type": "integer"}}}
    compiled = compile_schema({"type": "object", **names, "not": {"required": ["x"]}})
    assert [relaxation.keyword for relaxation in compiled.relaxed] == ([] if enforced else ["patternProperties"])
    assert isinstance(compiled.engine, dict)
    assert ("patternProperties" in compiled.engine) is enforced


def test_a_pattern_with_u_0000_is_refused_at_its_place_however_it_comes_there() -> None:
    for refuse in (
        lambda: lark(Regex("a\0", "p"), controls={}, end_ids=()),
        lambda: compile_grammar(chain(Regex("a\0", "p"), EndOfTurn()), VOCABULARY),
        lambda: check_schema({"pattern": "a\0"}, "p"),
    ):
        with pytest.raises(RequestError, match=r"U\+0000") as refused:
            refuse()
        assert (refused.value.param or "").removesuffix(".pattern") == "p"


FEW = {"type": "array", "items": {"enum": [1, 2]}}


@pytest.mark.parametrize(
    ("more", "arrays"),
    [
        ({"uniqueItems": True}, [[], [1], [2], [1, 2], [2, 1]]),
        ({"uniqueItems": True, "minItems": 2}, [[1, 2], [2, 1]]),
        ({"uniqueItems": True, "items": {"type": "boolean"}, "minItems": 2}, [[False, True], [True, False]]),
        ({"uniqueItems": True, "prefixItems": [{"const": 1}]}, None),
        ({"uniqueItems": True, "contains": {"const": 1}}, None),
        ({"uniqueItems": True, "items": {"type": "integer"}}, None),
        ({"not": {"uniqueItems": True}}, None),
    ],
    ids=str,
)
def test_arrays_of_few_distinct_values_are_written_out_and_others_are_checked_afterwards(
    more: dict[str, Any], arrays: list[Any] | None
) -> None:
    compiled = compile_schema({**FEW, **more})
    if arrays is None:
        assert len(compiled.relaxed) == 1
        assert "enum" not in (compiled.engine if isinstance(compiled.engine, dict) else ())
    else:
        assert compiled.relaxed == ()
        assert compiled.engine == {"enum": arrays}
