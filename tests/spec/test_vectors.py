"""The suites of Harmony and of reply formats: what they hold, and their demands by the oracles again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from antiphon.cli.conformance import Suite, by_lines, load, shipped
from antiphon.formats.conformance import Case, Level, run_conformance
from kit.harmony_oracles import oracle
from spec.citations import ROOT, defined
from spec.draw_harmony import draw as draw_harmony
from spec.draw_harmony import parsed, pieces, rendered
from spec.draw_replies import FAMILY, Family, expected
from spec.draw_replies import draw as draw_replies
from spec.manifest import requirements
from spec.vectors import Cases, counts, index, read_topics, text_of

FAMILIES = {family.name: family for family in FAMILY}


def cases(suite: Suite, *topics: str) -> Iterator[tuple[Case, dict[str, Any], dict[str, Any]]]:
    """(case, request, demand) of the first level."""
    for case in load(shipped(suite)):
        if case.topic in topics and Level.SPECIFICATION in case.demands:
            yield case, json.loads(case.input), dict(case.demands[Level.SPECIFICATION])


@pytest.mark.parametrize("suite", Suite)
def test_the_index_counts_the_cases_and_names_the_licence(suite: Suite) -> None:
    folder, clauses = shipped(suite), requirements()
    told = json.loads((folder / "index.json").read_text("utf-8"))
    topics = read_topics(folder)
    assert told == index(suite, told["title"], topics, clauses | told["clauses"])
    assert (told["license"], told["protocol"]) == ("Apache-2.0", 1)
    assert all(clauses.get(clause, sentence) == sentence for clause, sentence in told["clauses"].items())
    assert {clause for cases in topics.values() for case in cases for clause in case["clauses"]} == set(told["clauses"])
    assert sum(counts(cases)["cases"] for cases in topics.values()) == len(load(folder))


@pytest.mark.parametrize("suite", Suite)
def test_ids_are_unique_and_choices_cite_a_decision(suite: Suite) -> None:
    found, known = load(shipped(suite)), defined(ROOT)
    assert len({case.id for case in found}) == len(found)
    for case in found:
        assert set(case.decisions) <= known, case.id
        assert bool(case.decisions) == (Level.CHOICES in case.demands) or suite is Suite.REPLIES, case.id


def test_the_suites_are_as_large_as_the_page_says_and_small_enough_to_ship() -> None:
    assert len(load(shipped(Suite.HARMONY))) >= 300
    kinds: dict[str, dict[str, int]] = {}
    for case in load(shipped(Suite.REPLIES)):
        family = kinds.setdefault(json.loads(case.input)["family"], {})
        family[case.topic] = family.get(case.topic, 0) + 1
    assert len(kinds) >= 25
    assert all(row["render"] >= 2 and row["parse"] >= 4 and row["admits"] >= 2 for row in kinds.values())
    assert sum(file.stat().st_size for suite in Suite for file in shipped(suite).glob("*.json")) <= 1_500_000


@pytest.mark.parametrize(("suite", "draw"), [(Suite.HARMONY, draw_harmony), (Suite.REPLIES, draw_replies)])
def test_the_files_are_what_is_drawn(suite: Suite, draw: Callable[[], Cases]) -> None:
    """And so no demand is changed by hand."""
    assert read_topics(shipped(suite)) == json.loads(json.dumps(draw().topics))


def test_prompts_of_harmony_are_what_the_reference_renders() -> None:
    for case, request, demand in cases(Suite.HARMONY, "render", "tokens"):
        ids = rendered(request)
        assert demand in ({"ids": ids}, {"pieces": pieces(ids)}), case.id


def test_replies_of_harmony_are_what_the_reference_reads() -> None:
    for case, request, demand in cases(Suite.HARMONY, "parse", "stream"):
        assert demand == {"messages": parsed(request["reply"])}, case.id


def chosen(level: Level, *topics: str) -> list[Case]:
    """Each fifth stream, at all of its cuts, stands for the others."""
    found = [replace(case, demands={level: case.demands[level]}) for case in load(shipped(Suite.HARMONY))
             if case.topic in topics and level in case.demands]  # fmt: skip
    left = {case.id for i, case in enumerate(case for case in found if case.topic == "stream") if i % 5}
    return [replace(case, streamed=case.streamed and case.id not in left) for case in found]


def test_the_reference_as_another_program_meets_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the program beside the suite."""
    oracle("a", tmp_path)
    monkeypatch.setenv("TIKTOKEN_ENCODINGS_BASE", str(tmp_path))
    program = [sys.executable, str(shipped(Suite.HARMONY) / "example_answers.py")]
    with by_lines(program, Suite.HARMONY) as reference:
        valid, malformed = (
            [outcome.passed for outcome in run_conformance(cases, reference)]
            for cases in (
                chosen(Level.SPECIFICATION, "render", "tokens", "parse", "stream"),
                chosen(Level.DIAGNOSTICS, "parse"),
            )
        )
    assert (sum(valid), len(valid), sum(malformed), len(malformed)) == (255, 255, 6, 22)
    page = (ROOT / "docs" / "internals" / "conformance.md").read_text("utf-8")
    assert "255 of the 255 demands" in page
    assert "6 of 22 on malformed replies" in page


_CALL = re.compile(r".*to=functions\.forecast\b.*<\|message\|>(.*?)<\|call\|>", re.DOTALL)


def test_calls_of_harmony_are_admitted_where_their_arguments_fit_the_schema() -> None:
    compared = set()
    for case, request, demand in cases(Suite.HARMONY, "admits"):
        call = _CALL.fullmatch(text_of(request["reply"]))
        if call is None or "tools" not in request or request.get("tool_choice", "auto") not in ("auto", "required"):
            continue
        schema = request["tools"][0]["function"]["parameters"]
        try:
            fits = jsonschema_rs.is_valid(schema, json.loads(call[1]))
        except ValueError:
            fits = False
        assert demand["admits"] == ("yes" if fits else "no"), case.id
        compared.add(fits)
    assert compared == {True, False}


def family_of(request: dict[str, Any]) -> Family:
    return Family(request["family"], request["template"])


def test_prompts_of_templates_are_what_jinja_writes() -> None:
    for case, request, demand in cases(Suite.REPLIES, "render"):
        assert demand == {"text": family_of(request).text(request["messages"])}, case.id


def test_replies_of_templates_are_what_jinja_writes_of_the_message_that_is_to_be_read() -> None:
    """A demand as a message of a chat, rendered: the reply, but for its calls' ids."""
    for case, request, demand in cases(Suite.REPLIES, "parse", "stream"):
        message = {"role": "assistant", **{name: value or "" for name, value in demand["message"].items()}}
        ids = re.findall(r"functions\.\w+:\d|call\d{5}", text_of(request["reply"])) or ["0", "1"]
        calls = [
            {"id": id, "type": "function", "function": call["function"] | {"arguments": arguments(call)}}
            for id, call in zip(ids, message["tool_calls"] or (), strict=False)
        ]
        written = {**message, "tool_calls": calls}
        assert family_of(request).reply(written) == request["reply"], case.id
        assert expected(written) == demand["message"], case.id


def arguments(call: dict[str, Any]) -> str:
    return json.dumps(call["function"]["arguments"], ensure_ascii=False)


def test_templates_of_the_suite_are_those_of_our_own_tests() -> None:
    shared = json.loads((shipped(Suite.REPLIES) / "shared.json").read_text("utf-8"))
    templates = {part["family"]: part["template"] for part in shared.values() if "template" in part}
    assert templates == {name: family.template for name, family in FAMILIES.items()}
