"""POST /v1/schemas/check: what of a schema is enforced and when, and where a text leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api.native.schema_check import MOST_ADMITTED, MOST_TEXT
from kit.api import END, Got, app, ids, post, served

PATH = "/v1/schemas/check"
CITY: dict[str, Any] = {
    "type": "object",
    "title": "A city",
    "properties": {
        "city": {"type": "string", "minLength": 1},
        "size": {"enum": ["small", "smaller", "big"]},
        "step": {"type": "integer", "multipleOf": 1e-300},
    },
    "required": ["city", "size"],
    "additionalProperties": False,
}


base = served(lambda: app(ids("ok", END)))


def check(base: str, schema: object, text: str | None = None, **fields: object) -> Got:
    return post(base, PATH, schema=schema, **({} if text is None else {"text": text}), **fields)


def followed(base: str, schema: object, text: str, *, compact: bool = False) -> dict[str, Any]:
    found = check(base, schema, text, compact=compact).json["text"]
    assert isinstance(found, dict)
    return found


def paths(found: list[dict[str, str]]) -> list[str]:
    return [one["path"] for one in found]


def test_each_keyword_is_in_one_of_three_lists(base: str) -> None:
    got = check(base, CITY).json
    assert (got["ok"], got["refused"], got["text"]) == (True, None, None)
    assert {".required", ".properties.city.minLength", ".properties.size.enum"} <= set(paths(got["enforced"]))
    assert paths(got["judged"]) == [".properties.step.multipleOf"]
    assert paths(got["unused"]) == [".title"]
    assert "multipleOf" not in got["engine"]["properties"]["step"]


def test_strict_refuses_what_is_judged_at_the_end(base: str) -> None:
    got = check(base, CITY, strict=True).json
    assert (got["ok"], got["refused"]["path"]) == (False, ".properties.step.multipleOf")
    assert paths(got["judged"]) == [".properties.step.multipleOf"], "what it is without strict is said as well"
    assert check(base, {"type": "integer"}, strict=True).json["ok"] is True


def test_a_schema_that_goes_as_it_is_is_not_repeated(base: str) -> None:
    assert check(base, {"type": "integer"}).json["engine"] is None


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "wrong"}, ".type"),
        ({"properties": {"a": {"minItems": 10**9}}}, ".properties.a.minItems"),
        ({"$ref": "#/nowhere"}, ""),
        ({"type": "integer", "minimum": 5, "maximum": 3}, ""),
    ],
)
def test_a_refused_schema_is_an_answer_with_its_place(base: str, schema: object, path: str) -> None:
    got = check(base, schema, "5")
    assert (got.status, got.json["ok"], got.json["refused"]["path"], got.json["text"]) == (200, False, path, None)


def test_where_a_text_leaves_the_grammar(base: str) -> None:
    found = followed(base, CITY, '{"city":"Omsk","size":"small fry"}')
    assert (found["fits"], found["unexpected"], found["complete"]) == (28, " ", False)
    assert [one["text"] for one in found["admitted"]] == ['"', 'er"']


def test_what_must_follow_is_written_out(base: str) -> None:
    assert followed(base, CITY, "", compact=True)["admitted"] == [{"text": '{"city":"'}]
    assert followed(base, CITY, "")["admitted"] == [{"text": "{"}], "blanks may stand behind it"
    assert followed(base, CITY, '{"city":"x","size":"b')["admitted"] == [{"text": 'ig"'}]


def test_characters_are_counted_not_bytes(base: str) -> None:
    found = followed(base, CITY, '{"city":"Омск🏙","size":x')
    assert (found["fits"], found["unexpected"]) == (23, "x")


def test_a_whole_answer_may_end_and_is_judged(base: str) -> None:
    whole = followed(base, {"type": "array", "uniqueItems": True}, "[1,1]")
    assert (whole["unexpected"], whole["complete"]) == (None, True)
    assert "1" in whole["fault"]
    assert followed(base, {"type": "array", "uniqueItems": True}, "[1,2]")["fault"] is None
    digits = followed(base, {"type": "integer"}, "5")
    assert (digits["complete"], digits["admitted"]) == (True, [{"text": "0", "to": "9"}])


def test_a_value_is_judged_however_it_is_written(base: str) -> None:
    spaced = '{ "city": "Oslo",\n  "size": "big" }'
    assert followed(base, CITY, spaced)["complete"]
    refused = followed(base, CITY, spaced, compact=True)
    assert (refused["fits"], refused["unexpected"], refused["fault"]) == (1, " ", None)
    wrong = followed(base, {"type": "object", "properties": {"n": {"type": "integer"}}}, '{"n": "four"}')
    assert wrong["unexpected"] is not None
    assert "integer" in wrong["fault"]
    for no_json in ('{"city":3', "NaN", "-Infinity", "[" * 30_000):
        assert followed(base, CITY, no_json)["fault"] is None


def test_a_string_may_go_on_with_anything(base: str) -> None:
    inside = followed(base, {"type": "string"}, '"a')
    assert inside["others"] is True
    assert len(inside["admitted"]) <= MOST_ADMITTED


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string", "pattern": "^(a+)+$"}, '"' + "a" * 5000 + "b"),
        ({"type": "string", "pattern": "(x+x+)+y"}, '"' + "x" * 60_000),
        ({"type": "string", "pattern": "(a|b|ab)*c(.*d){1000}"}, '"abababab'),
        ({"type": "string", "pattern": "((a{0,90}){0,90}){0,90}"}, '"aaa'),
        ({"allOf": [{"oneOf": [{"const": i}, {"const": i + 1}]} for i in range(40)]}, "5"),
        ({"type": "string"}, '"\ud83d'),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "5"),
        ({"properties": {"a" * 20_000: True}}, "{"),
    ],
)
def test_a_hostile_schema_or_text_takes_bounded_work(base: str, schema: object, text: str) -> None:
    got = check(base, schema, text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    assert got.status < 500, got.body
    assert check(base, {"type": "integer"}, "5").json["text"]["complete"] is True


def test_a_text_has_a_limit(base: str) -> None:
    got = check(base, True, "1" * (MOST_TEXT + 1))
    assert (got.status, got.error["param"]) == (400, "text")
    wrong: list[dict[str, object]] = [{"text": "5"}, {"schema": 5}, {"schema": []}]
    for fields in wrong:
        assert post(base, PATH, **fields).error["param"] == "schema"
