"""Whence a model's replies are known: its user's description, its files' response template, or its chat template."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.catalog.files.text import ModelText, ResponseTemplate, template_text
from antiphon.catalog.format_choice import choose_format, log_replies
from antiphon.catalog.known_formats import known_formats
from antiphon.config import ModelEntry, load_config
from antiphon.errors import ConfigError, ModelError, TemplateError
from antiphon.formats.replies import Members
from antiphon.formats.template import JinjaFormat, TemplateFormat
from antiphon.tokens import ByteTokenizer
from kit.family_templates import FAMILIES
from kit.reply_templates import REFUSED

TEMPLATE = FAMILIES["hermes"]
SPEC: dict[str, Any] = {
    "version": 1,
    "start_anchor": "<|a|>\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "content": "json",
            "repeats": True,
            "transform": {"function": {"name": "{content.name}", "arguments": "{content.arguments}"}},
        },
        "content": {"close": "<|e|>"},
    },
}
OWN = """
anchor = "<|a|>\\n"
ends = ["<|e|>"]
[[calls]]
open = "<tool_call>\\n"
close = "\\n</tool_call>"
[calls.members]
arguments = "arguments"
"""


def text(spec: object = None, source: str = TEMPLATE) -> ModelText:
    given = ResponseTemplate(spec, "tokenizer_config.json: response_template") if spec is not None else None
    return ModelText(tokenizer=ByteTokenizer(), template=source, responses=given)


def chosen(entry: ModelEntry, files: ModelText) -> JinjaFormat:
    format = choose_format("m", entry, files, known_formats())
    assert isinstance(format, JinjaFormat)
    return format


def folder(path: Path, settings: dict[str, Any], **files: object) -> Path:
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    return path


def test_the_response_template_of_the_settings_is_read(tmp_path: Path) -> None:
    found = template_text(
        folder(tmp_path, {"chat_template": TEMPLATE, "response_template": SPEC, "eos_token": "<|e|>"})
    )
    assert found.responses is not None
    assert found.responses.spec == SPEC
    assert found.responses.place.endswith("tokenizer_config.json: response_template")
    assert (found.template, found.special) == (TEMPLATE, {"eos_token": "<|e|>"})


def test_a_file_beside_the_settings_is_read_where_they_have_none(tmp_path: Path) -> None:
    other = SPEC | {"start_anchor": "other"}
    alone = template_text(folder(tmp_path, {}, response_template=other)).responses
    assert alone == ResponseTemplate(other, str(tmp_path / "response_template.json"))
    both = template_text(folder(tmp_path, {"response_template": SPEC}, response_template=other)).responses
    assert both is not None
    assert both.spec == SPEC
    (tmp_path / "response_template.json").write_text("{")
    with pytest.raises(ModelError, match=r"response_template\.json is not JSON"):
        template_text(folder(tmp_path, {}))


def test_the_tokens_that_the_settings_name_are_there_without_a_vocabulary(tmp_path: Path) -> None:
    added = {"7": {"content": "<|u|>", "special": True}, "8": {"content": "<think>"}}
    found = template_text(folder(tmp_path, {"added_tokens_decoder": added, "bos_token": {"content": "<s>"}}))
    assert {control.spelling for control in found.tokenizer.controls} == {"<s>", "<|u|>", "<think>"}


def test_the_models_response_template_is_used_without_configuration() -> None:
    found = chosen(ModelEntry(), text(SPEC)).found
    assert found.origin == "response_template"
    assert found.description.calls[0].members == Members()
    assert "two_calls" in found.proof.proven
    assert chosen(ModelEntry(), text()).found.origin == "derived"


@pytest.mark.parametrize("spec", [[], {"version": 2}, {"version": 1, "start_anchor": "x", "fields": {"mood": {}}}])
def test_one_that_cannot_be_read_is_named_and_the_template_asked(
    spec: object, caplog: pytest.LogCaptureFixture
) -> None:
    found = chosen(ModelEntry(), text(spec)).found
    assert found.origin == "derived"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "tokenizer_config.json: response_template is not used" in record.getMessage()


@pytest.mark.parametrize(("name", "content"), [("own.toml", OWN), ("theirs.json", json.dumps(SPEC))])
def test_a_users_description_counts_before_all_else(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "config.toml").write_text(f'[models.m]\nsource = "m.gguf"\nreplies = "{name}"\n')
    entry = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.entries["m"]
    assert entry.replies == str(tmp_path / name)
    found = chosen(entry, text({"version": 1, "start_anchor": "x", "fields": {"content": {}}})).found
    assert found.origin == "configured"
    assert "call" in found.proof.proven


def test_a_users_template_takes_a_users_description_too(tmp_path: Path) -> None:
    (tmp_path / "mine.jinja").write_text(TEMPLATE)
    (tmp_path / "own.toml").write_text(OWN)
    mine = ModelEntry(chat_template=str(tmp_path / "mine.jinja"))
    assert chosen(mine, text(SPEC)).found.origin == "derived"
    described = ModelEntry(chat_template=str(tmp_path / "mine.jinja"), replies=str(tmp_path / "own.toml"))
    assert chosen(described, text(SPEC)).found.origin == "configured"


def test_a_template_by_name_takes_a_description_and_harmony_takes_none(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    entry = ModelEntry(format="llama2", replies=str(tmp_path / "own.toml"))
    format = choose_format("m", entry, text(), known_formats())
    assert isinstance(format, TemplateFormat)
    assert format.replies.calls[0].open == "<tool_call>\n"
    with pytest.raises(ConfigError, match="the replies of harmony"):
        choose_format("m", ModelEntry(format="harmony", replies=entry.replies), text(), known_formats())


def described(**form: object) -> str:
    return json.dumps({"calls": [form]})


def pairs(**value: str) -> str:
    return described(open="<f=", head=[{"reads": "name", "after": ">"}], pairs={"key": "<k>", "values": [value]})


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("r.toml", "anchor = ", "no TOML"),
        ("r.json", "{", "no JSON"),
        ("r.json", "[" * 100_000, "no JSON"),
        ("r.json", '{"anchr": "x"}', r"unknown key '\$.anchr'"),
        ("r.json", '{"calls": [{"open": "x", "members": {"nam": "n"}}]}', r"unknown key '\$.calls\[0\].members.nam'"),
        ("r.json", '{"calls": [{"open": "x"}]}', r"\$.calls\[0\]: without members"),
        ("r.json", '{"calls": [{"open": "x", "members": {}, "pairs": {"values": []}}]}', "pairs.values"),
        ("r.json", '{"reasoning": {}}', r"\$.reasoning: a region needs"),
        ("r.json", '{"content": {"open": "\\n", "close": " "}}', r"\$.content: a region needs"),
        ("r.json", '{"ends": ["</s>", ""]}', r"\$.ends\[1\]: a text is needed"),
        ("r.json", '{"layout": ["\\n"]}', r"\$.layout\[0\]: a text is needed"),
        ("r.json", described(head=[{"reads": "name", "after": ">"}]), r"\$.calls\[0\]: a name in markup needs an open"),
        ("r.json", pairs(before=""), r"\$.calls\[0\].pairs.values\[0\].before"),
        ("r.json", pairs(before="=", after=""), r"\$.calls\[0\].pairs.values\[0\].after"),
        ("r.json", pairs(before=">", after="</a>", reads="nested"), "nested values need"),
        ("r.json", json.dumps({"ends": ["x" * 401]}), "more than 400 characters"),
        ("r.json", '{"ends": "x"}', "Expected `array`"),
        ("r.json", '{"version": 2, "fields": {}}', "version 1"),
    ],
)
def test_a_description_that_is_wrong_says_where(tmp_path: Path, name: str, content: str, what: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(TemplateError, match=what) as caught:
        chosen(ModelEntry(replies=str(tmp_path / name)), text())
    assert name in caught.value.message
    assert caught.value.code in ("bad_replies", "bad_response_template")


@pytest.mark.parametrize("name", ["missing.json", "wrong.yaml"])
def test_a_description_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "wrong.yaml").write_text("a: b")
    with pytest.raises(ConfigError, match=name):
        chosen(ModelEntry(replies=str(tmp_path / name)), text())


def test_the_log_says_where_replies_are_known_from_and_what_is_not_understood(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = next(iter(REFUSED.values()))
    with caplog.at_level(logging.INFO, "antiphon.catalog"):
        log_replies("plain", chosen(ModelEntry(), text()))
        log_replies("odd", chosen(ModelEntry(), text(source=odd)))
    plain, *rest = [record for record in caplog.records if record.name == "antiphon.catalog"]
    assert plain.levelno == logging.INFO
    assert plain.getMessage().startswith("plain: its replies are known from the chat template, from which")
    warned = [record.getMessage() for record in rest if record.levelno == logging.WARNING]
    assert "odd: calls are not understood, so none are read" in warned
    assert not [line for line in warned if not line.startswith("odd: ")]


@pytest.mark.parametrize("teaches", [True, False])
def test_a_template_without_calls_is_taught_them_unless_its_table_says_no(tmp_path: Path, teaches: bool) -> None:
    silent = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
    (tmp_path / "mine.jinja").write_text(silent)
    (tmp_path / "config.toml").write_text(f'[models.m]\nsource = "m.gguf"\nteach_tools = {str(teaches).lower()}\n')
    entry = load_config({"ANTIPHON_HOME": str(tmp_path)}).config.entries["m"]
    for chosen_entry in (entry, msgspec.structs.replace(entry, chat_template=str(tmp_path / "mine.jinja"))):
        format = chosen(chosen_entry, text(source=silent))
        assert isinstance(format, JinjaFormat)
        assert format.found.taught is teaches
