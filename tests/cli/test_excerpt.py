"""The line of the source under an error, in `validate`, `convert` and `parse`; several files; other forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.app import run
from antiphon.cli.excerpt import REMEMBERED, RecentText, excerpt
from antiphon.errors import Position

HEAD = 'version: "2.2"\n'
TYPO = f"{HEAD}<|start|>asistant<|message|>Hello<|end|>\n"
GOOD = f"{HEAD}<|start|>user<|message|>Hi<|end|>\n"
DOUBTFUL = f"{HEAD}<|start|>assistant<|channel|>analysis<|message|>Hm<|end|>\n"
HARMONY = "<|start|>user<|message|>Hi<|end|>"
MARKED = ["    2 | <|start|>asistant<|message|>Hello<|end|>", "      |          ^^^^^^^^"]


def under(text: str, word: str, line: int = 1) -> tuple[str, str]:
    """The two lines of an excerpt about ``word``."""
    at = text.index(word)
    source, carets = excerpt(text, at, at + len(word), line).split("\n")
    return source, carets


@pytest.mark.parametrize("before", ["", "a ", "\t", "日本", "e\u0301", "x" * 59, "x" * 200, "\x1b[2J", "\r", "\udc80"])
@pytest.mark.parametrize("behind", ["", " b", "y" * 300, "\n next", "日" * 90])
def test_the_carets_are_under_the_place(before: str, behind: str) -> None:
    source, carets = under(f"first\n{before}WORD{behind}", "WORD", 2)
    assert carets.strip(" |") == "^^^^"
    wide = sum(character in "日本" for character in source[: source.index("WORD")])
    marks = source[: source.index("WORD")].count("\u0301")
    assert carets.index("^") == source.index("WORD") + wide - marks
    assert source.startswith("    2 | ")
    assert len(source) <= 140
    assert not any(character < " " or character in "\x1b\udc80" for character in source)


def test_a_place_at_the_end_of_a_line_has_one_caret() -> None:
    assert excerpt("ab", 2, 2, 7) == "    7 | ab\n      |   ^"


def test_a_source_in_parts_is_remembered_as_far_as_it_fits() -> None:
    recent = RecentText()
    line = "0123456789" * 10 + "\n"
    text = line * (3 * REMEMBERED // len(line))
    parts = [text[start : start + 7919].encode() for start in range(0, len(text), 7919)]
    for _ in recent.watch(parts):
        pass
    assert recent.excerpt(Position(offset=0, line=1, column=1)) is None
    shown = recent.excerpt(Position(offset=len(text) - len(line) + 3, line=9, column=4))
    assert shown is not None
    assert shown.split("\n")[1].index("^") == 11
    assert recent.excerpt(Position(offset=len(text) + 1, line=9, column=1)) is None
    assert recent.excerpt(Position(path="$.messages")) is None


def test_every_command_shows_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.ocm"
    file.write_text(TYPO)
    assert run(["validate", str(file)]) == 1
    assert capsys.readouterr().out.splitlines()[1:3] == MARKED
    assert run(["convert", str(file), "--to", "chat"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "error: unknown role 'asistant' at 2:10  [E-PARSE-HEADER]"
    assert shown[1:3] == MARKED
    assert shown[3].startswith("  Did you mean assistant?")
    file.write_text("<|start|>user<|message|>Hi<|end|>\n<|start|>asistant<|message|>Hello<|end|>")
    assert run(["parse", str(file), "--from", "harmony", "--whole", "--strict"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert "1:34" in shown[0]
    assert shown[2] == " " * 6 + "|" + " " * 34 + "^"
    file.write_text("<|start|>assistant<|message|>Hi<|end|>stray<|start|>assistant<|message|>a<|return|>")
    assert run(["parse", str(file), "--from", "harmony", "--whole"]) == 0
    assert "^" * len("<|start|>") in capsys.readouterr().out


def test_programs_get_no_excerpt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.ocm"
    file.write_text(TYPO)
    assert run(["convert", str(file), "--to", "chat", "--json"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert json.loads(line)["error"]["position"] == "2:10"


def test_warnings_are_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.ocm"
    file.write_text(DOUBTFUL)
    assert run(["validate", str(file), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], report["errors"]) == (True, [])
    [warning] = report["warnings"]
    assert (warning["code"], warning["line"]) == ("E-STREAM-TRUNCATED", 3)


def test_several_files_and_folders_are_checked_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "talks"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    good, typo, other = folder / "a.ocm", folder / "deep" / "b.openchatml", tmp_path / "c.txt"
    good.write_text(GOOD)
    typo.write_text(TYPO)
    other.write_text(DOUBTFUL)
    (folder / "notes.md").write_text("no transcript")
    (folder / ".hidden" / "x.ocm").write_text("no transcript")
    assert run(["validate", str(folder), str(other), str(good)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith(str(tmp_path)) and "  " not in line] == [
        f"{good}: valid",
        f"{typo}: 1 error",
        f"{other}: valid",
    ]
    assert f"{typo}:2:10  E-PARSE-HEADER  unknown role 'asistant'" in out
    assert run(["validate", str(folder), str(other), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["valid"] is False
    assert [(Path(one["file"]).name, one["valid"], len(one["errors"])) for one in report["files"]] == [
        ("a.ocm", True, 0),
        ("b.openchatml", False, 1),
        ("c.txt", True, 0),
    ]
    assert run(["validate", str(folder / ".hidden" / "..")]) == 1
    assert run(["validate", str(tmp_path), "--from", "harmony"]) == 2
    assert "no *.harmony is in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "text", "place", "code"),
    [
        ("harmony", f"{HARMONY}\n\n<|start|>user<|channel|>odd<|message|>x<|end|>", "3:28", "unknown-channel"),
        ("chat", '{"messages": [{"role": "user", "content": 5}]}', "messages[0].content", "wrong_value"),
    ],
)
def test_other_forms_are_checked_too(
    form: str, text: str, place: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "talk"
    file.write_text(text)
    assert run(["validate", str(file), "--from", form]) == 1
    assert any(line.startswith(f"{place}  {code}  ") for line in capsys.readouterr().out.splitlines())


def test_a_valid_text_of_another_form_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk"
    file.write_text("<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>\n")
    assert run(["validate", str(file), "--from", "harmony"]) == 0
    assert run(["validate", str(file), "--from", "harmony", "--fragment"]) == 2
    assert run(["validate", str(file), "--from", "harmonium"]) == 2
    assert "--fragment are for OpenChatML" in capsys.readouterr().err
