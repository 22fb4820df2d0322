"""`antiphon conformance` as a user has it: our own reader, another program, and the table of levels."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.conformance import Suite, load, narrowed, ours, shipped
from antiphon.formats.conformance import Level, difference, run_conformance
from docs.blocks import ROOT, Block, blocks, place
from kit.program import in_process

CONFORMANCE_PAGE = ROOT / "docs" / "internals" / "conformance.md"

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

CUT = """
import json, sys
from antiphon.cli.conformance import Suite, ours
answer = ours(Suite("replies"))
for line in sys.stdin:
    request = json.loads(line)
    if request["reply"][0][-1:] == "<":
        request["reply"][0] = request["reply"][0][:-1]
    print(json.dumps(answer(json.dumps(request).encode(), ())), flush=True)
"""
"""A reader that forgets a sign which may begin a mark, where a piece ends with it."""


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


def by_lines(tmp_path: Path, *words: str) -> tuple[int, str]:
    done = in_process("conformance", "--lines", *words, home=tmp_path)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("suite", "topic"),
    [(suite, topic) for suite in (Suite.HARMONY, Suite.REPLIES) for topic in ("render", "parse", "stream", "admits")],
)
def test_our_own_implementation_meets_every_demand(suite: Suite, topic: str) -> None:
    """Of Harmony also the ids; every third streamed reply, each at all of its cuts."""
    topics = ("render", "tokens") if topic == "render" else (topic,)
    chosen = [case for case in load(shipped(suite)) if case.topic in topics][:: 3 if topic == "stream" else 1]
    outcomes = list(run_conformance(chosen, ours(suite)))
    assert {outcome.case.id: outcome.problem for outcome in outcomes if not outcome.passed} == {}
    assert len(outcomes) >= 20


@pytest.mark.parametrize("suite", [Suite.HARMONY, Suite.REPLIES])
def test_a_few_cases_of_each_suite_are_met_by_the_command(tmp_path: Path, suite: Suite) -> None:
    only = {Suite.HARMONY: "parse-header", Suite.REPLIES: "render-hermes"}[suite]
    done = in_process("conformance", "--suite", suite, "--only", only, home=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1].split(" ", 1)[1][:3]) == (0, "of ")


@pytest.mark.parametrize(
    ("suite", "op", "old", "new", "told"),
    [
        (Suite.HARMONY, "render", '{"control": "<|start|>"}, "user"', '"<|start|>user"', "pieces: "),
        (Suite.HARMONY, "tokens", "200006, ", "", "ids: "),
        (Suite.HARMONY, "parse", '"recipient": "python"', '"recipient": "functions.python"', ".recipient is"),
        (Suite.HARMONY, "admits", "prefix", "no", "admits is 'no'; right is 'prefix'"),
        (Suite.REPLIES, "render", "<|u|>", "<|U|>", "text is "),
        (Suite.REPLIES, "parse", "reasoning_content", "content", ".reasoning_content is None"),
        (Suite.REPLIES, "stream", '"forecast"', '"note"', ".name is 'note'; right is 'forecast'"),
        (Suite.REPLIES, "admits", "yes", "prefix", "admits is 'prefix'; right is 'yes'"),
    ],
)
def test_a_program_that_is_wrong_in_one_thing_is_told_the_case_its_clause_and_what_differs(
    suite: Suite, op: str, old: str, new: str, told: str
) -> None:
    """And fails nothing else of the suite's part."""

    def wrong(request: bytes, flags: Sequence[str]) -> object:
        report = ours(suite)(request, flags)
        mine = json.loads(request)["op"] == op
        return json.loads(json.dumps(report, ensure_ascii=False).replace(old, new)) if mine else report

    only = "hermes" if suite is Suite.REPLIES else op
    problems = [one for one in run_conformance(narrowed(load(shipped(suite)), Level(1), only), wrong) if not one.passed]
    assert problems
    assert all(one.case.id.startswith(f"{op}-") and told in (one.problem or "") for one in problems)
    assert all(re.match(r"(HAR|REP)-\d+", one.case.clauses[0]) for one in problems)


def test_a_program_that_is_wrong_at_one_cut_is_told_where_it_was_cut(tmp_path: Path) -> None:
    words = ("--suite", "replies", "--only", "stream-hermes", "--", sys.executable, "-c", CUT)
    code, text = by_lines(tmp_path, *words)
    assert code == 1
    assert re.search(r"^stream-hermes-\d \(.*REP-7\), specification: reply\[0\] cut at \d+: ", text, re.MULTILINE)


def test_what_a_program_loses_of_a_malformed_reply_is_named() -> None:
    def forgetful(request: bytes, flags: Sequence[str]) -> object:
        report = ours(Suite.HARMONY)(request, flags)
        return json.loads(json.dumps(report, ensure_ascii=False).replace("We think.", ""))

    chosen = narrowed(load(shipped(Suite.HARMONY)), Level.DIAGNOSTICS, "parse-malformed")
    problems = [(one.level, one.problem) for one in run_conformance(chosen, forgetful)]
    assert (Level.DIAGNOSTICS, "'We think.' is in no text of the answer") in problems


def test_a_request_is_read_on_standard_input_where_the_program_is_started_for_each(tmp_path: Path) -> None:
    program = "import json, sys; from antiphon.cli import answers; answer = answers.answer_harmony"
    program += "; json.dump(answer(sys.stdin.buffer.read(), ()), sys.stdout)"
    words = ("--suite", "harmony", "--only", "parse-unstopped", "--", sys.executable, "-c", program)
    done = in_process("conformance", *words, home=tmp_path)
    assert (done.returncode, rows(done.stdout)["all"][0]) == (0, "3/3")


def test_an_unknown_op_and_an_unknown_shared_part_are_told(tmp_path: Path) -> None:
    case = {"id": "x", "title": "x", "clauses": ["X"], "request": {"op": "sing"}, "specification": {"a": 1}}
    (tmp_path / "cases.json").write_text(json.dumps([case]), "utf-8")
    done = in_process("conformance", "--suite", "harmony", "--cases", str(tmp_path), home=tmp_path)
    assert (done.returncode, "unknown op 'sing'" in done.stdout) == (1, True)
    (tmp_path / "cases.json").write_text(json.dumps([case | {"with": ["nothing"]}]), "utf-8")
    done = in_process("conformance", "--suite", "harmony", "--cases", str(tmp_path), home=tmp_path)
    assert done.returncode == 2
    assert "holds no cases: KeyError('nothing')" in done.stderr


def values_of(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("block", [*blocks(CONFORMANCE_PAGE, "json")], ids=place)
def test_the_page_s_answers_are_ours(block: Block) -> None:
    request, answer = values_of(block.code)
    suite = Suite.REPLIES if "template" in request else Suite.HARMONY
    assert difference(answer, ours(suite)(json.dumps(request).encode(), ())) is None


def test_the_page_has_the_counts_of_the_indices() -> None:
    page = CONFORMANCE_PAGE.read_text("utf-8")
    for suite in Suite:
        number = json.loads((shipped(suite) / "index.json").read_text("utf-8"))["cases"]
        assert re.search(rf"^\| `{suite}`.* \| {number} \|$", page, re.MULTILINE), (suite, number)
