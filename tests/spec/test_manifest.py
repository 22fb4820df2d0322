"""The marks of the tests name real requirements, and no requirement of a complete family lacks a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from spec.manifest import COMPLETE, marks, pinned, requirements, untested

TESTS = Path(__file__).parent.parent


def test_every_mark_names_a_requirement_that_exists() -> None:
    known = set(requirements())
    unknown = {clause: where for clause, where in pinned(TESTS).items() if clause not in known}
    assert not unknown


@pytest.mark.parametrize("family", COMPLETE)
def test_every_requirement_of_a_complete_family_has_a_test(family: str) -> None:
    assert untested(family, pinned(TESTS)) == []


def test_the_requirements_are_unique_and_sorted() -> None:
    assert requirements() == sorted(set(requirements()))
    assert {clause.partition("-")[0] for clause in requirements()} == {"HAR", "OCM", "DBX", "LMD", "MIE"}


def test_marks_are_found_on_tests_modules_classes_and_cases() -> None:
    source = """
pytestmark = pytest.mark.spec("A-1")

@pytest.mark.spec("A-2", "A-3")
def test_a(): ...

class TestB:
    @pytest.mark.spec("A-4")
    async def test_b(self): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.spec("A-5"))])
def test_c(x): ...

def test_d():
    other.spec("A-6")
"""
    found = list(marks(ast.parse(source)))
    assert found == [("*", "A-1"), ("test_a", "A-2"), ("test_a", "A-3"), ("TestB", "A-4"), ("test_c", "A-5")]


def test_a_clause_that_is_computed_is_refused() -> None:
    with pytest.raises(TypeError, match="line 1"):
        list(marks(ast.parse("@pytest.mark.spec(*NAMES)\ndef test(): ...")))
