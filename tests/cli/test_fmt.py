"""`antiphon fmt` as a user has it: in place, in folders, `--check`, `--diff`, standard input, Harmony."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from antiphon.cli.app import run
from kit.program import in_process as antiphon

UGLY = "version: 2.2\n<|start|>user  name=a<|message|>Hi <|literal|>\udc80<|endliteral|><|end|>"
CANONICAL = '---\nversion: "2.2"\n---\n<|start|>user name=a<|message|>Hi <|literal|>\udc80<|endliteral|><|end|>\n'
INVALID = 'version: "2.2"\n<|start|>usr<|message|>Hi<|end|>'


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return file


def content(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogateescape")


def test_files_and_folders_are_written_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ugly, other = write(tmp_path / "talks" / "a.ocm", UGLY), write(tmp_path / "other.txt", UGLY)
    done = write(tmp_path / "talks" / "deep" / "b.openchatml", CANONICAL)
    ugly.chmod(0o640)
    link = tmp_path / "link.ocm"
    link.symlink_to(other)
    before = done.stat().st_mtime_ns
    assert run(["fmt", str(tmp_path / "talks"), str(link)]) == 0
    assert [content(file) for file in (ugly, other, done)] == [CANONICAL] * 3
    assert capsys.readouterr().out.splitlines() == [f"formatted {ugly}", f"formatted {link}"]
    assert (ugly.stat().st_mode & 0o777, link.is_symlink(), done.stat().st_mtime_ns) == (0o640, True, before)
    assert run(["fmt", str(tmp_path / "talks"), str(link), "--check"]) == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.ocm", "other.txt", "talks"]


def test_check_changes_nothing_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ugly, done = write(tmp_path / "a.ocm", UGLY), write(tmp_path / "b.ocm", CANONICAL)
    assert run(["fmt", "--check", str(ugly), str(done)]) == 1
    assert capsys.readouterr().out == f"would format {ugly}\n"
    assert content(ugly) == UGLY
    assert run(["fmt", "--check", "--json", str(tmp_path)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [one["changed"] for one in report["files"]] == [True, False]


def test_a_diff_is_what_patch_takes(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    ugly = write(tmp_path / "a.ocm", UGLY)
    assert run(["fmt", "--diff", str(ugly)]) == 1
    diff = capsysbinary.readouterr().out
    assert content(ugly) == UGLY
    subprocess.run(["git", "apply", "-p0", "--unsafe-paths", "--directory", "/", "-"], input=diff, check=True, cwd="/")
    assert content(ugly) == CANONICAL
    assert run(["fmt", "--diff", str(ugly)]) == 0
    assert capsysbinary.readouterr().out == b""


def test_an_invalid_file_stays_as_it_is_and_the_others_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, ugly = write(tmp_path / "a.ocm", INVALID), write(tmp_path / "b.ocm", UGLY)
    assert run(["fmt", str(tmp_path)]) == 1
    assert (content(bad), content(ugly)) == (INVALID, CANONICAL)
    shown = capsys.readouterr()
    assert shown.out == f"formatted {ugly}\n"
    assert shown.err.splitlines()[:4] == [
        f"{bad}: not valid, left as it is",
        "error: unknown role 'usr' at 2:10  [E-PARSE-HEADER]",
        "    2 | <|start|>usr<|message|>Hi<|end|>",
        "      |          ^^^",
    ]
    assert run(["fmt", str(tmp_path), "--json"]) == 1
    [error] = [one["error"] for one in json.loads(capsys.readouterr().out)["files"] if "error" in one]
    assert (error["code"], error["position"]) == ("E-PARSE-HEADER", "2:10")


def test_standard_input_goes_to_standard_output(tmp_path: Path) -> None:
    raw = "<|literal|>\udc80<|endliteral|>"
    done = antiphon("fmt", "-", home=tmp_path, stdin=UGLY.replace(raw, "é"))
    assert (done.returncode, done.stdout, done.stderr) == (0, CANONICAL.replace(raw, "é"), "")


def test_harmony_has_a_canonical_form_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = "<|start|>assistant<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}<|call|>"
    ugly = f"<|start|>user<|message|>Hi<|end|>{call}"
    file = write(tmp_path / "a.harmony", ugly)
    assert run(["fmt", "--from", "harmony", str(tmp_path)]) == 0
    formatted = content(file)
    assert formatted != ugly
    assert run(["fmt", "--from", "harmony", "--check", str(file)]) == 0
    assert run(["validate", "--from", "harmony", str(file)]) == 0
    capsys.readouterr()
    write(file, "<|start|>user<|message|>Hi<|end|>stray")
    assert run(["fmt", "--from", "harmony", str(file)]) == 1
    assert "stray-text" in capsys.readouterr().err


def test_wrong_usage_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fmt", "--from", "chat", str(tmp_path)]) == 2
    assert run(["fmt", "-", "--json"]) == 2
    assert run(["fmt", str(tmp_path)]) == 2
    assert run(["fmt", str(tmp_path / "none.ocm")]) == 2
    assert "Add --check" in capsys.readouterr().err
