"""POST /v1/templates/check: what is understood of a template, for who has one and no model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from antiphon.api import create_app
from antiphon.api.native.templates import MAX_TEMPLATE
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import ScriptedEngine
from antiphon.formats.harmony import harmony
from antiphon.formats.template import jinja_format
from antiphon.generation import Model
from antiphon.tokens import ByteTokenizer, Control, o200k_harmony
from kit.api import Got, model, post, running, scripted
from kit.family_templates import FAMILIES
from kit.gpt_oss_templates import gpt_oss_template

TEMPLATE = FAMILIES["hermes"]
PATH = "/v1/templates/check"


def speaking() -> Model:
    tokenizer = ByteTokenizer([Control("<|e|>")])
    format = jinja_format(TEMPLATE, tokenizer.controls, {"eos_token": "<|e|>"}, name="mine/chat_template")
    return Model(name="mine", engine=ScriptedEngine([]), tokenizer=tokenizer, format=format)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    plain = model(scripted([]))
    with running(create_app(StaticCatalog({plain.name: plain, "mine": speaking()}))) as url:
        yield url


def check(base: str, **fields: object) -> Got:
    return post(base, PATH, **fields)


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_a_template_is_checked_as_the_command_does(base: str, prefix: str) -> None:
    got = post(base, f"{prefix}/templates/check", template=TEMPLATE)
    assert got.status == 200, got.body
    assert (got.json["ok"], got.json["lost"], got.json["replies"]["origin"]) == (True, [], "derived")
    assert "two_calls" in got.json["replies"]["proven"]
    assert {change["turn"] for change in got.json["changes"]} >= {"answered", "another day", "tools offered"}
    assert got.json["prompts"]["question"].startswith("<|u|>")


def test_a_models_own_template_is_checked_with_its_vocabulary(base: str) -> None:
    got = check(base, model="mine")
    assert (got.json["name"], got.json["ok"]) == ("mine/chat_template", True)
    assert all("token" in change for change in got.json["changes"])
    offered = next(change for change in got.json["changes"] if change["turn"] == "tools offered")
    assert (offered["at"], offered["token"]) == (2, 2)
    other = check(base, model="mine", template=TEMPLATE.replace("<tool_call>", "<call>"))
    assert "two_calls" in other.json["replies"]["proven"]


def test_a_model_that_speaks_no_template_is_refused(base: str) -> None:
    got = check(base, model="small")
    assert (got.status, got.error["code"], got.error["param"]) == (400, "unsupported_parameter", "model")


def test_a_template_of_harmony_is_compared_with_it() -> None:
    """Given as text, or that of a model's files, which is spoken to in Harmony."""
    source, tokenizer = gpt_oss_template("openai"), o200k_harmony()
    engine, format = ScriptedEngine([]), harmony(tokenizer.controls)
    oss = Model(name="oss", engine=engine, tokenizer=tokenizer, format=format, chat_template=source)
    with running(create_app(StaticCatalog({"oss": oss}))) as base:
        for fields in ({"model": "oss"}, {"template": source}):
            got = check(base, **fields)
            assert (got.json["ok"], got.json["replies"]["origin"]) == (True, "harmony")
            assert [prompt["prompt"] for prompt in got.json["harmony"] if not prompt["same"]] == [
                "system",
                "tool_result",
            ]


def test_a_response_template_is_tried_with_the_template(base: str) -> None:
    spec = {"version": 1, "start_anchor": "<|a|>\n", "fields": {"content": {"close": "<|e|>"}}}
    got = check(base, template=TEMPLATE, response_template=spec)
    assert (got.json["ok"], got.json["replies"]["origin"]) == (False, "response_template")
    wrong = check(base, template=TEMPLATE, response_template={"version": 2})
    assert (wrong.status, wrong.error["code"]) == (400, "bad_response_template")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"template": "{% if %}"}, "bad_template"),
        ({"template": "x" * (MAX_TEMPLATE + 1)}, "template_too_large"),
        ({"template": "x", "controls": ["a"] * 5000}, "invalid_value"),
    ],
)
def test_a_template_that_is_none_or_too_large_is_refused(base: str, fields: dict[str, object], code: str) -> None:
    got = check(base, **fields)
    assert (got.status, got.error["code"]) == (400, code)


@pytest.mark.parametrize(
    "source",
    [
        "{%- for i in range(10**9) %}{%- endfor %}",
        "{%- for m in messages %}{{ m.content }}{{ 'x' * 100000 }}{%- endfor %}",
        "{%- for m in messages %}{{ m.content + '<call>' * 9000 }}{{ m.tool_calls }}{%- endfor %}",
        "{{ ''.__class__.__mro__ }}",
    ],
)
def test_a_hostile_template_takes_bounded_work_and_harms_nothing(base: str, source: str) -> None:
    got = check(base, template=source)
    assert got.status == 200, got.body
    assert got.json["replies"]["proven"] in ([], ["answer"]), "no literal of thousands of characters is looked for"
    assert check(base, template="{{ messages[-1].content }}").status == 200
