"""`antiphon conformance` as a user has it: our own reader, another program, and the table of levels."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kit.program import in_process

PROGRAM = """
import json, sys
from antiphon.formats.openchatml import check
json.dump(check(sys.stdin.buffer.read(), sys.argv[1:]), sys.stdout)
"""
FORGETFUL = """
import base64, json, sys
from antiphon.formats.openchatml import check
for line in sys.stdin:
    request = json.loads(line)
    report = check(base64.b64decode(request["base64"]), request["flags"])
    for error in report.get("errors", []):
        del error["column"]
    print(json.dumps(report), flush=True)
"""


def rows(text: str) -> dict[str, list[str]]:
    """topic → its cells, of the lines of the table."""
    cells = [line.replace(" of ", "/").split() for line in text.splitlines()]
    return {first: rest for first, *rest in cells if rest and "/" in "".join(rest)}


def test_our_own_reader_passes_every_level(tmp_path: Path) -> None:
    done = in_process("conformance", "--json", home=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["failed"]) == (0, [])
    assert report["passed"] == report["total"] >= 400
    assert {level for row in report["topics"].values() for level in row} == {"specification", "choices", "diagnostics"}


def test_another_implementation_is_a_program_behind_two_dashes(tmp_path: Path) -> None:
    done = in_process("conformance", "--only", "16.1", "--", sys.executable, "-c", PROGRAM, home=tmp_path)
    assert (done.returncode, rows(done.stdout)["examples"][0]) == (0, "1/1")


def test_a_program_without_a_report_fails(tmp_path: Path) -> None:
    done = in_process("conformance", "--only", "16.1", "--", sys.executable, "-c", "print('hello')", home=tmp_path)
    assert done.returncode == 1
    assert "no JSON on stdout" in done.stdout
    assert rows(done.stdout)["examples"][0] == "0/1"


@pytest.mark.parametrize(("level", "code", "cells"), [(1, 0, 1), (2, 0, 2), (3, 1, 3)])
def test_a_level_says_how_much_is_demanded(tmp_path: Path, level: int, code: int, cells: int) -> None:
    """A program that is started once; its reports have no columns, which the last level alone demands."""
    words = ("--level", str(level), "--lines", "--only", "heads", "--", sys.executable, "-c", FORGETFUL)
    done = in_process("conformance", *words, home=tmp_path)
    assert done.returncode == code
    table = rows(done.stdout)
    assert len(table["heads"]) == len(table["all"]) == cells
    passed, total = table["all"][0].split("/")
    assert passed == total != "0"
    if level == 3:
        assert table["all"][2].split("/")[0] != table["all"][2].split("/")[1]


@pytest.mark.parametrize("mode", [["--lines"], []], ids=["by lines", "by command"])
@pytest.mark.parametrize("answers", [0, 2])
def test_a_program_that_ends_says_why_in_each_case_that_it_did_not_answer(
    tmp_path: Path, mode: list[str], answers: int
) -> None:
    """It answers a few lines, and nothing that is no line."""
    program = f"""
import sys
for _ in range({answers if mode else 0}):
    sys.stdin.readline()
    print("{{}}", flush=True)
sys.exit("no module named yaml")
"""
    done = in_process(
        "conformance", *mode, "--only", "16.", "--json", "--", sys.executable, "-c", program, home=tmp_path
    )
    problems = [failed["problem"] for failed in json.loads(done.stdout)["failed"] if failed["level"] == "specification"]
    ended = [problem for problem in problems if problem.endswith("(exit code 1) no module named yaml")]
    assert (done.returncode, len(problems), len(ended)) == (1, 4, 4 - (answers if mode else 0))


def test_a_program_that_closes_its_output_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.cli.conformance.PATIENCE", 0.2)
    program = "import os, sys; os.close(1); sys.stdin.read()"
    done = in_process("conformance", "--lines", "--only", "16.1", "--", sys.executable, "-c", program, home=tmp_path)
    assert (done.returncode, "(exit code -9)" in done.stdout) == (1, True)
