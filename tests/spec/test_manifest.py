"""The marks of the tests name real requirements, and no requirement of a complete family lacks a test."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from spec.manifest import COMPLETE, entries_of, marks, pinned, requirements, untested

TESTS = Path(__file__).parent.parent
LAST = {"HAR": 109, "OCM": 170, "DBX": 116, "LMD": 59, "MIE": 59}
"""The number of the last requirement of each family."""


@cache
def clauses() -> dict[str, list[str]]:
    return pinned(TESTS)


def test_every_mark_names_a_requirement_that_exists() -> None:
    known = set(requirements())
    unknown = {clause: where for clause, where in clauses().items() if clause not in known}
    assert not unknown


@pytest.mark.parametrize("family", COMPLETE)
def test_every_requirement_of_a_complete_family_has_a_test(family: str) -> None:
    assert untested(family, clauses()) == []


def test_the_requirements_of_a_family_are_numbered_without_a_gap() -> None:
    known = list(requirements())
    numbered = [f"{family}-{n:02}" for family, last in LAST.items() for n in range(1, last + 1)]
    assert known == numbered


def test_every_requirement_has_a_sentence_of_its_own() -> None:
    sentences = requirements().values()
    assert [sentence for sentence in sentences if not sentence.endswith(".") or len(sentence.split()) < 4] == []
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("line", ["HAR-01 one blank", "har-01  small", "words", "HAR-01  "])
def test_a_line_that_is_no_requirement_is_refused_with_its_place(line: str, tmp_path: Path) -> None:
    page = tmp_path / "some.txt"
    page.write_text(f"# Heading\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match=r"some\.txt:2"):
        list(entries_of(page))


def test_marks_are_found_on_tests_modules_classes_and_cases() -> None:
    source = """
pytestmark = pytest.mark.spec("ONE")

@pytest.mark.spec("TWO", "THREE")
def test_a(): ...

class TestB:
    @pytest.mark.spec("FOUR")
    async def test_b(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("FIVE"))])
def test_c(x): ...

def test_d():
    other.spec("SIX")
"""
    found = list(marks(ast.parse(source)))
    assert found == [("*", "ONE"), ("test_a", "TWO"), ("test_a", "THREE"), ("TestB", "FOUR"), ("test_c", "FIVE")]


def test_a_clause_that_is_computed_is_refused() -> None:
    with pytest.raises(TypeError, match="line 1"):
        list(marks(ast.parse("@pytest.mark.spec(*NAMES)\ndef test(): ...")))
