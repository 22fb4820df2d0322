"""`antiphon lint` as a user has it: rules by name and level, reports for programs, `--fix`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.app import run
from antiphon.formats.openchatml.lint import RULES, Edit, edited
from kit.lint_examples import whole
from kit.program import in_process as antiphon

UGLY = "version: 2.2\n<|start|>asistant<|channel|>analisis<|message|>Hi<|end|>\n<|start|>moderator<|message|>é<|end|>\n"
CLEAN = whole("<|start|>user<|message|>Hi<|end|>")


@pytest.fixture
def ugly(tmp_path: Path) -> Path:
    file = tmp_path / "a talk, 100%.ocm"
    file.write_text(UGLY, "utf-8")
    return file


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = run(["lint", *arguments])
    return code, capsys.readouterr().out


def rules_in(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    code, printed = output(capsys, *arguments, "--json")
    found = [finding for file in json.loads(printed)["files"] for finding in file["findings"]]
    return code, [(finding["rule"], finding["level"]) for finding in found]


def test_people_see_place_level_rule_line_and_hint(ugly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = output(capsys, str(ugly), "--ignore", "header-*")
    assert code == 1
    assert printed.splitlines() == [
        f"{ugly}:2:10  error  unknown role 'asistant'  [role-unknown]",
        "    2 | <|start|>asistant<|channel|>analisis<|message|>Hi<|end|>",
        "      |          ^^^^^^^^",
        "      Did you mean assistant? system, developer, user, assistant, tool, or a tool's qualified name.",
        f"{ugly}:2:29  error  unknown channel 'analisis'  [channel-unknown]",
        "    2 | <|start|>asistant<|channel|>analisis<|message|>Hi<|end|>",
        "      |                             ^^^^^^^^",
        "      Did you mean analysis? analysis, commentary or final.",
        f"{ugly}:3:10  error  unknown role 'moderator'  [role-unknown]",
        "    3 | <|start|>moderator<|message|>é<|end|>",
        "      |          ^^^^^^^^^",
        "      system, developer, user, assistant, tool, or a tool's qualified name.",
        "1 file: 3 errors; --fix can mend 1",
    ]


def test_rules_are_chosen_by_name_and_level(ugly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ugly)
    everything = [("header-bare", "info"), ("header-version-bare", "warning"), ("role-unknown", "error"),
                  ("channel-unknown", "error"), ("role-unknown", "error")]  # fmt: skip
    assert rules_in(capsys, file) == (1, everything)
    assert rules_in(capsys, file, "--select", "header-*") == (0, everything[:2])
    assert rules_in(capsys, file, "--select", "header-*", "--fail-on", "warning") == (1, everything[:2])
    assert rules_in(capsys, file, "--select", "header-bare", "--fail-on", "warning") == (0, everything[:1])
    assert rules_in(capsys, file, "--ignore", "role-unknown,channel-*") == (0, everything[:2])
    assert rules_in(capsys, file, "--select", "header-*", "--level", "header-bare=error") == (
        1, [("header-bare", "error"), ("header-version-bare", "warning")],
    )  # fmt: skip
    assert rules_in(capsys, file, "--fail-on", "off") == (0, everything)
    assert rules_in(capsys, file, "--select", "not-canonical") == (0, [])


def test_a_rule_that_is_off_can_be_selected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.ocm"
    file.write_text(CLEAN + "\n\n")
    assert rules_in(capsys, str(file)) == (0, [])
    assert rules_in(capsys, str(file), "--select", "not-canonical") == (0, [("not-canonical", "info")])


def test_fix_mends_in_place_and_reports_the_rest(ugly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = output(capsys, "--fix", str(ugly))
    assert code == 1
    assert ugly.read_text("utf-8") == whole(
        "<|start|>assistant<|channel|>analysis<|message|>Hi<|end|>\n<|start|>moderator<|message|>é<|end|>\n"
    )
    assert printed.splitlines()[-1] == "1 file: 1 error"
    assert "[role-unknown]" in printed
    before = ugly.stat().st_mtime_ns
    output(capsys, "--fix", str(ugly))
    assert ugly.stat().st_mtime_ns == before


def test_the_fixes_in_the_json_are_edits_of_the_text(ugly: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, printed = output(capsys, str(ugly), "--select", "role-unknown,channel-unknown", "--json")
    [file] = json.loads(printed)["files"]
    edits = [Edit(**finding["fix"]) for finding in file["findings"] if finding["fix"]]
    assert edited(UGLY, edits) == UGLY.replace("asistant", "assistant")  # One fix a frame.
    [role, channel, other] = file["findings"]
    assert (role["line"], role["column"], role["end_line"], role["end_column"]) == (2, 10, 2, 18)
    assert (channel["code"], other["fix"]) == ("E-PARSE-HEADER", None)


def test_harmony_is_linted_by_its_incidents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.harmony"
    file.write_text("<|start|>user<|message|>Hi<|end|>stray<|start|>assistant<|message|>a<|return|>")
    harmony = (str(tmp_path), "--from", "harmony")
    assert rules_in(capsys, *harmony) == (1, [("stray-text", "error")])
    assert rules_in(capsys, *harmony, "--level", "stray-*=warning") == (0, [("stray-text", "warning")])
    assert rules_in(capsys, *harmony, "--ignore", "stray-text") == (0, [])
    assert run(["lint", *harmony, "--fix"]) == 2


def test_standard_input_is_mended_to_standard_output(tmp_path: Path) -> None:
    done = antiphon("lint", "--fix", "-", home=tmp_path, stdin=UGLY)
    assert (done.returncode, done.stdout.count("assistant"), done.stdout.count("analysis")) == (1, 1, 1)
    assert "moderator" in done.stderr


def test_the_rules_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = output(capsys, "--rules", "--json", "--level", "head-order=error")
    listed = {rule["name"]: rule for rule in json.loads(printed)["rules"]}
    assert code == 0
    assert list(listed) == list(RULES)
    assert listed["head-order"]["level"] == "error"
    assert {rule["fixable"] for rule in listed.values()} == {True, False}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--select", "role-unkown", "x"], "Did you mean role-unknown"),
        (["--level", "head-order=fatal", "x"], "head-order=error|warning|info|off"),
        (["--from", "chat", "x"], "openchatml or harmony"),
        ([], "A file, a folder"),
        (["-", "--fix", "--json"], "where the report would go"),
        (["--output", "sarif", "x"], "No such option"),
    ],
)
def test_wrong_usage_is_refused(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", *arguments]) == 2
    assert said in capsys.readouterr().err
