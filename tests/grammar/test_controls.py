"""Schemas that spell a control of the format where a reply would have to write it: refused, at their place."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import UnsupportedError
from antiphon.grammar.schema.controls import NO_CONTROL, exclude_controls, refuse_markers

MARKERS = ("<｜tool▁sep｜>", "[CALL]")
SPELL: dict[str, tuple[Any, str]] = {
    "a constant": ({"const": "a<｜tool▁sep｜>b"}, "s.const"),
    "within a constant": ({"const": {"a": ["[CALL]"]}}, "s.const"),
    "a pattern of signs": ({"pattern": r"^<｜tool\▁sep[｜]>$"}, "s.pattern"),
    "a name of a constant": ({"const": {"[CALL]": 1}}, "s.const"),
    "a value": ({"enum": ["a", "<｜tool▁sep｜>"]}, "s.enum"),
    "a required name": ({"required": ["<｜tool▁sep｜>"]}, "s.required"),
    "a property": ({"properties": {"<｜tool▁sep｜>": {}}}, "s.properties"),
    "a pattern": ({"pattern": "^a(<｜tool▁sep｜>)?$"}, "s.pattern"),
    "a pattern of names": ({"patternProperties": {"^<｜tool▁sep｜>": {}}}, "s.patternProperties"),
    "the second pattern of names": ({"patternProperties": {"a": {}, "(<｜tool▁sep｜>)": {}}}, "s.patternProperties"),
    "deeper": ({"properties": {"a": {"items": [{}, {"const": "[CALL]"}]}}}, "s.properties.a.items[1].const"),
    "in a definition": ({"$defs": {"d": {"enum": ["[CALL]"]}}}, "s.$defs.d.enum"),
}
CLEAR = [
    {"const": "<|tool_sep|>"}, {"description": "[CALL]"}, {"default": "[CALL]"}, {"examples": ["[CALL]"]}, True,
    {"pattern": "[CAL]"}, {"properties": {"a": {"title": "<｜tool▁sep｜>"}}}, {"enum": ["[call]", 1, None]},
]  # fmt: skip


@pytest.mark.parametrize("name", SPELL)
def test_a_text_that_must_be_written_and_spells_a_marker_is_refused_at_its_place(name: str) -> None:
    schema, place = SPELL[name]
    with pytest.raises(UnsupportedError) as refused:
        refuse_markers(schema, MARKERS, "s")
    assert refused.value.param == place


@pytest.mark.parametrize("schema", CLEAR, ids=str)
def test_what_spells_none_or_need_not_be_written_is_taken(schema: Any) -> None:
    refuse_markers(schema, MARKERS, "s")


@pytest.mark.parametrize(
    "schema",
    [
        {"const": "<|end|>"},
        {"enum": [1, {"a": ["<|end|>"]}]},
        {"type": "object", "properties": {"<|end": {}}},
        {"type": "object", "required": ["<|end"]},
        {"type": "array", "items": {"const": "<|e"}},
        {"type": "array", "prefixItems": [{}, {"const": "<|e"}]},
        {"anyOf": [{}, {"const": "<|e"}]},
        {"allOf": [{"const": "<|e"}]},
        {"$defs": {"a": {"const": "<|e"}}},
        {"definitions": {"a": {"const": "<|e"}}},
        {"type": "object", "patternProperties": {"x.*": {}}},
        {"type": "object", "additionalProperties": {"const": "<|e"}},
        {"type": ["null", "object"], "properties": {"a": {"const": "<|e"}}},
    ],
    ids=str,
)
def test_what_the_schema_itself_spells_is_refused(schema: Any) -> None:
    with pytest.raises(UnsupportedError, match="spells a control") as refused:
        exclude_controls(schema, "s")
    assert refused.value.param == "s"


STRING = {"type": "string", "pattern": NO_CONTROL}
ANYTHING = {"$ref": "#/$defs/anything"}
NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "excluded"),
    [
        (False, False),
        ({"type": "string"}, STRING),
        ({"type": "string", "maxLength": 3, "minLength": 1}, {**STRING, "maxLength": 3, "minLength": 1}),
        ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "a", "allOf": [STRING]}),
        ({"type": "integer", "minimum": 1, "maxLength": 3}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 2}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": STRING}),
        (
            {"type": "array", "items": NUMBER, "prefixItems": [{"type": "string"}], "maxItems": 3},
            {"type": "array", "items": NUMBER, "prefixItems": [STRING], "maxItems": 3},
        ),
        ({"enum": ["a", "<"]}, {"enum": ["a", "<"]}),
        ({"type": ["string", "null"]}, {"anyOf": [STRING, {"type": "null"}]}),
        ({"anyOf": [{"type": "string"}, NUMBER]}, {"anyOf": [STRING, NUMBER]}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, {"$ref": "#/$defs/a", "$defs": {"a": STRING}}),
        ({"type": "string", "$defs": {"a": {"type": "string"}}}, {**STRING, "$defs": {"a": STRING}}),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        ),
        (
            {"type": "object", "additionalProperties": NUMBER},
            {"type": "object", "patternProperties": {"^[^<]*$": NUMBER}, "additionalProperties": False},
        ),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": NUMBER},
            {"type": "object", "patternProperties": {"^a[^<]*$": STRING}, "additionalProperties": NUMBER},
        ),
        (
            {"type": "object", "patternProperties": {"^[ab]+$": NUMBER}, "additionalProperties": False},
            {"type": "object", "patternProperties": {"^[ab]+$": NUMBER}, "additionalProperties": False},
        ),
    ],
    ids=str,
)
def test_a_schema_s_texts_are_bounded_and_all_else_is_as_it_was(schema: Any, excluded: Any) -> None:
    assert exclude_controls(schema) == excluded


def test_where_anything_may_stand_anything_but_a_control_may() -> None:
    excluded = exclude_controls({"type": "array"})
    assert isinstance(excluded, dict)
    assert {key: excluded[key] for key in ("type", "items")} == {"type": "array", "items": ANYTHING}
    kinds = excluded["$defs"]["anything"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["null", "boolean", "number", "string", "array", "object"]
    assert kinds[3:] == [
        STRING,
        {"type": "array", "items": ANYTHING},
        {"type": "object", "patternProperties": {"^[^<]*$": ANYTHING}, "additionalProperties": False},
    ]
    assert exclude_controls(True) == {**ANYTHING, "$defs": excluded["$defs"]}
    both = exclude_controls({"type": "array", "$defs": {"a": NUMBER}})
    assert isinstance(both, dict)
    assert set(both["$defs"]) == {"a", "anything"}
