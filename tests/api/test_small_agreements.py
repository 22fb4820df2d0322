"""What other servers refuse or take, and this one too: small fields that clients send."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog import StaticCatalog
from antiphon.formats.template import jinja_format
from antiphon.generation import Model
from kit.api import END, TOKENIZER, app, ids, post, request, running, scripted, served

USER = {"role": "user", "content": "Hi"}
CHAT = "/v1/chat/completions"


def templated(template: str) -> Model:
    format = jinja_format(template, TOKENIZER.controls.keys())
    return Model(name="small", engine=scripted(ids("Fine.", END)), tokenizer=TOKENIZER, format=format)


def test_a_template_s_argument_that_asks_for_nothing_is_taken_and_reported() -> None:
    model = templated("{% for m in messages %}{{ m.content }}{% endfor %}")
    with running(create_app(StaticCatalog({"small": model}))) as base:
        for value in (False, None):
            idle = {"enable_thinking": value, "messages": value}
            got = post(base, CHAT, messages=[USER], chat_template_kwargs=idle)
            assert got.status == 200
            names = got.headers["x-antiphon-ignored"].split(", ")
            assert set(names) == {"chat_template_kwargs.enable_thinking", "chat_template_kwargs.messages"}
            rendered = post(base, "/v1/render", messages=[USER], chat_template_kwargs=idle)
            assert rendered.json["text"] == "Hi"
        wanted = post(base, CHAT, messages=[USER], chat_template_kwargs={"enable_thinking": True})
        assert (wanted.status, wanted.error["code"]) == (400, "bad_template_kwargs")


def test_a_template_s_own_argument_is_its_own_when_it_is_false() -> None:
    quiet = "{% if enable_thinking is defined and not enable_thinking %}QUIET {% endif %}"
    model = templated(quiet + "{{ messages[0].content }}")
    with running(create_app(StaticCatalog({"small": model}))) as base:
        got = post(base, "/v1/render", messages=[USER], chat_template_kwargs={"enable_thinking": False})
        assert got.json["text"] == "QUIET Hi"
        got = post(base, CHAT, messages=[USER], chat_template_kwargs={"enable_thinking": False})
        assert (got.status, "x-antiphon-ignored" in got.headers) == (200, False)


CONTINUED = [USER, {"role": "assistant", "content": "Fi"}]


base = served(lambda: app(ids("Fine.", END)))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"add_generation_prompt": True, "continue_final_message": True}, "continue_final_message"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
        ({"seed": 2**64}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"seed": 10**30}, "seed"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(base: str, fields: dict[str, Any], param: str) -> None:
    got = post(base, CHAT, messages=CONTINUED, **fields)
    assert (got.status, got.error["param"]) == (400, param)


@pytest.mark.parametrize("path", ["/v1/render", "/tokenize"])
def test_a_prompt_is_not_begun_and_continued_at_once(base: str, path: str) -> None:
    both = {"add_generation_prompt": True, "continue_final_message": True}
    assert post(base, path, messages=CONTINUED, **both).error["param"] == "continue_final_message"
    assert post(base, path, messages=CONTINUED, add_generation_prompt=False).status == 200


@pytest.mark.parametrize(
    "fields",
    [{"add_generation_prompt": True}, {"add_generation_prompt": False, "continue_final_message": True}],
)
def test_what_says_the_usual_is_taken(base: str, fields: dict[str, Any]) -> None:
    assert post(base, CHAT, messages=CONTINUED if len(fields) > 1 else [USER], **fields).status == 200


@pytest.mark.parametrize("seed", [2**64 - 1, -(2**63), 0])
def test_a_seed_of_64_bits_is_taken(base: str, seed: int) -> None:
    assert post(base, CHAT, messages=[USER], seed=seed).status == 200


@pytest.mark.one_process("looks at what its process loads")
def test_a_ping_is_answered_as_health_is() -> None:
    application = app(ids("Fine.", END))
    with running(application) as base:
        assert request(base, "GET", "/ping").status == 200
        application.state.context.lifecycle.begin_loading()
        assert request(base, "GET", "/ping").status == 503


def test_only_a_response_of_the_background_is_cancelled_when_it_is_finished(base: str) -> None:
    made = post(base, "/v1/responses", input="Hi").json["id"]
    got = post(base, f"/v1/responses/{made}/cancel")
    assert (got.status, got.error["type"], got.error["param"]) == (400, "invalid_request_error", "response_id")
    assert request(base, "GET", f"/v1/responses/{made}").json["status"] == "completed"
