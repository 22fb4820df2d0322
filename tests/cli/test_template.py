"""`antiphon template check` and `antiphon models show`: what is understood of a template, and what is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.app import run
from kit.family_templates import FAMILIES
from kit.reply_templates import each, template

LOSES = template(reply=each("{{ f.name + ' with ' + (f.arguments | tojson | replace('\"', '')) }}"))
_PLAIN = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
VOCABULARY = {
    "added_tokens": [{"id": 256, "content": "<|e|>", "special": True, **_PLAIN}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
    "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
    "model": {"type": "BPE", "vocab": {}, "merges": []},
}
OWN = """
anchor = "<|a|>\\n"
ends = ["<|e|>"]
[[calls]]
open = "<tool_call>\\n"
close = "\\n</tool_call>"
members = {}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    return tmp_path


def written(path: Path, source: str) -> Path:
    path.write_text(source)
    return path


def model_folder(folder: Path, source: str) -> Path:
    """A folder of Hugging Face's kind with a vocabulary of bytes."""
    folder.mkdir()
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + i) for i in range(256 - len(letters))]
    vocabulary = json.loads(json.dumps(VOCABULARY))
    vocabulary["model"]["vocab"] = {letter: i for i, letter in enumerate(letters)}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": source, "eos_token": "<|e|>"}))
    return folder


def test_a_template_that_loses_nothing_is_exit_code_0(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["template", "check", str(written(home / "t.jinja", FAMILIES["hermes"]))]) == 0
    shown = capsys.readouterr().out
    assert "t.jinja: nothing is lost" in shown
    assert "replies are known from the chat template, from which it was derived" in shown
    assert "two_calls" in shown
    assert "answered: kept" in shown
    assert "--- question" not in shown


def test_a_call_is_shown_by_the_template_by_its_example_and_by_the_vocabulary(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = "{%- if tools %}{{ 'Say [look(at=place)].' }}{%- endif %}"
    assert run(["template", "check", str(written(home / "t.jinja", example + FAMILIES["hermes"]))]) == 0
    shown = capsys.readouterr().out.splitlines()
    at = next(i for i, line in enumerate(shown) if "a call as the template writes it" in line)
    assert [line.split(":", 1)[1].strip() for line in shown[at : at + 3]] == [
        repr('<tool_call>\n{"name": "NAME", "arguments": {…}}\n</tool_call>'),
        "'[look(at=place)]'",
        "nothing that is known",
    ]
    assert any("warning: the template shows calls as '[look(at=place)]'" in line for line in shown)


def test_a_template_whose_calls_are_lost_is_exit_code_1(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["template", "check", str(written(home / "t.jinja", LOSES)), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "call is not read back as it is written" in found["lost"]
    assert found["replies"]["failed"][0]["reply"]


def test_a_folder_is_checked_with_its_vocabulary(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(home / "model", FAMILIES["hermes"])
    assert run(["template", "check", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    offered = next(change for change in found["changes"] if change["turn"] == "tools offered")
    assert (offered["cause"], offered["at"], offered["token"]) == ("tools", 2, 2)
    assert run(["template", "check", str(folder / "tokenizer_config.json")]) == 0


def test_a_model_of_the_configuration_is_checked_by_its_name(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(home / "model", FAMILIES["hermes"])
    (home / "config.toml").write_text(f'[models.mine]\ntokenizer = "{folder}"\nengine = "scripted"\nreply = "Hi"\n')
    assert run(["template", "check", "mine"]) == 0
    assert "nothing is lost" in capsys.readouterr().out
    (home / "config.toml").write_text('[models.mine]\ntokenizer = "o200k_harmony"\nengine = "scripted"\nreply = "Hi"\n')
    assert run(["template", "check", "mine"]) == 2
    assert "no Jinja template" in capsys.readouterr().err


def test_a_model_is_shown_with_whence_its_replies_are_known(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(home / "model", LOSES)
    (home / "config.toml").write_text(f'[models.mine]\ntokenizer = "{folder}"\nengine = "scripted"\nreply = "Hi"\n')
    assert run(["models", "show", "mine"]) == 0
    shown = capsys.readouterr().out
    assert "replies known from: the chat template" in shown
    assert "shapes proven: answer" in shown
    assert "shapes failed: call, " in shown
    assert "warning: calls are not understood, so none are read" in shown
    assert run(["models", "show", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["model"]["name"], found["replies"]["origin"]) == ("mine", "derived")


def test_a_model_that_is_not_here_is_shown_as_far_as_it_is_known(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", "show", "smollm2"]) == 0
    assert "speaks: not known before it is here" in capsys.readouterr().out
    assert run(["models", "show"]) == 2
    assert run(["models", "list", "smollm2"]) == 2
    assert run(["models"]) == 0


def test_a_description_of_ones_own_is_checked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(home / "t.jinja", FAMILIES["hermes"])
    own = written(home / "own.toml", OWN)
    assert run(["template", "check", str(source), "--replies", str(own), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["replies"]["origin"] == "configured"
    assert "reasoning_answer is not read back as it is written" in found["lost"], "the description has no reasoning"
    assert "two_calls" in found["replies"]["proven"]


@pytest.mark.parametrize(
    ("name", "source", "code"), [("t.jinja", "{% if %}", 1), ("empty", None, 2), ("gone.jinja", None, 2)]
)
def test_what_is_no_template_is_an_error(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, source: str | None, code: int
) -> None:
    (home / "empty").mkdir()
    if source is not None:
        written(home / name, source)
    assert run(["template", "check", str(home / name)]) == code
    assert capsys.readouterr().err.startswith("error: ")


def test_the_prompts_are_printed_where_they_are_requested(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["template", "check", str(written(home / "t.jinja", FAMILIES["hermes"])), "--prompts"])
    assert "--- question\n<|u|>What is the weather in Rome?<|e|>" in capsys.readouterr().out


def test_a_model_with_a_program_instead_of_a_template_is_checked_as_it_is_prompted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "deepseek"
    model_folder(folder, "")
    vocabulary = json.loads((folder / "tokenizer.json").read_text())
    for id, spelling in enumerate(("<｜System｜>", "｜DSML｜", "<｜end▁of▁sentence｜>"), 257):
        vocabulary["added_tokens"].append({"id": id, "content": spelling, "special": False, **_PLAIN})
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    assert run(["template", "check", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("deepseek-v4.1: nothing is lost")
    assert "template arguments: enable_thinking, reasoning_effort, thinking" in shown
