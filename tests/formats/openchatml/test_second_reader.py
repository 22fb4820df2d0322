"""The second reader, in JavaScript: its own tests, the whole suite, and the agreement of both readers."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    found = compare(other, seed, count=80, tools=tools)
    assert found.difference is None
    assert found.valid >= 5


TAGS = [*"!!<>a%-_,[]: \n{}|é#'", "%41", "%4", "%zz", "%80", "%c3%a9", "!!", "!<", "!e!", "x: "]


def test_both_readers_agree_on_what_is_wrong_with_a_tag_and_on_where_it_is(other: Implementation) -> None:
    rng = random.Random(1)
    for _ in range(300):
        text = f"---\na: {''.join(rng.choices(TAGS, k=rng.randint(1, 7)))}\n---\n".encode()
        report = other(text, [])
        assert isinstance(report, Mapping)
        assert places(report) == places(check(text)), text


@pytest.mark.parametrize(
    "header", ["a: {b: 1, b: 2}\na: 3", "a: {b: 1, b: 2}\nb: {b: 1, ? [c] : 2}", "a: 1\nb: [{c: 1, c: 1}]\nb: 2"]
)
def test_the_keys_of_a_mapping_are_looked_at_before_those_inside(other: Implementation, header: str) -> None:
    text = f"---\n{header}\n---\n".encode()
    report = other(text, [])
    assert isinstance(report, Mapping)
    assert places(report) == places(check(text))


@pytest.mark.parametrize("within", ["$defs", "definitions"])
@pytest.mark.parametrize(
    ("reference", "used"), [("http://example.com/x", False), ("other", False), ("#/nothing", True), ("", True)]
)
def test_a_schema_is_used_where_all_that_it_names_is_in_it(
    other: Implementation, within: str, reference: str, used: bool
) -> None:
    """What its definitions name is asked for where something names them."""
    tool = json.dumps({"name": "g", "parameters": {within: {"x": {"properties": {"a": {"$ref": reference}}}}}})
    call = '<|start|>assistant to=functions.g call_id=c<|channel|>commentary<|message|>{"a": 1}<|call|>\n'
    text = f"---\nversion: 2.2\n---\n<|start|>developer<|message|># Tools\n## functions\n{tool}<|end|>\n{call}".encode()
    for report in (other(text, ["--fragment"]), check(text, ["--fragment"])):
        assert isinstance(report, Mapping)
        assert [one["code"] for one in report["warnings"]] == ([] if used else ["E-CALL-SCHEMA"])


NONE = {"$ref": "#/nothing"}


@pytest.mark.parametrize(
    "schema",
    [
        *(
            {name: NONE}
            for name in ("then", "else", "if", "contentSchema", "not", "propertyNames", "contains", "items")
        ),
        *({"if": True, name: NONE} for name in ("then", "else")),
        {"if": NONE, "else": True},
        {"then": {"if": NONE, "then": NONE}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"then": NONE}}},
    ],
)
def test_both_readers_ask_for_what_a_schema_names_where_that_says_something(
    other: Implementation, schema: object
) -> None:
    tool = json.dumps({"name": "g", "parameters": schema})
    call = '<|start|>assistant to=functions.g call_id=c<|channel|>commentary<|message|>{"a": 1}<|call|>\n'
    text = f"---\nversion: 2.2\n---\n<|start|>developer<|message|># Tools\n## functions\n{tool}<|end|>\n{call}".encode()
    report = other(text, ["--fragment"])
    assert isinstance(report, Mapping)
    assert bool(report["warnings"]) is bool(check(text, ["--fragment"])["warnings"])


def places(report: Mapping[str, Any]) -> list[tuple[object, ...]]:
    return [tuple(one[key] for key in ("code", "line", "column", "message")) for one in report["errors"]]


def test_a_difference_between_readers_is_found() -> None:
    """A reader that knows no escape."""

    def careless(transcript: bytes, flags: object) -> object:
        return check(transcript.replace(b"<<|", b"<|"), ["--fragment"])

    found = compare(careless, 1, count=2000)
    assert found.difference is not None
