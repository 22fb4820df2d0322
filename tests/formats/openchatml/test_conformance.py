"""The compliance suite: each case of the data files, by our own reader; and the runner on others' readers."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from antiphon.formats.conformance import Case, Level, difference, folded, read_cases, run_conformance
from antiphon.formats.openchatml.report import check
from kit.openchatml_clauses import table
from spec.citations import ROOT, defined
from spec.manifest import requirements

SUITE = Path(__file__).parents[2] / "spec" / "openchatml"
TOPICS = sorted(json.loads((SUITE / "index.json").read_text("utf-8"))["topics"])


def cases(topic: str) -> list[Case]:
    return list(read_cases(json.loads((SUITE / f"{topic}.json").read_text("utf-8")), topic))


def problems(case: Case) -> list[str | None]:
    return [outcome.problem for outcome in run_conformance([case], check) if not outcome.passed]


@pytest.mark.spec(
    "OCM-02",
    "OCM-03",
    "OCM-04",
    "OCM-28",
    "OCM-30",
    "OCM-35",
    "OCM-36",
    "OCM-54",
    "OCM-57",
    "OCM-68",
    "OCM-73",
    "OCM-81",
    "OCM-82",
    "OCM-83",
    "OCM-85",
    "OCM-151",
    "OCM-152",
    "OCM-153",
    "OCM-154",
)
@pytest.mark.parametrize("case", cases("examples"), ids=lambda case: case.id)
def test_the_worked_examples(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-06",
    "OCM-33",
    "OCM-35",
    "OCM-43",
    "OCM-47",
    "OCM-50",
    "OCM-52",
    "OCM-56",
    "OCM-70",
    "OCM-86",
    "OCM-87",
    "OCM-88",
    "OCM-90",
    "OCM-94",
    "OCM-113",
    "OCM-122",
    "OCM-124",
    "OCM-127",
    "OCM-131",
    "OCM-135",
    "OCM-137",
    "OCM-155",
    "OCM-156",
    "OCM-157",
    "OCM-158",
    "OCM-159",
    "OCM-160",
    "OCM-161",
    "OCM-162",
)
@pytest.mark.parametrize("case", cases("fixtures"), ids=lambda case: case.id)
def test_the_eight_fixtures(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-01",
    "OCM-08",
    "OCM-09",
    "OCM-10",
    "OCM-11",
    "OCM-12",
    "OCM-13",
    "OCM-14",
    "OCM-15",
    "OCM-16",
    "OCM-17",
    "OCM-18",
    "OCM-19",
    "OCM-20",
    "OCM-21",
    "OCM-22",
    "OCM-23",
    "OCM-24",
    "OCM-25",
    "OCM-26",
    "OCM-117",
    "OCM-133",
)
@pytest.mark.parametrize("case", cases("header"), ids=lambda case: case.id)
def test_headers(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-35",
    "OCM-36",
    "OCM-37",
    "OCM-61",
    "OCM-70",
    "OCM-71",
    "OCM-75",
    "OCM-76",
    "OCM-77",
    "OCM-139",
    "OCM-145",
    "OCM-149",
    "OCM-150",
)
@pytest.mark.parametrize("case", cases("tokens"), ids=lambda case: case.id)
def test_controls_and_escapes(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-39",
    "OCM-40",
    "OCM-41",
    "OCM-42",
    "OCM-43",
    "OCM-44",
    "OCM-46",
    "OCM-47",
    "OCM-58",
    "OCM-59",
    "OCM-60",
    "OCM-63",
    "OCM-64",
    "OCM-65",
    "OCM-66",
    "OCM-67",
    "OCM-68",
    "OCM-69",
    "OCM-70",
    "OCM-115",
    "OCM-121",
    "OCM-124",
    "OCM-133",
    "OCM-142",
    "OCM-143",
    "OCM-146",
    "OCM-147",
    "OCM-148",
    "OCM-149",
    "OCM-164",
)
@pytest.mark.parametrize("case", cases("heads"), ids=lambda case: case.id)
def test_roles_and_attributes(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-20",
    "OCM-22",
    "OCM-29",
    "OCM-53",
    "OCM-54",
    "OCM-59",
    "OCM-118",
    "OCM-134",
    "OCM-144",
    "OCM-164",
)
@pytest.mark.parametrize("case", cases("channels"), ids=lambda case: case.id)
def test_channels(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-24",
    "OCM-31",
    "OCM-32",
    "OCM-62",
    "OCM-63",
    "OCM-65",
    "OCM-67",
    "OCM-70",
    "OCM-72",
    "OCM-80",
    "OCM-83",
    "OCM-84",
    "OCM-87",
    "OCM-88",
    "OCM-94",
    "OCM-96",
    "OCM-97",
    "OCM-98",
    "OCM-113",
    "OCM-114",
    "OCM-119",
    "OCM-120",
    "OCM-125",
    "OCM-126",
    "OCM-135",
    "OCM-136",
    "OCM-138",
    "OCM-162",
)
@pytest.mark.parametrize("case", cases("tools"), ids=lambda case: case.id)
def test_calls_and_replies(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-15",
    "OCM-16",
    "OCM-17",
    "OCM-18",
    "OCM-33",
    "OCM-34",
    "OCM-37",
    "OCM-38",
    "OCM-105",
    "OCM-130",
    "OCM-131",
    "OCM-132",
    "OCM-133",
    "OCM-139",
    "OCM-149",
    "OCM-163",
)
@pytest.mark.parametrize("case", cases("frames"), ids=lambda case: case.id)
def test_frames_streams_and_versions(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-48",
    "OCM-49",
    "OCM-50",
    "OCM-51",
    "OCM-52",
    "OCM-54",
    "OCM-55",
    "OCM-56",
    "OCM-57",
    "OCM-68",
    "OCM-78",
    "OCM-112",
    "OCM-140",
    "OCM-144",
    "OCM-153",
    "OCM-165",
    "OCM-168",
)
@pytest.mark.parametrize("case", cases("display"), ids=lambda case: case.id)
def test_what_users_see(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-31",
    "OCM-106",
    "OCM-107",
    "OCM-108",
    "OCM-109",
    "OCM-110",
    "OCM-111",
)
@pytest.mark.parametrize("case", cases("projection"), ids=lambda case: case.id)
def test_the_projection(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-62",
    "OCM-63",
    "OCM-64",
    "OCM-65",
    "OCM-80",
    "OCM-86",
    "OCM-87",
    "OCM-88",
    "OCM-90",
    "OCM-91",
    "OCM-95",
    "OCM-96",
    "OCM-98",
    "OCM-99",
    "OCM-120",
    "OCM-121",
    "OCM-126",
    "OCM-162",
    "OCM-164",
    "OCM-166",
)
@pytest.mark.parametrize("case", cases("calls"), ids=lambda case: case.id)
def test_what_a_router_does(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-79",
    "OCM-80",
    "OCM-105",
    "OCM-128",
    "OCM-129",
)
@pytest.mark.parametrize("case", cases("resuming"), ids=lambda case: case.id)
def test_what_the_next_prompt_has(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-07",
    "OCM-116",
    "OCM-118",
    "OCM-119",
    "OCM-120",
    "OCM-122",
    "OCM-123",
    "OCM-124",
    "OCM-125",
    "OCM-126",
    "OCM-127",
    "OCM-169",
)
@pytest.mark.parametrize("case", cases("harmony"), ids=lambda case: case.id)
def test_what_harmony_gets(case: Case) -> None:
    assert problems(case) == []


@pytest.mark.spec(
    "OCM-03",
    "OCM-05",
    "OCM-33",
    "OCM-35",
    "OCM-37",
    "OCM-38",
    "OCM-57",
    "OCM-92",
    "OCM-100",
    "OCM-101",
    "OCM-102",
    "OCM-103",
    "OCM-104",
    "OCM-105",
    "OCM-116",
    "OCM-130",
    "OCM-139",
    "OCM-167",
    "OCM-168",
    "OCM-170",
)
@pytest.mark.parametrize("case", cases("streaming"), ids=lambda case: case.id)
def test_events_of_a_reply(case: Case) -> None:
    assert problems(case) == []


def every_case() -> list[Case]:
    return [case for topic in TOPICS for case in cases(topic)]


def test_names_are_unique() -> None:
    ids = [case.id for case in every_case()]
    assert len(ids) == len(set(ids)) >= 270


def test_each_case_names_the_clauses_that_its_file_is_marked_with() -> None:
    source = Path(__file__).read_text("utf-8")
    named = {clause for case in every_case() for clause in case.clauses}
    assert {clause for clause in named if f'"{clause}"' not in source} == set()


def test_each_requirement_has_a_case_or_a_reason() -> None:
    given = {
        line.partition("  ")[0]: line.partition("  ")[2]
        for line in (SUITE / "reasons.txt").read_text("utf-8").splitlines()
        if not line.startswith("#")
    }
    covered = {clause for case in every_case() for clause in case.clauses}
    asked = {clause for clause in requirements() if clause.startswith("OCM-")}
    assert (covered | set(given), covered & set(given)) == (asked, set())
    assert all(given.values())


def test_our_choices_cite_a_decision_and_the_specifications_demands_have_only_its_words() -> None:
    known = defined(ROOT)
    for case in every_case():
        assert set(case.decisions) <= known, case.id
        assert bool(case.decisions) == (Level.CHOICES in case.demands), case.id
        demand = json.dumps(case.demands.get(Level.SPECIFICATION, {}))
        assert not re.search(r'"(ocm|column|hint|message_id|seq|end_reason)"', demand), case.id


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"valid": True, "errors": []}, "valid is True"),
        ({"valid": False, "errors": [{"code": "E-CALL-SCHEMA", "line": 1, "column": 1}]}, "the first error.code is"),
        ({"valid": False}, "the first error is None"),
        ("yes", "gave no JSON object"),
    ],
)
def test_the_runner_tells_what_another_implementation_does_otherwise(answer: Any, problem: str) -> None:
    case = next(case for case in cases("header") if case.id == "header-missing")
    first, *_ = run_conformance([case], lambda transcript, flags: answer)
    assert not first.passed
    assert (first.problem or "").startswith(problem)


def test_columns_and_repairs_are_demanded_by_the_last_level_alone() -> None:
    case = next(case for case in cases("heads") if case.id == "role-unknown")
    report = {"valid": False, "errors": [{"code": "E-PARSE-HEADER", "line": 2}]}
    failed = [o.level for o in run_conformance([case], lambda transcript, flags: report) if not o.passed]
    assert failed == [Level.DIAGNOSTICS]


@cache
def checked(transcript: bytes, flags: tuple[str, ...]) -> Any:
    return check(transcript, flags)


def without(report: Any, key: str) -> Any:
    """The report of a reader that forgets one thing."""
    return {name: value for name, value in report.items() if name != key}


@pytest.mark.parametrize(
    "key", ["header", "frames", "projection", "shown", "resumed", "calls", "harmony", "events", "errors", "warnings"]
)
def test_a_reader_that_forgets_one_thing_does_not_pass(key: str) -> None:
    def forgetful(transcript: bytes, flags: Any) -> Any:
        return without(checked(transcript, tuple(flags)), key)

    failed = {outcome.level for outcome in run_conformance(every_case(), forgetful) if not outcome.passed}
    assert failed >= ({Level.DIAGNOSTICS} if key == "warnings" else {Level.SPECIFICATION})


def test_what_is_demanded_of_an_object_may_stand_among_more() -> None:
    assert difference({"frames": [{"role": "user", "to": None}]}, {"frames": [{"role": "user", "x": 1}]}) is None
    assert difference({"frames": [{"to": None}]}, {"frames": [{"to": "assistant"}]}) is not None
    assert difference({"frames": []}, {"frames": [{}]}) is not None
    assert difference({"header": {"a": 1}}, {"header": {"a": True}}) is not None


def test_deltas_may_be_cut_in_any_way_and_boundaries_are_hints() -> None:
    delta, flush = {"type": "response.delta", "message_id": "a"}, {"type": "response.delta.flush"}
    events = [{**delta, "delta": "x"}, {**delta, "delta": "y"}, flush, {**delta, "delta": "z"}]
    assert folded(events, flushes=False) == [{**delta, "delta": "xyz"}]
    assert folded(events, flushes=True) == [{**delta, "delta": "xy"}, flush, {**delta, "delta": "z"}]
    assert folded([{**delta, "delta": "x"}, {**delta, "delta": "y", "message_id": "b"}], flushes=True) != [
        {**delta, "delta": "xy"}
    ]


def test_an_implementation_that_raises_fails_that_case_and_no_other() -> None:
    def fragile(transcript: bytes, flags: Any) -> Any:
        if b"\xff" in transcript:
            raise UnicodeError("no")
        return check(transcript, flags)

    outcomes = list(run_conformance(cases("tokens"), fragile))
    assert {o.case.id for o in outcomes if not o.passed} == {
        "literal-any-bytes",
        "body-not-utf8",
        "body-not-utf8-twice",
        "body-not-utf8-on-line-3",
    }


def test_a_flag_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="--lax"):
        check(b"", ["--lax"])


def test_the_pages_table_names_a_test_for_each_clause() -> None:
    clauses = re.findall(r"^\| (OCM-\d+) \|.+\| [^|]+ \|$", table(), re.MULTILINE)
    assert clauses == [clause for clause in requirements() if clause.startswith("OCM-")]
