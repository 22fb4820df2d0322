"""`antiphon grammar` as a user has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.program import antiphon

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
HEAD = "<|channel|>final<|message|>"


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    return str(file)


def test_a_grammar_is_printed(tmp_path: Path, schema: str) -> None:
    done = antiphon("grammar", "--format", "harmony", "--schema", schema, home=tmp_path)
    assert done.stdout.startswith("%llguidance")
    assert done.returncode == 0


def test_a_text_is_told_where_it_leaves_the_grammar(tmp_path: Path, schema: str) -> None:
    def check(text: str) -> tuple[int, str]:
        done = antiphon("grammar", "--format", "harmony", "--schema", schema, "--check", text, home=tmp_path)
        return done.returncode, done.stdout.strip()

    assert check(f'{HEAD}{{"n":1}}<|return|>') == (0, "accepted")
    assert check(f'{HEAD}{{"n":') == (1, "may go on, and must")
    assert check(f'{HEAD}{{"m":1}}') == (1, f"leaves the grammar after {HEAD + '{' + chr(34)!r}")


def test_a_keyword_that_cannot_be_held_is_named(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "string", "format": "regex"}))
    done = antiphon("grammar", "--format", "chatml", "--schema", str(file), "--strict", home=tmp_path)
    assert done.returncode != 0
    assert "format" in done.stderr
