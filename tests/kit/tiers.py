"""Which tests are dear, by what they use, and what `make test` leaves to `make test-all`.

`make test` runs ``--part quick``: all that is cheap, a smoke of each kind that is dear, few examples of a property, and
of a grid of parameters each value once. ``--part rest`` is what that leaves out, and all examples of each property.
``--part measured`` is what would be quick if nothing were slow; it writes anew what is (`make slow`).
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

TESTS = Path(__file__).parents[1]
STARTS = frozenset({"subprocess", "multiprocessing", "pexpect", "antiphon.isolation", "antiphon.tools.python"})
"""Modules that start processes; so does one of the tests that imports one of them, or that names the interpreter."""
FIXTURES = {"postgres": "postgres", "smollm2_path": "model", "minilm_path": "model"}
"""The tier of tests that use a fixture, themselves or through another."""
TIERS = {
    "cheap": "loads no model, starts nothing and is quick",
    "model": "loads the weights of a model",
    "postgres": "asks a PostgreSQL server",
    "process": "is in a file that starts processes",
    "slow": "takes more than a twentieth of a second of processor time",
    "property": "draws its examples",
}
SMOKES = (
    "tests/api/test_real_model.py::test_greedy_it_knows_the_capital_of_france",
    "tests/cli/test_serve.py::test_the_server_answers_the_line_that_it_prints_and_ends_when_stopped",
    "tests/cli/test_engine_killed.py::test_a_killed_engine_costs_its_streams_and_nothing_else",
    "tests/tools/test_sandbox_walls.py::test_the_code_is_not_root_outside_either",
    "tests/store/test_postgres.py::test_a_write_under_a_lease_is_done_before_another_can_claim",
)
"""A model, a server, its engine killed, a sandbox and a database: one test of each."""
SLOW = 0.05
"""Seconds of processor time, in the mean of a function's cases, beyond which it is slow."""
MEASURED = Path(__file__).with_name("slow.txt")
"""The functions that are slow, as `make slow` measures them."""
_SMOKING = {TESTS.parent / smoke.partition("::")[0] for smoke in SMOKES}
FEW = 12
"""Examples of a property test, and cells of a grid, that are few."""
_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)
_NAME = re.compile(r"\w+")


def tiers_of(item: pytest.Item) -> Iterator[str]:
    """The tiers of a test: none for a cheap one."""
    yield from {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    if starts_processes(item.path):
        yield "process"
    if function_of(item) in slow_functions():
        yield "slow"
    if is_hypothesis_test(getattr(item, "function", None)):
        yield "property"


def function_of(item: pytest.Item) -> str:
    """The test's name without its parameters."""
    return item.nodeid.partition("[")[0]


@cache
def slow_functions() -> frozenset[str]:
    """The functions that were slow when they were measured."""
    return frozenset(MEASURED.read_text("utf-8").split())


class Measuring:
    """Writes anew which functions are slow, from the processor time of each test that runs."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        try:
            return (yield)
        finally:
            item.user_properties.append(("processor", time.process_time() - began))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            took = [seconds for name, seconds in report.user_properties if name == "processor"]
            self._seconds.setdefault(report.nodeid.partition("[")[0], []).extend(map(float, map(str, took)))

    def pytest_sessionfinish(self) -> None:
        slow = [name for name, took in self._seconds.items() if took and sum(took) / len(took) > SLOW]
        MEASURED.write_text("".join(f"{name}\n" for name in sorted(slow)), "utf-8")


def is_left_out(file: Path) -> bool:
    """Whether ``--part quick`` has nothing of a file, which starts processes, and of which no test is a smoke."""
    is_test = file.suffix == ".py" and file.name.startswith("test_")
    return is_test and file not in _SMOKING and starts_processes(file)


def left_out(items: Sequence[pytest.Item], *, measured: bool = False) -> dict[pytest.Item, str]:
    """The marked tests that ``--part quick`` leaves out, and why; not those that are only slow, to be ``measured``."""
    kinds = ("postgres", "model", "process") if measured else ("postgres", "model", "process", "slow")
    left: dict[pytest.Item, str] = {}
    of: dict[str, list[pytest.Item]] = {}
    for item in items:
        of.setdefault(function_of(item), []).append(item)
    for function, several in of.items():
        cases = sorted(several, key=_number)  # Other plugins may have shuffled them.
        dear = [name for name in kinds if cases[0].get_closest_marker(name)]
        if dear and function not in SMOKES:
            left |= dict.fromkeys(cases, f"that {TIERS[dear[0]]}")
        elif not dear and len(cases) > FEW:
            left |= dict.fromkeys(_off_diagonal(cases), "of a grid of parameters, of which each value had a test")
        if not dear and _seed(cases[0]) is not None:
            left |= dict.fromkeys([case for case in cases if _seed(case) != _seed(cases[0])], "of other seeds")
    return left


def _number(case: pytest.Item) -> list[int]:
    """Orders the cases of a function as they are written."""
    return [*getattr(getattr(case, "callspec", None), "indices", {}).values()]


def _off_diagonal(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """The cells of a grid beside those that have each value of each parameter; none of a single list of values."""
    places = [_place(case) for case in cases]
    axes = [list(dict.fromkeys(values)) for values in zip(*places, strict=True)]
    lead = max(axes, key=len, default=[])
    for case, place in zip(cases, places, strict=True):
        at = [axis.index(value) for axis, value in zip(axes, place, strict=True)]
        if any(i != at[axes.index(lead)] % len(axis) for i, axis in zip(at, axes, strict=True)):
            yield case


def _place(case: pytest.Item) -> list[tuple[int, ...]]:
    """Which values a test has, of each list that is crossed with the others."""
    values: dict[str, int] = {name: id(value) for name, value in getattr(case, "callspec").params.items()}  # noqa: B009
    said = [mark.args[0] for mark in case.iter_markers("parametrize")]
    names = [one.replace(" ", "").split(",") if isinstance(one, str) else [*one] for one in said]
    others = [[name] for name in values if not any(name in each for each in names)]
    return [tuple(values[name] for name in each if name in values) for each in (*names, *others)]


def _seed(case: pytest.Item) -> object:
    """What a test draws by, where that is a parameter."""
    return getattr(getattr(case, "callspec", None), "params", {}).get("seed")


def draw_few(items: Sequence[pytest.Item]) -> None:
    """Lets property tests draw few examples, the same at every run, whatever they say of themselves."""
    functions = [getattr(item, "function") for item in items]  # noqa: B009
    for function, cases in Counter(functions).items():
        said: settings = getattr(function, "_hypothesis_internal_use_settings")  # noqa: B009
        examples = min(said.max_examples, FEW, max(2, 4 * FEW // cases))
        few = settings(said, max_examples=examples, derandomize=True, database=None)
        setattr(function, "_hypothesis_internal_use_settings", few)  # noqa: B010 - the decorator may be used once only


@cache
def starts_processes(file: Path) -> bool:
    """Whether the module, or one of the tests' modules that it imports, imports what starts processes."""
    names = set(imported(file))
    if "sys.executable" in file.read_text("utf-8") or any(
        name == start or name.startswith(f"{start}.") for name in names for start in STARTS
    ):
        return True
    files = (TESTS / f"{name.replace('.', '/')}.py" for name in names)
    return any(starts_processes(one) for one in files if one.exists() and one != file)


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports, and for ``from a import b`` also ``a.b``."""
    for module, names, alone in _IMPORT.findall(file.read_text("utf-8")):
        yield from (module or alone, *(f"{module}.{name}" for name in _NAME.findall(names)))
