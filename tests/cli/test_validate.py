"""`antiphon validate` as a user has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kit.openchatml import long_transcript
from kit.program import in_process, peak_memory

GOOD = 'version: "2.2"\n<|start|>user<|message|>Hi<|end|>\n<|start|>assistant<|message|>Hello<|return|>\n'
BAD = 'version: "2.2"\n<|start|>moderator<|message|>Hello<|end|>\n<|start|>user<|message|>Hi'


def test_a_valid_transcript_is_said_to_be_valid(tmp_path: Path) -> None:
    file = tmp_path / "talk.ocm"
    file.write_text(GOOD)
    done = in_process("validate", str(file), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{file}: valid\n", "")


def test_an_error_is_reported_with_its_place_code_and_hint(tmp_path: Path) -> None:
    done = in_process("validate", "-", home=tmp_path, stdin=BAD)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "2:10  E-PARSE-HEADER  unknown role 'moderator'"
    assert lines[1:3] == ["    2 | <|start|>moderator<|message|>Hello<|end|>", "      |          ^^^^^^^^^"]
    assert lines[3].strip().startswith("system, developer, user")
    assert lines[4].startswith("3:27  E-STREAM-TRUNCATED")
    assert "\x1b" not in done.stdout


def test_programs_get_the_same_as_json(tmp_path: Path) -> None:
    done = in_process("validate", "-", "--json", home=tmp_path, stdin=BAD)
    report = json.loads(done.stdout)
    assert (done.returncode, report["valid"]) == (1, False)
    assert [(e["code"], e["line"], e["column"]) for e in report["errors"]] == [
        ("E-PARSE-HEADER", 2, 10),
        ("E-STREAM-TRUNCATED", 3, 27),
    ]
    assert set(report["errors"][0]) == {"code", "line", "column", "message", "hint", "rule", "clause"}
    done = in_process("validate", "-", "--json", home=tmp_path, stdin=GOOD)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"valid": True, "errors": [], "warnings": []})


def test_the_harmony_profile_asks_for_channels(tmp_path: Path) -> None:
    done = in_process("validate", "-", "--profile", "harmony", home=tmp_path, stdin=GOOD)
    assert done.returncode == 1
    assert done.stdout.startswith("3:19  E-PARSE-CHANNEL-MISSING")


@pytest.mark.spec("OCM-136")
def test_calls_are_checked_against_what_the_transcript_declares(tmp_path: Path) -> None:
    declared = '<|start|>developer<|message|># Tools\n## functions\n{"name": "f"}<|end|>\n'
    called = "<|start|>assistant to=functions.g call_id=a<|channel|>commentary<|constrain|>json<|message|>{}<|call|>\n"
    done = in_process("validate", "-", home=tmp_path, stdin=f'version: "2.2"\n{declared}{called}')
    assert done.returncode == 1
    assert done.stdout.startswith("5:20  E-CALL-SCHEMA  functions.g is not declared\n")
    assert "Did you mean functions.f?" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells a process its peak memory")
def test_memory_does_not_grow_with_the_transcript(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(long_transcript(1))
    large.write_bytes(long_transcript(15))
    peaks = [peak_memory(tmp_path, "validate", str(file)) for file in (small, large)]
    assert peaks[1] < 200e6
    assert peaks[1] - peaks[0] < 8e6
