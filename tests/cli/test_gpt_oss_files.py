"""gpt-oss as a Hugging Face folder and as a GGUF file's metadata: it is spoken to in Harmony, whatever its template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.catalog.files.text import gguf_text
from antiphon.catalog.format_choice import choose_format
from antiphon.catalog.known_formats import known_formats
from antiphon.cli.app import run
from antiphon.config import ModelEntry
from antiphon.engines.gguf_file import GgufValue
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS
from kit.gpt_oss_templates import ORIGINS, Origin, gpt_oss_template

BOTH = pytest.mark.parametrize("origin", ORIGINS)
SPELLINGS = [*(control.spelling for control in CONTROLS), "<|endoftext|>"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    return tmp_path


def model_folder(folder: Path, origin: Origin) -> Path:
    """A vocabulary of bytes with Harmony's controls, and the template as newer folders have it."""
    folder.mkdir()
    letters = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256))]
    letters += [chr(256 + i) for i in range(256 - len(letters))]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": 256 + i, "content": text, "special": True, **flags} for i, text in enumerate(SPELLINGS)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}
    vocabulary = {"added_tokens": added, "pre_tokenizer": level, "decoder": level, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|return|>"}))
    (folder / "chat_template.jinja").write_text(gpt_oss_template(origin))
    return folder


def configured(home: Path, folder: Path, *more: str) -> None:
    lines = ("[models.oss]", f'tokenizer = "{folder}"', 'engine = "scripted"', 'reply = "Hi"', *more)
    (home / "config.toml").write_text("\n".join(lines) + "\n")


@BOTH
def test_a_folder_of_gpt_oss_is_spoken_to_in_harmony(
    home: Path, capsys: pytest.CaptureFixture[str], origin: Origin
) -> None:
    configured(home, model_folder(home / "oss", origin))
    assert run(["models", "show", "oss"]) == 0
    shown = capsys.readouterr().out
    assert "speaks: harmony" in shown
    assert "format harmony (model: its vocabulary has Harmony's controls)" in shown


@BOTH
def test_a_gguf_file_of_gpt_oss_is_spoken_to_in_harmony(origin: Origin) -> None:
    tokens: list[GgufValue] = ["a", *SPELLINGS]
    types: list[GgufValue] = [1, *[3] * len(SPELLINGS)]
    metadata: dict[str, GgufValue] = {
        "general.architecture": "gpt-oss",
        "tokenizer.chat_template": gpt_oss_template(origin),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-4o",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [],
    }
    assert choose_format("oss", ModelEntry(), gguf_text(metadata), known_formats()) == Harmony()


@BOTH
@pytest.mark.parametrize("target", ["oss", "folder", "file"])
def test_its_template_is_checked_beside_harmony(
    home: Path, capsys: pytest.CaptureFixture[str], origin: Origin, target: str
) -> None:
    folder = model_folder(home / "folder", origin)
    configured(home, folder)
    places = {"oss": "oss", "folder": str(folder), "file": str(folder / "chat_template.jinja")}
    assert run(["template", "check", places[target], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["replies"]["origin"]) == (True, "harmony")
    same = {prompt["prompt"]: prompt["same"] for prompt in found["harmony"]}
    openais = origin == "openai"
    assert same == {
        "question": True,
        "system": not openais,
        "tools": True,
        "next_turn": openais,
        "tool_result": False,
    }
    result = next(prompt for prompt in found["harmony"] if prompt["prompt"] == "tool_result")
    assert result["template"].startswith("json<|message|>")
    assert result["harmony"].startswith("<|constrain|>json<|message|>")


def test_the_report_for_people_says_where_the_prompts_differ(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model_folder(home / "folder", "openai")
    assert run(["template", "check", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "replies are known from Harmony, which the template writes" in shown
    assert "question: the same" in shown
    assert "tool_result: differs at character" in shown


@BOTH
def test_a_table_that_names_the_template_is_prompted_by_it(
    home: Path, capsys: pytest.CaptureFixture[str], origin: Origin
) -> None:
    folder = model_folder(home / "oss", origin)
    configured(home, folder, f'chat_template = "{folder / "chat_template.jinja"}"')
    assert run(["models", "show", "oss"]) == 0
    assert "speaks: harmony" in capsys.readouterr().out
    assert run(["template", "check", "oss"]) == 0
    assert "tool_result: differs at character" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "code"), [('dialect = "b"', 0), ('types = "full"', 2), ("names = true", 2)])
def test_an_option_that_the_template_would_not_follow_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], option: str, code: int
) -> None:
    folder = model_folder(home / "oss", "openai")
    configured(home, folder, f'chat_template = "{folder / "chat_template.jinja"}"', "[models.oss.harmony]", option)
    assert run(["models", "show", "oss"]) == code
    assert ("where this changes nothing" in capsys.readouterr().err) is (code == 2)
