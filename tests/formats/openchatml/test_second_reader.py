"""The second reader, in JavaScript: its own tests, the whole suite, and the agreement of both readers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.conformance import load, shipped
from antiphon.formats.openchatml import Implementation, check, run_conformance
from fuzz.openchatml_readers import compare
from kit.javascript import FOLDER, NODE, second_reader
from kit.program import in_process


@pytest.fixture(scope="module")
def other() -> Iterator[Implementation]:
    with second_reader() as implementation:
        yield implementation


def test_its_own_tests_pass() -> None:
    done = subprocess.run([NODE, "--test"], cwd=FOLDER, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout
    assert "fail 0" in done.stdout


def test_who_installs_it_installs_nothing_else_and_it_imports_nothing_but_itself() -> None:
    package = json.loads((FOLDER / "package.json").read_text("utf-8"))
    assert {key for key in package if "ependencies" in key} == {"devDependencies"}
    sources = [line for path in FOLDER.glob("*.js") for line in path.read_text("utf-8").splitlines()]
    imported = {line.split(' from "')[1].rstrip('";') for line in sources if ' from "' in line}
    assert {name for name in imported if not name.startswith("./")} == {"node:readline", "node:stream/consumers"}


def test_it_passes_all_three_levels(other: Implementation) -> None:
    outcomes = list(run_conformance(load(shipped()), other))
    assert {outcome.case.id: outcome.problem for outcome in outcomes if not outcome.passed} == {}
    assert len(outcomes) >= 480


def test_the_command_prints_its_table(tmp_path: Path) -> None:
    words = ("--level", "1", "--only", "16.", "--", NODE, str(FOLDER / "conformance.js"))
    done = in_process("conformance", *words, home=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "4 of 4 demands met")


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_readers_agree_on_mutated_transcripts(other: Implementation, seed: int, tools: bool) -> None:
    found = compare(other, seed, count=200, tools=tools)
    assert found.difference is None
    assert found.valid >= 5


def test_a_difference_between_readers_is_found() -> None:
    """A reader that knows no escape."""

    def careless(transcript: bytes, flags: object) -> object:
        return check(transcript.replace(b"<<|", b"<|"), ["--fragment"])

    found = compare(careless, 1, count=2000)
    assert found.difference is not None
