"""JSON without blanks, in any server's words, of a model that was trained to write some."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from kit.api import post_in_process
from kit.responses import CALL, CHANNEL, HARMONY, MESSAGE, RETURN, VOCABULARY, harmony_ids

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    RESPONSES: {"input": "Hi", "store": False},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
OPTIONAL = "/: ?/"
"""A colon and a blank or none, as the engine is given it."""


async def grammar_of(route: str, fields: dict[str, Any]) -> str:
    """The grammar that the engine gets for a request."""
    ends = frozenset(VOCABULARY.controls[end] for end in (RETURN, CALL))
    engine = ScriptedEngine(harmony_ids(CHANNEL, "final", MESSAGE, '{"a":1}', RETURN), end_ids=ends)
    compiler = ReplyCompiler(HARMONY, VOCABULARY, engine.info.end_ids)
    model = Model(name="m", engine=engine, tokenizer=VOCABULARY, format=HARMONY, compiler=compiler)
    got = await post_in_process(create_app(StaticCatalog({"m": model})), route, **BODIES[route], **fields)
    assert got.status == 200, got.body
    assert "x-antiphon-ignored" not in got.headers
    return engine.requests[-1][2] or ""


def own(route: str, form: dict[str, Any]) -> dict[str, Any]:
    """The format in the route's own field."""
    if route == CHAT and form["type"] == "json_schema":
        inner = {"name": "n", "schema": form["schema"]}
        return {"response_format": {**{k: v for k, v in form.items() if k != "schema"}, "json_schema": inner}}
    return {"response_format": form} if route == CHAT else {"text": {"format": {"name": "n", **form}}}


FORMS: list[dict[str, Any]] = [{"type": "json_object"}, {"type": "json_schema", "schema": SCHEMA}]


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form["type"]))
async def test_a_form_has_blanks_unless_it_says_that_it_is_compact(route: str, form: dict[str, Any]) -> None:
    assert OPTIONAL in await grammar_of(route, own(route, form))
    assert OPTIONAL in await grammar_of(route, own(route, {**form, "compact": False}))
    assert OPTIONAL not in await grammar_of(route, own(route, {**form, "compact": True}))
    assert OPTIONAL not in await grammar_of(route, {**own(route, form), "guided_whitespace_pattern": "[ ]?"})


@pytest.mark.parametrize("route", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    ("fields", "compact"),
    [
        ({"structured_outputs": {"json": SCHEMA}}, False),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": False}}, False),
        ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, True),
        ({"structured_outputs": {"json": SCHEMA, "whitespace_pattern": ""}}, True),
        ({"structured_outputs": {"json_object": True, "whitespace_pattern": "\\s?"}}, True),
        ({"guided_json": SCHEMA}, False),
        ({"guided_json": SCHEMA, "guided_whitespace_pattern": " ?"}, True),
    ],
)
async def test_so_it_is_in_the_words_of_other_servers(route: str, fields: dict[str, Any], compact: bool) -> None:
    assert (OPTIONAL not in await grammar_of(route, fields)) is compact


async def test_a_word_that_is_no_truth_value_is_an_error_at_its_place() -> None:
    model = Model(name="m", engine=ScriptedEngine([]), tokenizer=VOCABULARY, format=HARMONY)
    form = {"type": "json_object", "compact": "very"}
    got = await post_in_process(create_app(StaticCatalog({"m": model})), CHAT, **BODIES[CHAT], response_format=form)
    assert got.status == 400
    assert got.error["param"] == "response_format.compact"
