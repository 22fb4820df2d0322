"""Tests that several processes run are each run once, and none is lost with its process."""

from __future__ import annotations

import pytest

from kit.parallel import Several

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12: a library has threads.
CASES = """
import os, pytest, sys

KEPT = sys.stderr

@pytest.mark.parametrize("n", range(80))
def test_fine(n, tmp_path):
    (tmp_path / "a").touch()

def test_wrong():
    print("what", "it", "printed")
    print("to", "a", "stream", "kept", file=KEPT)
    assert 1 == 2

def test_left_out():
    pytest.skip("a reason")
"""


STUCK = """
import pytest, threading

@pytest.fixture
def stuck():
    yield
    threading.Event().wait()

def test_stuck(stuck):
    assert 1 == 2
"""


def run(pytester: pytest.Pytester, silent: float = 600.0, **files: str) -> pytest.RunResult:
    pytester.makepyfile(**files)
    several = Several(2, whole_files=False, silent=silent)
    return pytester.runpytest_inprocess("-rs", "-p", "no:randomly", "-p", "no:asyncio", plugins=[several])


def test_each_is_run_once_and_its_result_told(pytester: pytest.Pytester) -> None:
    result = run(pytester, test_a=CASES, test_b=CASES)
    result.assert_outcomes(passed=160, failed=2, skipped=2)
    result.stdout.fnmatch_lines(["*a reason*"])
    assert [result.stdout.str().count(text) for text in ("what it printed", "to a stream kept")] == [2, 2]


def test_what_a_process_takes_with_it_has_failed_and_the_others_are_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, test_a=CASES, test_b="import os\n\ndef test_deadly():\n    os._exit(3)")
    outcomes = result.parseoutcomes()
    assert (sum(outcomes.values()), outcomes["skipped"]) == (83, 1)
    result.stdout.fnmatch_lines(["*test_deadly*", "its process ended before it did"])


def test_a_process_that_no_timeout_reaches_is_ended_and_its_test_has_failed(pytester: pytest.Pytester) -> None:
    result = run(pytester, silent=10.0, test_a=CASES, test_b=STUCK)
    assert result.parseoutcomes()["passed"] == 80
    result.stdout.fnmatch_lines(["*test_stuck*", "its process ended before it did"])


def test_a_test_of_no_file_that_can_be_imported_stops_the_run(pytester: pytest.Pytester) -> None:
    run(pytester, test_a=CASES, test_b="import nothing").assert_outcomes(errors=1)
