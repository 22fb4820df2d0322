"""Whoever asks for an answer of a form in another server's words is told so, by the field's name, on every route."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.errors import UnsupportedError
from antiphon.wire.chat.conversation import read_turn_request
from antiphon.wire.form_fields import FORM_FIELDS
from kit.api import END, ids, model, post_in_process, scripted

HI = [{"role": "user", "content": "Hi"}]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/completions": {"prompt": "Hi"},
    "/v1/responses": {"input": "Hi"},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/v1/chat/interactive": {"prompt": "Hi"},
    "/v1/render": {"messages": HI},
}
VALUES: dict[str, Any] = {
    "guided_json": {"type": "object"}, "guided_regex": "[0-9]", "guided_choice": ["a", "b"],
    "guided_grammar": "root ::= x", "structured_outputs": {"json": {}}, "grammar": {"type": "regex", "value": "x"},
    "json_schema": {}, "regex": "x+", "ebnf": "root ::= x", "structural_tag": {"structures": []},
}  # fmt: skip


@pytest.fixture
def application() -> Any:
    return create_app(StaticCatalog({"small": model(scripted(ids("free text", END)))}))


def test_every_such_field_is_tried() -> None:
    assert set(FORM_FIELDS) == VALUES.keys()


@pytest.mark.parametrize("field", FORM_FIELDS)
@pytest.mark.parametrize("route", ROUTES)
async def test_a_form_requested_in_another_server_s_words_is_refused_by_name(
    application: Any, route: str, field: str
) -> None:
    got = await post_in_process(application, route, **ROUTES[route], **{field: VALUES[field]})
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", field)
    assert "form" in got.error["message"], "it says what to use instead"
    for nothing in (None, ""):
        assert (await post_in_process(application, route, **ROUTES[route], **{field: nothing})).status == 200


@pytest.mark.parametrize("route", [route for route in ROUTES if "messages" not in ROUTES[route]])
async def test_the_field_of_chat_completions_is_refused_where_it_means_nothing(application: Any, route: str) -> None:
    got = await post_in_process(application, route, **ROUTES[route], response_format={"type": "json_object"})
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", "response_format")


@pytest.mark.parametrize("field", FORM_FIELDS)
def test_a_program_without_a_server_is_told_too(field: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        read_turn_request({"messages": HI, field: VALUES[field]})
    assert refused.value.position is not None
    assert refused.value.position.path == field
