"""POST /v1/templates/check and /try: what is understood of a template, and a prompt and a reply piece by piece."""

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
from kit.api import END, Got, app, ids, model, post, running, scripted, served
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


TRY = "/v1/templates/try"
CONTROLS = ["<|u|>", "<|a|>", "<|e|>"]
USER = {"role": "user", "content": "Hi <|u|>"}
CALL = 'Look: <tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|e|>'


plain = served(lambda: app(ids("ok", END)))


def attempt(plain: str, **fields: object) -> Got:
    return post(plain, TRY, **{"template": FAMILIES["hermes"], "controls": CONTROLS, "messages": [USER], **fields})


def test_a_template_of_ones_own_writes_a_prompt_in_pieces(plain: str) -> None:
    got = attempt(plain).json
    assert got["text"] == "<|u|>Hi <|u|><|e|>\n<|a|>\n"
    assert got["pieces"][:3] == [{"control": "<|u|>"}, {"text": "Hi <|u|>"}, {"control": "<|e|>"}], "text stays text"
    assert (got["ids"], got["reply"], got["stop"]) == (None, None, ["<|e|>"])
    assert attempt(plain, add_generation_prompt=False).json["text"] == "<|u|>Hi <|u|><|e|>\n"


def test_tools_are_written(plain: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    assert '"name": "f"' in attempt(plain, tools=[tool]).json["text"]


def test_a_reply_is_read_piece_by_piece(plain: str) -> None:
    read = attempt(plain, reply=CALL).json["reply"]
    assert read["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a": 1}'}
    assert read["ended"] == "<|e|>"
    steps = read["steps"]
    assert "".join(one.get("text") or one.get("control") or "" for one in steps) == CALL
    kinds = [event["type"] for one in steps for event in one["events"]]
    assert (kinds.count("started"), kinds.count("ended"), kinds[0]) == (2, 2, "started")
    assert len(read["messages"]) == 2


def test_a_model_gives_ids_whatever_it_speaks(plain: str) -> None:
    got = post(plain, TRY, messages=[{"role": "user", "content": "Hi"}], reply="<think>why</think>Yes<|im_end|>").json
    rendered = post(plain, "/v1/render", messages=[{"role": "user", "content": "Hi"}]).json
    assert (got["text"], got["ids"]) == (rendered["text"], rendered["ids"])
    assert sum(len(piece["tokens"]) for piece in got["pieces"]) == len(got["ids"])
    assert (got["reply"]["message"]["content"], got["reply"]["message"]["reasoning"]) == ("Yes", "why")
    both = post(
        plain, TRY, model="small", template=FAMILIES["hermes"], messages=[{"role": "user", "content": "Hi"}]
    ).json
    assert both["ids"] is not None


def test_what_is_no_reply_is_incidents(plain: str) -> None:
    read = attempt(plain, reply="<tool_call>{broken</tool_call><|e|> more").json["reply"]
    assert read["incidents"]


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"template": "{{ 1 }}\n{% for %}"}, "bad_template", "line 2"),
        ({"template": "\n{{ raise_exception('never') }}"}, "template_refused", "line 2"),
        ({"template": "{%- for i in range(10**9) %}{%- endfor %}"}, "template_limit", "too much"),
        ({"template": "x" * 70_000}, "template_too_large", ""),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": [USER] * 300}, "invalid_value", "300"),
        ({"reply": "x" * 40_000}, "invalid_value", "reply"),
        ({"controls": ["x"] * 5000}, "invalid_value", "controls"),
    ],
)
def test_what_cannot_be_tried(plain: str, fields: dict[str, object], code: str, words: str) -> None:
    got = attempt(plain, **fields)
    assert (got.status, got.error["code"]) == (400, code)
    assert words in got.error["message"]


@pytest.mark.parametrize("source", ["{{ ''.__class__.__mro__ }}", "{{ cycler.__init__.__globals__ }}"])
def test_the_sandbox_holds(plain: str, source: str) -> None:
    got = attempt(plain, template=source)
    assert (got.status, got.error["code"]) == (400, "template_failed")
