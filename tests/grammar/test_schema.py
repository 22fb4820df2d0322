"""JSON Schemas: what the engine is shown, what it accepts, and what is left for the finished value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import RequestError
from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.grammar.schema import Relaxation, compile_schema
from antiphon.grammar.schema.patterns import PATTERNS, all_except
from antiphon.tokens import ByteTokenizer, Control

TOKENIZER = ByteTokenizer(["<eos>"])
VOCABULARY = Vocabulary(TOKENIZER, [256])


def compiled(schema: Any, *, strict: bool = True) -> CompiledGrammar:
    return compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), VOCABULARY)


def accepts(grammar: CompiledGrammar, value: Any) -> bool:
    matcher = grammar.matcher()
    matcher.consume([*TOKENIZER.encode(json.dumps(value, separators=(",", ":"), ensure_ascii=False)), 256])
    return matcher.accepting


ENFORCED: dict[str, tuple[Any, Sequence[Any], Sequence[Any]]] = {
    "oneOf with a discriminator": (
        {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"k": {"const": "a"}, "n": {"type": "integer"}},
                    "required": ["k", "n"],
                },
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]},
            ]
        },
        [{"k": "a", "n": 1}, {"k": "b"}],
        [{"k": "a"}, {"k": "c"}, {"n": 1}],
    ),
    "oneOf that overlaps": (
        {"oneOf": [{"type": "integer", "maximum": 5}, {"type": "integer", "minimum": 3}]},
        [2, 6],
        [4],
    ),
    "definitions that refer to themselves, together": (
        {
            "$defs": {
                "n": {
                    "type": "object",
                    "properties": {"a": True, "next": {"$ref": "#/$defs/n"}},
                    "required": ["a"],
                },
                "m": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "next": {"$ref": "#/$defs/m"}},
                    "additionalProperties": False,
                },
            },
            "allOf": [{"$ref": "#/$defs/n"}, {"$ref": "#/$defs/m"}],
        },
        [{"a": 1}, {"a": 1, "next": {"a": 2, "next": {"a": 3}}}],
        [{}, {"a": 1, "next": {}}, {"a": 1, "next": {"a": 2, "b": 3}}, {"a": 1, "next": {"a": 2, "next": {"a": "3"}}}],
    ),
    "contains of what every item is": (
        {"type": "array", "items": {"type": "integer"}, "contains": {"type": "number"}},
        [[1], [1, 2]],
        [[]],
    ),
    "so many of what every item is": (
        {"type": "array", "items": {"type": "integer"}, "contains": {"type": "integer"}, "minContains": 3},
        [[1, 2, 3], [1, 2, 3, 4]],
        [[], [1, 2]],
    ),
    "dependentRequired": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "dependentRequired": {"a": ["b"]},
        },
        [{"a": 1, "b": 2}, {"b": 2}, {}],
        [{"a": 1}],
    ),
    "dependencies": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"card": {"type": "string"}, "address": {"type": "string"}},
            "dependencies": {"card": ["address"]},
            "additionalProperties": False,
        },
        [{"card": "x", "address": "y"}, {"address": "y"}, {}],
        [{"card": "x"}, {"other": 1}],
    ),
    "dependentSchemas": (
        {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}},
            "dependentSchemas": {"a": {"properties": {"b": {"minimum": 10}}, "required": ["b"]}},
            "additionalProperties": False,
        },
        [{"a": True, "b": 10}, {"b": 1}],
        [{"a": True}, {"a": True, "b": 1}],
    ),
    "if, then, else": (
        {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}},
            "required": ["kind"],
            "additionalProperties": False,
            "if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["n"]},
            "else": {"properties": {"n": False}},
        },
        [{"kind": "a", "n": 1}, {"kind": "b"}],
        [{"kind": "a"}, {"kind": "b", "n": 1}],
    ),
    "not a type": ({"not": {"type": ["object", "array", "string"]}}, [1, None, True, 1.5], ["x", [], {}]),
    "not a value": ({"type": "string", "not": {"enum": ["no", "non"]}}, ["", "n", "nope", "nonsense"], ["no", "non"]),
    "not an integer": ({"type": "integer", "not": {"const": 5}}, [4, 6, -5, 55], [5]),
    "not a property": ({"type": "object", "not": {"required": ["x"]}}, [{}, {"y": 1}], [{"x": 1}]),
    "uniqueItems of few": (
        {"type": "array", "items": {"enum": ["r", "g", "b"]}, "uniqueItems": True},
        [[], ["g"], ["b", "r", "g"]],
        [["r", "r"], ["x"]],
    ),
    "contains in a bounded array": (
        {"type": "array", "items": {"type": "integer"}, "contains": {"const": 7}, "maxItems": 3},
        [[7], [1, 7], [1, 2, 7]],
        [[], [1, 2, 3], [1, 2, 3, 7]],
    ),
    "tuples of draft 7": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "array",
            "items": [{"type": "integer"}, {"type": "string"}],
            "additionalItems": False,
        },
        [[], [1], [1, "a"]],
        [["a"], [1, "a", 2]],
    ),
    "exclusiveMinimum of draft 4": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "integer",
            "minimum": 3,
            "exclusiveMinimum": True,
        },
        [4],
        [3],
    ),
    "definitions that refer to themselves": (
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "type": "object",
                    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
                    "required": ["v"],
                    "additionalProperties": False,
                }
            },
        },
        [{"v": 1}, {"v": 1, "next": {"v": 2}}],
        [{"v": 1, "next": {}}],
    ),
    "the document itself": (
        {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False},
        [{}, {"child": {"child": {}}}],
        [{"child": 1}],
    ),
    "allOf and unevaluatedProperties": (
        {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}}], "unevaluatedProperties": False},
        [{"a": "x"}, {}],
        [{"b": 1}],
    ),
    "propertyNames": ({"type": "object", "propertyNames": {"pattern": "^x-"}}, [{"x-a": 1}, {}], [{"a": 1}]),
    "patternProperties alone": (
        {
            "type": "object",
            "patternProperties": {"^n": {"type": "integer"}, "^s": {"type": "string"}},
            "additionalProperties": False,
        },
        [{"n1": 1, "s1": "x"}],
        [{"n1": "x"}, {"other": 1}],
    ),
    "minProperties of a closed object": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{}],
    ),
    "minItems": ({"type": "array", "minItems": 2}, [[1, "a"], [1, 2, 3]], [[], [1]]),
    "maxProperties of a closed object": (
        {
            "type": "object",
            "properties": {name: {"type": "integer"} for name in "abc"},
            "additionalProperties": False,
            "maxProperties": 2,
        },
        [{}, {"a": 1, "c": 1}],
        [{"a": 1, "b": 1, "c": 1}],
    ),
    "const": ({"const": {"a": [1, None]}}, [{"a": [1, None]}], [{"a": [1]}, 1]),
    "nullable": ({"type": "string", "enum": ["a"], "nullable": True}, ["a", None], ["b"]),
    "an unknown format": ({"type": "string", "format": "colour-of-the-sky"}, ["anything"], [1]),
    "a format beside a pattern": (
        {"type": "string", "format": "date", "pattern": "^2024"},
        ["2024-02-29"],
        ["2023-01-01", "2024"],
    ),
    "a whole number as a fraction": (
        {"type": "array", "items": {"type": "null"}, "maxItems": 1.0},
        [[None]],
        [[None, None]],
    ),
}


@pytest.mark.parametrize("name", ENFORCED)
def test_a_keyword_beyond_the_engine_is_enforced_all_the_same(name: str) -> None:
    schema, valid, invalid = ENFORCED[name]
    grammar = compiled(schema)
    assert [value for value in valid if not accepts(grammar, value)] == []
    assert [value for value in invalid if accepts(grammar, value)] == []


@pytest.mark.parametrize("name", ENFORCED)
def test_the_finished_value_is_judged_by_the_schema_itself(name: str) -> None:
    schema, valid, invalid = ENFORCED[name]
    enforced = compile_schema(schema)
    assert [value for value in valid if enforced.fault(json.dumps(value)) is not None] == []
    assert [value for value in invalid if enforced.fault(json.dumps(value)) is None] == []


NOT_ENFORCED: dict[str, tuple[Any, str, Any, Any]] = {
    "uniqueItems": (
        {"properties": {"a": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}},
        ".properties.a.uniqueItems",
        {"a": [1, 2]},
        {"a": [1, 1]},
    ),
    "contains": ({"type": "array", "contains": {"const": 1}}, ".contains", [0, 1], [0]),
    "minContains": ({"contains": {"const": 1}, "minContains": 2, "maxItems": 3}, ".contains", [1, 0, 1], [0, 1]),
    "minProperties": ({"type": "object", "minProperties": 2}, ".minProperties", {"a": 1, "b": 1}, {"a": 1}),
    "pattern": ({"type": "string", "pattern": "^(?!no)"}, ".pattern", "yes", "no"),
    "format": ({"type": "string", "format": "regex"}, ".format", "a+", "("),
    "not": ({"type": "string", "not": {"pattern": "a"}}, ".not", "b", "a"),
}


@pytest.mark.parametrize("keyword", NOT_ENFORCED)
def test_strict_refuses_what_cannot_be_enforced_and_names_it(keyword: str) -> None:
    schema, path, _, _ = NOT_ENFORCED[keyword]
    with pytest.raises(RequestError) as refused:
        compile_schema(schema, "tools[0].function.parameters", strict=True)
    assert refused.value.param == f"tools[0].function.parameters{path}"
    assert path.rpartition(".")[2] in refused.value.message


@pytest.mark.parametrize("keyword", NOT_ENFORCED)
def test_without_strict_it_is_relaxed_reported_and_checked_afterwards(keyword: str) -> None:
    schema, path, valid, invalid = NOT_ENFORCED[keyword]
    grammar = compiled(schema, strict=False)
    enforced = grammar.schemas["s"]
    assert enforced.relaxed == (Relaxation(path.rpartition(".")[2], path),)
    assert accepts(grammar, valid)
    assert enforced.fault(json.dumps(valid)) is None
    assert enforced.fault(json.dumps(invalid)) is not None


def test_a_fault_tells_where_in_the_value() -> None:
    enforced = compile_schema({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}})
    assert ".a[1]" in str(enforced.fault('{"a":[1,"x"]}'))
    assert "not JSON" in str(enforced.fault('{"a":'))


def test_a_number_beyond_any_check_is_a_fault() -> None:
    assert compile_schema({"type": "number"}).fault("1e9999999999999999999") is not None


@pytest.mark.parametrize(
    ("schema", "fits", "does_not"),
    [
        ({"type": "string", "maxLength": 1}, r'"\udedd"', r'"\udedd\udedd"'),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, r'{"\udedd": 1}', r'{"\udedd": "\udedd"}'),
        ({"type": "object", "propertyNames": {"pattern": "^.$"}}, r'{"\udedd": 1}', r'{"\udeddx": 1}'),
        ({"uniqueItems": True}, r'["\ud800", "\ud801"]', r'["\ud800", "\ud800"]'),
        ({"enum": ["\ufffd", "\U0001f600"]}, r'"\ud83d\ude00"', r'"\ud83d"'),
        ({"minProperties": 2}, r'{"\ud800": 1, "\ud801": 1}', r'{"\ud800": 1}'),
    ],
)
def test_a_lone_surrogate_is_one_character_that_no_schema_names(
    schema: dict[str, Any], fits: str, does_not: str
) -> None:
    compiled = compile_schema(schema)
    assert compiled.fault(fits) is None
    assert compiled.fault(does_not) is not None


def test_properties_come_in_their_authors_order_however_the_schema_is_rewritten() -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in ("zeta", "alpha", "mid")},
        "required": ["mid", "alpha", "zeta"],
        "not": {"required": ["omega"]},
    }
    engine = compile_schema(schema).engine
    assert isinstance(engine, dict)
    assert [name for name in engine["properties"] if name != "omega"] == ["zeta", "alpha", "mid"]


def test_a_schema_that_the_engine_knows_is_shown_as_it_is() -> None:
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"anyOf": [{"type": "null"}, {"enum": [2, 1]}]}},
    }
    assert (
        compile_schema({**schema, "title": "T", "$schema": "https://json-schema.org/draft/2020-12/schema"}).engine
        == schema
    )


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"a": {"type": "strin"}}}, "s.properties.a.type"),
        ({"minItems": -1}, "s.minItems"),
        ([], "s"),
        ("", "s"),
        ({"$ref": "http://127.0.0.1:9/x"}, "s"),
        ({"$ref": "#/$defs/none"}, "s"),
    ],
)
def test_what_is_no_schema_is_refused_at_its_place(schema: Any, path: str) -> None:
    with pytest.raises(RequestError) as refused:
        compile_schema(schema, "s")
    assert refused.value.param == path


def test_a_check_of_a_finished_value_gives_up_on_a_pattern_that_backtracks() -> None:
    enforced = compile_schema({"type": "string", "pattern": r"^(a+)+(?=b)$"})
    assert enforced.fault(json.dumps("a" * 60)) is not None


FORMATS = {
    "date": (
        ["2024-02-29", "2000-02-29", "1999-12-31"],
        ["2023-02-29", "1900-02-29", "2024-13-01", "2024-04-31", "24-01-01"],
    ),
    "time": (["23:59:60Z", "00:00:00.123+05:30"], ["24:00:00Z", "12:00:00", "12:00Z"]),
    "date-time": (["2024-02-29T12:00:00Z"], ["2024-02-29 12:00:00Z", "2024-02-30T12:00:00Z"]),
    "duration": (["P3D", "PT5M", "P1Y2M3DT4H5M6S", "P4W"], ["P", "PT", "P1D2W", "3D"]),
    "email": (["a.b@example.org", "a@[127.0.0.1]"], ["a@@b.c", ".a@b.c", "a b@c.d"]),
    "ipv4": (["0.0.0.0", "255.255.255.255"], ["256.0.0.1", "1.2.3", "01.2.3.4"]),
    "ipv6": (["::", "::1", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "1::8"], [":", "1:2:3:4:5:6:7", "1::2::3", "12345::"]),
    "uri": (["https://a.b/c?d#e", "urn:x:y", "http://[::1]:80/"], ["//a", "a b:c", "http://a^b", "%20"]),
    "uri-reference": (["../a?b", "#x", "", "//h"], ["a b", "\\", "a#b#c"]),
    "uuid": (["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    "json-pointer": (["", "/a~0b/~1"], ["a", "/~2"]),
    "hostname": (["a", "a-b.example"], ["-a", "a-", "a..b", "a_b"]),
}


@pytest.mark.parametrize("format", FORMATS)
def test_a_known_format_is_enforced_as_a_pattern(format: str) -> None:
    valid, invalid = FORMATS[format]
    grammar = compiled({"type": "string", "format": format})
    assert [text for text in valid if not accepts(grammar, text)] == []
    assert [text for text in invalid if accepts(grammar, text)] == []


@pytest.mark.parametrize("format", PATTERNS)
def test_every_format_compiles_within_strict(format: str) -> None:
    compiled({"type": "string", "format": format})


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text("ab<|", max_size=4), min_size=1, max_size=5), probe=st.text("ab<|\n", max_size=6))
def test_every_text_but_some_is_a_pattern(texts: list[str], probe: str) -> None:
    judge = jsonschema_rs.validator_for({"pattern": all_except(texts)})
    assert all(not judge.is_valid(text) for text in texts)
    assert judge.is_valid(probe) == (probe not in texts)


SPELLED_OUT = Control("<|end|>")


@pytest.mark.parametrize(
    ("schema", "clear", "spelling"),
    [
        ({"type": "object"}, [{}, {"a": "x < y <| z <b>"}, {"a": [{"b": "<"}]}], [{"a": "<|end|>"}, {"<|e": 1}]),
        (True, [1, "a", None, {"a": [1, "x"]}], ["<|e", ["<|e"], {"a": {"b": "a<<|e"}}]),
        (
            {"type": "object", "properties": {"ab": {"type": "string"}, "ac": {"type": ["string", "null"]}}},
            [{"ab": "x"}, {"ac": None}, {"zz": {"a": "b"}}, {"abc": 2}],
            [{"ab": "<|e"}, {"ac": "<|e"}, {"zz": "<|e"}, {"<|e": 1}, {"ab": 1}],
        ),
        ({"type": "string", "pattern": "^a.*b$"}, ["ab", "a<b"], ["a<|eb", "a"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1}], [{"a": "x"}, {"<|e": 1}]),
        ({"minimum": 3}, [3, "a"], [2, "<|e"]),
    ],
)
def test_where_controls_are_spelled_out_no_value_spells_one(
    schema: Any, clear: Sequence[Any], spelling: Sequence[Any]
) -> None:
    grammar = compile_grammar(chain(Json(schema, "s", avoid=(SPELLED_OUT,)), EndOfTurn()), VOCABULARY)
    assert [value for value in clear if not accepts(grammar, value)] == []
    assert [value for value in spelling if accepts(grammar, value)] == []


def test_where_controls_are_tokens_a_value_may_spell_them() -> None:
    tokenizer = ByteTokenizer(["<eos>", SPELLED_OUT])
    answer = chain(Json({"type": "string"}, "s", avoid=(SPELLED_OUT,)), EndOfTurn())
    assert accepts(compile_grammar(answer, Vocabulary(tokenizer, [256])), "<|end|>")


def test_a_value_that_the_schema_fixes_cannot_spell_a_control_that_is_spelled_out() -> None:
    answer = chain(Json({"enum": ["<|end|>"]}, "s", avoid=(SPELLED_OUT,)), EndOfTurn())
    with pytest.raises(RequestError, match="spells a control"):
        compile_grammar(answer, VOCABULARY)


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "integer"}, ["1", "-2"], ["1.0", "1e2", "1.5"]),
        ({"type": ["integer", "null"]}, ["1", "null"], ["1.0", "true"]),
        ({"properties": {"n": {"$ref": "#/$defs/i"}}, "$defs": {"i": {"type": "integer"}}}, ['{"n":2}'], ['{"n":2.0}']),
        ({"anyOf": [{"type": "integer"}, {"type": "number", "maximum": 0}]}, ["3", "-1.0"], ["3.0"]),
        ({"type": "number"}, ["1", "1.0", "1e2"], ['"1.0"']),
    ],
)
def test_an_integer_has_digits_alone_in_the_grammar_and_in_the_check(
    schema: Any, taken: list[str], refused: list[str]
) -> None:
    grammar = compiled(schema)
    for text in (*taken, *refused):
        matcher = grammar.matcher()
        matcher.consume([*TOKENIZER.encode(text), 256])
        assert matcher.accepting is (text in taken), text
        assert (grammar.schemas["s"].fault(text) is None) is (text in taken), text


@pytest.mark.parametrize("pattern", ["a^b", "a$b", "(?m)^a$", r"^a\b", r"^[^\n]*$\n"])
@pytest.mark.parametrize("place", ["pattern", "patternProperties", "oneOf"])
def test_a_pattern_that_the_engine_cannot_take_is_checked_at_the_end_or_refused_by_name(
    place: str, pattern: str
) -> None:
    schema: Any = {
        "pattern": {"type": "string", "pattern": pattern},
        "patternProperties": {"type": "object", "patternProperties": {pattern: {"type": "integer"}}},
        "oneOf": {"oneOf": [{"type": "string", "pattern": pattern}, {"type": "null"}]},
    }[place]
    assert [relaxation.keyword for relaxation in compiled(schema, strict=False).schemas["s"].relaxed]
    with pytest.raises(RequestError) as refused:
        compiled(schema, strict=True)
    assert "attern" in (refused.value.param or "")


@pytest.mark.parametrize("least", [1, 2, 3])
def test_an_array_has_its_least_items_and_not_one_less(least: int) -> None:
    grammar = compiled({"type": "array", "items": {"type": "integer"}, "minItems": least})
    assert [accepts(grammar, [7] * count) for count in (least - 1, least, least + 1)] == [False, True, True]
