"""The compliance suite: each case of the data files, by our own reader; and the runner on others' readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.formats.openchatml.conformance import Case, check, read_cases, run_conformance
from kit.openchatml_clauses import PAGE, page, table

SUITE = Path(__file__).parents[2] / "spec" / "openchatml"


def cases(name: str) -> list[Case]:
    return list(read_cases(json.loads((SUITE / f"{name}.json").read_text("utf-8"))))


def verdict(case: Case) -> str | None:
    [outcome] = run_conformance([case], check)
    return outcome.problem


@pytest.mark.spec(
    "OCM-35",
    "OCM-36",
    "OCM-54",
    "OCM-57",
    "OCM-68",
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
    assert verdict(case) is None


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
    assert verdict(case) is None


@pytest.mark.spec(
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
    "OCM-133",
)
@pytest.mark.parametrize("case", cases("header"), ids=lambda case: case.id)
def test_headers(case: Case) -> None:
    assert verdict(case) is None


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
    assert verdict(case) is None


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
    assert verdict(case) is None


@pytest.mark.spec(
    "OCM-20", "OCM-22", "OCM-29", "OCM-53", "OCM-54", "OCM-59", "OCM-118", "OCM-134", "OCM-144", "OCM-164"
)
@pytest.mark.parametrize("case", cases("channels"), ids=lambda case: case.id)
def test_channels(case: Case) -> None:
    assert verdict(case) is None


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
    "OCM-87",
    "OCM-88",
    "OCM-94",
    "OCM-96",
    "OCM-97",
    "OCM-98",
    "OCM-120",
    "OCM-126",
    "OCM-135",
    "OCM-136",
    "OCM-162",
)
@pytest.mark.parametrize("case", cases("tools"), ids=lambda case: case.id)
def test_calls_and_replies(case: Case) -> None:
    assert verdict(case) is None


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
)
@pytest.mark.parametrize("case", cases("frames"), ids=lambda case: case.id)
def test_frames_streams_and_versions(case: Case) -> None:
    assert verdict(case) is None


def test_the_suite_has_at_least_150_cases_with_unique_names() -> None:
    ids = [case.id for path in SUITE.glob("*.json") for case in cases(path.stem)]
    assert len(ids) == len(set(ids)) >= 150


def test_each_case_names_the_clauses_that_its_file_is_marked_with() -> None:
    source = Path(__file__).read_text("utf-8")
    named = {clause for path in SUITE.glob("*.json") for case in cases(path.stem) for clause in case.clauses}
    assert {clause for clause in named if f'"{clause}"' not in source} == set()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"valid": True, "errors": []}, "says valid=True"),
        ({"valid": False, "errors": [{"code": "E-CALL-SCHEMA", "line": 1, "column": 1}]}, "reports"),
        ({"valid": False, "errors": [{"code": "E-PARSE-HEADER", "line": 1, "column": 1}], "messages": []}, "reads 0"),
        ("yes", "gave no JSON object"),
    ],
)
def test_the_runner_tells_what_another_implementation_does_otherwise(answer: Any, problem: str) -> None:
    case = next(case for case in cases("header") if case.id == "header-missing")
    [outcome] = run_conformance([case], lambda transcript, flags: answer)
    assert not outcome.passed
    assert (outcome.problem or "").startswith(problem)


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
    }


def test_the_pages_table_names_a_test_for_each_clause() -> None:
    assert PAGE.read_text("utf-8") == page(), "write it anew: python tests/kit/openchatml_clauses.py"
    assert "|  |" not in table()
