"""Arguments as keys and values: what of a schema such a spelling enforces, and what it refuses to promise."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from antiphon.errors import RequestError, UnsupportedError
from antiphon.grammar import EndOfTurn, Json, KeyValues, Spelling, ValueSpelling, chain
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.following import Matcher
from antiphon.tokens import ByteTokenizer, Control

EOS = Control("<|end|>")
TAGGED = Spelling(
    key=("<p=",),
    values=(ValueSpelling(before=(">\n",), after=("\n</p>\n",), avoid=("</p>",)),),
    python=True,
)
AS_JSON = Spelling(key=("<k>",), values=(ValueSpelling(before=("</k><v>",), after=("</v>",), avoid=("</v>",)),))
PYTHONIC = Spelling(values=(ValueSpelling(before=("=",), reads="literal"),), separator=(", ",), python=True)
BARE = Spelling(values=(ValueSpelling(before=(":",), reads="literal"),), separator=(",",), quote='<"|>')
TREE = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "additionalProperties": False,
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}},
            "additionalProperties": False,
        }
    },
}


@cache
def vocabulary() -> Vocabulary:
    tokenizer = ByteTokenizer([EOS])
    return Vocabulary(tokenizer, [tokenizer.controls[EOS]])


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def matcher(spelling: Spelling, schema: Any, *, strict: bool = False) -> Matcher:
    grammar = chain(KeyValues(Json(schema, "parameters", strict), spelling), EndOfTurn())
    return compile_grammar(grammar, vocabulary()).matcher()


def admits(spelling: Spelling, schema: Any, text: str) -> bool:
    return matcher(spelling, schema).consume([*text.encode(), 256]) is None


def refuses(spelling: Spelling, schema: Any, text: str) -> bool:
    """Whether the text is left before its end; the empty text, whether it is not the end."""
    return matcher(spelling, schema).consume(list(text.encode()) or [256]) is not None


@pytest.mark.parametrize(
    ("spelling", "schema", "admitted", "refused"),
    [
        (TAGGED, closed(a={"type": "integer", "maximum": 9}), ["", "<p=a>\n9\n</p>\n"], ["<p=a>\n10\n</p>\n", "<p=b>"]),
        (TAGGED, closed(a={"type": "string"}), ["<p=a>\n1 <b>\n\n</p>\n", "<p=a>\n\n</p>\n"], ["<p=a>\n</p>x\n</p>\n"]),
        (TAGGED, closed(a={"type": "string", "maxLength": 2}), ["<p=a>\n</\n</p>\n"], ["<p=a>\nabc\n</p>\n"]),
        (TAGGED, closed(a={"type": "string", "minLength": 2}), ["<p=a>\nabc\n</p>\n"], ["<p=a>\na\n</p>\n"]),
        (TAGGED, closed(a={"pattern": "^[a-z]/$", "type": "string"}), ["<p=a>\nb/\n</p>\n"], ["<p=a>\nb\n</p>\n"]),
        (TAGGED, closed(a={"enum": ["x", 1, None]}), [f"<p=a>\n{v}\n</p>\n" for v in ("x", "1", "None")], ["<p=a>\ny"]),
        (
            TAGGED,
            closed(a={"type": "number"}),
            [f"<p=a>\n{n}\n</p>\n" for n in ("1e-07", "-2.5", "3e+16")],
            ["<p=a>\n."],
        ),
        (
            TAGGED,
            closed(a={"type": "boolean"}),
            [f"<p=a>\n{word}\n</p>\n" for word in ("true", "True", "false", "False")],
            ["<p=a>\nyes"],
        ),
        (
            TAGGED,
            closed(a={"type": "object"}),
            ['<p=a>\n{\'k\': [1, None, True], "l": "it\'s"}\n</p>\n', '<p=a>\n{"k": {"m": null}}\n</p>\n'],
            ["<p=a>\n{'k': '</p>", "<p=a>\n[", "<p=a>\n{k"],
        ),
        (TAGGED, {"type": "object"}, ["", "<p=any>\nthing\n</p>\n<p=b>\n\n</p>\n"], ["<p=a b >"]),
        (TAGGED, {**closed(a=True), "required": ["a"]}, ["<p=a>\nx\n</p>\n"], [""]),
        (
            TAGGED,
            {**closed(a={"type": "integer"}), "additionalProperties": {"type": "boolean"}},
            ["<p=a>\n1\n</p>\n<p=b>\nTrue\n</p>\n"],
            ["<p=a>\nTrue", "<p=b>\n1"],
        ),
        (TAGGED, TREE, ["<p=node>\n{'next': {\"next\": {}}}\n</p>\n"], ["<p=node>\n{'other'"]),
        (AS_JSON, closed(a={"type": ["integer", "null"]}), ["<k>a</k><v>null</v>"], ["<k>a</k><v>N", "<k>a</k><v>x"]),
        (
            AS_JSON,
            closed(a={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2}),
            ['<k>a</k><v>["x", "\\""]</v>', '<k>a</k><v>["x"]</v>'],
            ["<k>a</k><v>[]", '<k>a</k><v>["x", "y", ', "<k>a</k><v>['x'", '<k>a</k><v>["</v>'],
        ),
        (
            AS_JSON,
            closed(a={"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False}),
            ["<k>a</k><v>[]</v>", "<k>a</k><v>[1]</v>", "<k>a</k><v>[1, true]</v>"],
            ["<k>a</k><v>[true", "<k>a</k><v>[1, true, "],
        ),
        (
            AS_JSON,
            {"anyOf": [{**closed(a={"const": 1}), "required": ["a"]}, {**closed(b={"const": 2}), "required": ["b"]}]},
            ["<k>a</k><v>1</v>", "<k>b</k><v>2</v>"],
            ["<k>a</k><v>2", "<k>a</k><v>1</v><k>b", ""],
        ),
        (PYTHONIC, closed(k={"type": "string"}, n=True), ["k='it's', n=[1]", "n={'a': 1}", ""], ["n=1, k", "k=v"]),
        (PYTHONIC, closed(k={"type": "string", "maxLength": 1}), ["k='a'"], ["k='ab'", "k='a''"]),
        (PYTHONIC, closed(k={"enum": ["x", ["y", 1]]}), ["k='x'", 'k="x"', "k=['y', 1]"], ["k='y'", "k=x", "k=['x'"]),
        (BARE, closed(k={"const": "x"}), ['k:<"|>x<"|>'], ["k:x", 'k:<"|>y']),
        (BARE, closed(b={"type": "string"}, a={"type": "null"}), ['a:None,b:<"|>"\'<"|>', "a:null"], ["b:'", "b:x"]),
        (BARE, {"type": "object"}, ['k:{l:[1,<"|>x<"|>]},m:true'], ["k: 1", "k:'x'"]),
    ],
)
def test_a_schema_is_enforced_in_the_spelling(
    spelling: Spelling, schema: Any, admitted: list[str], refused: list[str]
) -> None:
    assert [text for text in admitted if not admits(spelling, schema, text)] == []
    assert [text for text in refused if not refuses(spelling, schema, text)] == []


@pytest.mark.parametrize(
    ("property", "keyword"),
    [
        ({"type": "string", "pattern": "^a|b$"}, ".pattern"),
        ({"type": "array", "items": {"type": "string", "pattern": "^a$"}}, ".items.pattern"),
        ({"type": "string", "maxLength": 10_000}, ".maxLength"),
        ({"type": "array", "items": {"type": "string", "maxLength": 10_000}}, ".items.maxLength"),
        ({"type": "array", "items": {"type": "string", "minLength": 10_000}}, ".items.minLength"),
        ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}}, ".patternProperties"),
    ],
)
def test_what_a_spelling_cannot_enforce_is_checked_afterwards_or_refused(property: Any, keyword: str) -> None:
    schema = closed(a=property)
    with pytest.raises(UnsupportedError) as refused:
        matcher(TAGGED, schema, strict=True)
    assert refused.value.param == f"parameters.properties.a{keyword}"
    assert admits(TAGGED, schema, "")


@pytest.mark.parametrize("required", [{"const": "a</p>b"}, False])
def test_arguments_that_cannot_be_written_are_refused(required: Any) -> None:
    with pytest.raises(RequestError) as refused:
        matcher(TAGGED, {**closed(a=required), "required": ["a"]})
    assert refused.value.param == "parameters"


@pytest.mark.parametrize("schema", [True, closed(a={"type": "array", "items": {"type": "string"}}, b=closed(c=True))])
@pytest.mark.parametrize(("indent", "signs"), [(2, (",", ": ")), ("\t", (",", ":")), (None, (" , ", " : "))])
@pytest.mark.parametrize(
    ("spelling", "before", "after"),
    [(TAGGED, "<p=v>\n", "\n</p>\n"), (AS_JSON, "<k>v</k><v>", "</v>"), (PYTHONIC, "v=", "")],
)
def test_json_in_a_value_may_have_blanks_and_line_breaks(
    spelling: Spelling, before: str, after: str, schema: Any, indent: Any, signs: tuple[str, str]
) -> None:
    text = json.dumps({"a": ["x", "y z"], "b": {"c": "it's"}}, indent=indent, separators=signs)
    text = text.replace("}", " }") if indent is None else text
    assert admits(spelling, closed(v=schema), before + text + after), text
