"""Properties come in the order of their own object, as its author wrote it, whatever else the schema asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.grammar import EndOfTurn, Json, chain
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer

TOKENIZER = ByteTokenizer(["<eos>"])
VOCABULARY = Vocabulary(TOKENIZER, [256])

FREE: dict[str, Any] = {"reasoning": {"type": "string"}, "answer": {"type": "string"}}
TURNED: dict[str, Any] = {name: FREE[name] for name in reversed(FREE)}


def object_of(properties: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    """A closed object that has all of its properties."""
    closed = {"type": "object", "additionalProperties": False}
    return {**closed, "properties": properties, "required": sorted(properties), **keywords}


ONE, OTHER = object_of(FREE), object_of(TURNED)
REWRITTEN: dict[str, dict[str, Any]] = {
    "nothing": {"type": "string"},
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "null"}]},
    "not": {"type": "string", "not": {"const": "x"}},
    "uniqueItems": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
    "allOf": {"allOf": [{"type": "string"}, {"minLength": 1}]},
    "if": {"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}},
    "contains": {"type": "array", "contains": {"const": 1}, "maxItems": 2},
    "propertyNames": {"type": "object", "propertyNames": {"pattern": "^a"}},
    "dependentRequired": {"type": "object", "dependentRequired": {"a": ["b"]}},
    "prefixItems": {"type": "array", "prefixItems": [{"type": "string"}]},
}


def grammar_of(schema: Any, *, strict: bool = True) -> CompiledGrammar:
    return compile_grammar(chain(Json(schema, "s", strict=strict), EndOfTurn()), VOCABULARY)


def takes(grammar: CompiledGrammar, value: Any) -> bool:
    matcher = grammar.matcher()
    matcher.consume([*TOKENIZER.encode(json.dumps(value, separators=(",", ":"))), 256])
    return matcher.accepting


@pytest.mark.parametrize("keyword", REWRITTEN)
def test_two_objects_of_the_same_names_keep_an_order_each(keyword: str) -> None:
    schema = object_of({"one": ONE, "other": OTHER, "note": REWRITTEN[keyword]}, required=["one", "other"])
    grammar = grammar_of(schema)
    one, other = {"reasoning": "r", "answer": "a"}, {"answer": "a", "reasoning": "r"}
    assert takes(grammar, {"one": one, "other": other})
    assert not takes(grammar, {"one": other, "other": other})
    assert not takes(grammar, {"one": one, "other": one})


NOT = {"not": {"required": ["x"]}}
"""What makes a schema be rewritten, whatever is beside it."""
B_A, A_B = {"b": {"const": 1}, "a": {"const": 2}}, {"a": {"const": 2}, "b": {"const": 1}}
PLACES: dict[str, tuple[Any, str]] = {
    "items": ({"type": "array", "items": object_of(B_A), "not": {"const": []}}, '[{"b":1,"a":2}]'),
    "prefixItems": ({"prefixItems": [object_of(A_B), object_of(B_A)]}, '[{"a":2,"b":1},{"b":1,"a":2}]'),
    "a tuple of draft 7": (
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [object_of(A_B)],
         "additionalItems": object_of(B_A)}, '[{"a":2,"b":1},{"b":1,"a":2}]',
    ),
    "contains": ({"type": "array", "maxItems": 1, "contains": object_of(B_A)}, '[{"b":1,"a":2}]'),
    "additionalProperties": ({"type": "object", "additionalProperties": object_of(B_A), **NOT}, '{"k":{"b":1,"a":2}}'),
    "additionalProperties of a name that another schema has": (
        {"type": "object", "allOf": [{"properties": {"k": {}}}, {"additionalProperties": object_of(B_A)}], **NOT},
        '{"k":{"b":1,"a":2}}',
    ),
    "patternProperties": (
        {"type": "object", "patternProperties": {"^p": object_of(B_A), "^q": object_of(A_B)}, **NOT},
        '{"p":{"b":1,"a":2},"q":{"a":2,"b":1}}',
    ),
    "a definition": (
        {"$ref": "#/$defs/one", "$defs": {"other": object_of(A_B), "one": object_of(B_A, **NOT)}}, '{"b":1,"a":2}',
    ),
    "a definition by its anchor": (
        {"$ref": "#one", "$defs": {"other": object_of(A_B), "one": object_of(B_A, **NOT, **{"$anchor": "one"})}},
        '{"b":1,"a":2}',
    ),
    "a definition by its address": (
        {"$id": "https://e.org/s", "$ref": "one",
         "$defs": {"other": object_of(A_B), "one": object_of(B_A, **NOT, **{"$id": "one"})}}, '{"b":1,"a":2}',
    ),
    "a definition of an odd name": (
        {"$ref": "#/$defs/a~1b%20c", "$defs": {"other": object_of(A_B), "a/b c": object_of(B_A, **NOT)}},
        '{"b":1,"a":2}',
    ),
    "the document itself": (
        {"type": "object", "properties": {"z": {"const": 1}, "y": {"$ref": "#"}}, **NOT}, '{"z":1,"y":{"z":1,"y":{}}}',
    ),
    "properties with any value": (
        {"type": "object", "properties": {"z": True, "y": {}, "x": {"description": "X."}, "n": {"not": {"const": 1}}}},
        '{"z":1,"y":1,"x":1,"n":2}',
    ),
    "a name that must not be there": (
        {"type": "object", "properties": {"b": {"const": 1}, "x": False, "a": {"const": 2}}, **NOT}, '{"b":1,"a":2}',
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_wherever_the_object_stands(place: str) -> None:
    schema, text = PLACES[place]
    grammar = grammar_of(schema)
    assert takes(grammar, json.loads(text))
    assert not takes(grammar, turned(json.loads(text)))


def turned(value: Any) -> Any:
    """The same value with the members of each object the other way round."""
    match value:
        case dict():
            return {name: turned(value[name]) for name in reversed(value)}
        case list():
            return [turned(item) for item in value]
        case _:
            return value


def names(*letters: str) -> dict[str, Any]:
    return {letter: {"type": "integer"} for letter in letters}


MERGED: dict[str, tuple[dict[str, Any], str]] = {
    "allOf comes first": ({"allOf": [{"properties": names("c", "b")}], "properties": names("a", "b")}, "cba"),
    "allOf comes last": ({"properties": names("a", "b"), "allOf": [{"properties": names("c", "b")}]}, "abc"),
    "a reference before properties": (
        {"$ref": "#/$defs/base", "properties": names("a"), "$defs": {"base": {"properties": names("z", "c")}}}, "zca",
    ),
    "a reference behind properties": (
        {"properties": names("b"), "$ref": "#/$defs/base", "$defs": {"base": {"properties": names("z", "a")}}}, "bza",
    ),
    "two references": (
        {"allOf": [{"$ref": "#/$defs/z"}, {"$ref": "#/$defs/a"}],
         "$defs": {"a": {"type": "object", "properties": names("b", "a")},
                   "z": {"type": "object", "properties": names("z", "y")}}}, "zyba",
    ),
    "anyOf behind properties": (
        {"properties": names("z"), "anyOf": [{"properties": names("b", "a"), "required": ["a"]}]}, "zba",
    ),
    "anyOf before properties": (
        {"anyOf": [{"properties": names("b", "a"), "required": ["a"]}], "properties": names("z")}, "baz",
    ),
    "then": (
        {"properties": names("c"), "if": {"required": ["c"]}, "then": {"properties": names("b", "a")}}, "cba",
    ),
    "what if asks comes after what says": (
        {"if": {"properties": names("b", "a")}, "then": {"required": ["a"]}, "properties": names("a", "b")}, "ab",
    ),
    "dependentSchemas": ({"properties": names("c"), "dependentSchemas": {"c": {"properties": names("b", "a")}}}, "cba"),
    "a name that is only required": (
        {"required": ["a", "c"], "properties": names("c"), "additionalProperties": {"type": "integer"}}, "ca",
    ),
    "names by a pattern": ({"patternProperties": {"^a": {"type": "integer"}}, "properties": names("c", "b")}, "cba"),
    "propertyNames": ({"propertyNames": {"enum": ["c", "a", "b"]}, "properties": names("b")}, "bca"),
}  # fmt: skip


@pytest.mark.parametrize("name", MERGED)
def test_an_object_made_of_several_schemas_has_the_order_in_which_they_were_written(name: str) -> None:
    schema, letters = MERGED[name]
    grammar = grammar_of({"type": "object", **schema, **({} if "not" in schema else NOT)})
    value = dict.fromkeys(letters, 1)
    assert takes(grammar, value)
    assert not takes(grammar, turned(value))


def kind(value: Any, *letters: str, **keywords: Any) -> dict[str, Any]:
    said = value if isinstance(value, dict) else {"const": value}
    return {"type": "object", "properties": {"kind": said, **names(*letters)}, "required": ["kind"], **keywords}


ALTERNATIVES: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "oneOf": ({"oneOf": [kind("x", "b", "a"), kind("y", "a", "b")]}, ["x", "y"]),
    "closed": ({"oneOf": [kind("x", "b", "a", additionalProperties=False),
                          kind("y", "a", "b", additionalProperties=False)]}, ["x", "y"]),
    "of several values": ({"oneOf": [kind({"enum": ["x", "z"]}, "b", "a"), kind("y", "a", "b")]}, ["x", "y"]),
    "of other types": ({"oneOf": [kind({"type": "string"}, "b", "a"), kind({"type": "integer"}, "a", "b")]}, ["x", 1]),
    "anyOf beside a not": ({"anyOf": [kind("x", "b", "a"), kind("y", "a", "b")], **NOT}, ["x", "y"]),
    "references": (
        {"oneOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}],
         "$defs": {"x": kind("x", "b", "a"), "y": kind("y", "a", "b")}}, ["x", "y"],
    ),
    "references beside properties": (
        {"properties": {"kind": {"type": "string"}}, "oneOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}],
         "$defs": {"x": kind("x", "b", "a"), "y": kind("y", "a", "b")}}, ["x", "y"],
    ),
    "of which one has more": ({"oneOf": [kind("x", "b", "a"), kind("y", "c", "a", "b")]}, ["x", "y"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_each_alternative_keeps_its_own_order(name: str) -> None:
    schema, (x, y) = ALTERNATIVES[name]
    grammar = grammar_of(schema)
    assert takes(grammar, {"kind": x, "b": 1, "a": 1})
    assert not takes(grammar, {"kind": x, "a": 1, "b": 1})
    assert takes(grammar, {"kind": y, "a": 1, "b": 1})
    assert not takes(grammar, {"kind": y, "b": 1, "a": 1})


def test_alternatives_that_differ_within_an_inner_object_keep_its_order_too() -> None:
    def step(value: str, properties: dict[str, Any]) -> dict[str, Any]:
        return object_of({"kind": {"const": value}, "step": object_of(properties)})

    grammar = grammar_of({"oneOf": [step("x", B_A), step("y", A_B)]})
    assert takes(grammar, {"kind": "x", "step": {"b": 1, "a": 2}})
    assert takes(grammar, {"kind": "y", "step": {"a": 2, "b": 1}})
    assert not takes(grammar, {"kind": "y", "step": {"b": 1, "a": 2}})


def test_alternatives_that_other_names_tell_apart_keep_their_order() -> None:
    one, other = (object_of(names(*letters)) for letters in ("xba", "yab"))
    grammar = grammar_of({"oneOf": [one, other]})
    for letters, fits in {"xba": True, "xab": False, "yab": True, "yba": False}.items():
        assert takes(grammar, dict.fromkeys(letters, 1)) is fits
