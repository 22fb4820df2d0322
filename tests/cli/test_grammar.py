"""`antiphon grammar` as a user has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.program import in_process

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
HEAD = "<|channel|>final<|message|>"


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return str(file)


def test_a_grammar_is_printed(tmp_path: Path, schema: str) -> None:
    done = in_process("grammar", "--format", "harmony", "--schema", schema, home=tmp_path)
    assert done.stdout.startswith("%llguidance")
    assert done.returncode == 0


def test_a_text_is_reported_where_it_leaves_the_grammar(tmp_path: Path, schema: str) -> None:
    def check(text: str) -> tuple[int, str]:
        done = in_process("grammar", "--format", "harmony", "--schema", schema, "--check", text, home=tmp_path)
        return done.returncode, done.stdout.strip()

    assert check(f'{HEAD}{{"n":1}}<|return|>') == (0, "accepted")
    assert check(f'{HEAD}{{"n":') == (1, "may go on, and must")
    assert check(f'{HEAD}{{"m":1}}') == (1, f"leaves the grammar after {HEAD + '{' + chr(34)!r}")


def test_a_keyword_that_cannot_be_enforced_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "string", "format": "regex"}))
    done = in_process("grammar", "--format", "chatml", "--schema", str(file), "--strict", home=tmp_path)
    assert done.returncode != 0
    assert "format" in done.stderr


@pytest.mark.parametrize("wrap", [lambda tool: tool, lambda tool: {"type": "function", "function": tool}])
def test_tools_are_those_of_a_chat_request_or_functions_alone(tmp_path: Path, wrap: Any) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([wrap({"name": "look.up", "parameters": SCHEMA})]))
    done = in_process("grammar", "--format", "chatml", "--tools", str(file), "--required", home=tmp_path)
    assert done.returncode == 0
    assert "look.up" in done.stdout


def test_a_tool_without_a_name_is_an_error_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps([{"name": "f"}, {"description": "g"}]))
    done = in_process("grammar", "--format", "chatml", "--tools", str(file), home=tmp_path)
    assert done.returncode == 2
    assert "tools[1]" in done.stderr


def test_built_in_tools_may_be_called_too(tmp_path: Path) -> None:
    def check(*options: str) -> int:
        call = "<|channel|>analysis to=python code<|message|>print(1)<|call|>"
        return in_process("grammar", "--format", "harmony", *options, "--check", call, home=tmp_path).returncode

    assert (check(), check("--builtin", "browser"), check("--builtin", "python")) == (1, 1, 0)
    assert check("--builtin", "shell") == 2


def test_a_file_in_the_place_of_the_text_is_told(tmp_path: Path, schema: str) -> None:
    done = in_process("grammar", "--format", "harmony", "--schema", schema, "--check", schema, home=tmp_path)
    assert done.returncode == 1
    assert "is a file; --check takes the text itself" in done.stderr
    long = in_process("grammar", "--format", "harmony", "--schema", schema, "--check", "a" * 5000, home=tmp_path)
    assert (long.returncode, long.stderr) == (1, "")
