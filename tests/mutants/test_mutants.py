"""What `make mutants` does to a source, and where."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from antiphon.tenancy import NOBODY
from mutants.entered import Recorder, function_at
from mutants.mutations import compiles, mutations_of
from mutants.rooms import ROOMS, ROOT, Room
from mutants.sample import NEAREST, Entries, argued, mutants_of, sample


def mutated(source: str) -> set[str]:
    """The source once with each of its mutations."""
    mutants = [mutation.apply(source.encode()) for mutation in mutations_of(source.encode())]
    return {mutant.decode() for mutant in mutants if compiles(mutant)}


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a <= b", {"a < b"}),
        ("(ä) is  not (b)", {"(ä) is (b)"}),
        ("a < b == c", {"a <= b == c", "a < b != c"}),
        ("a and b and c", {"a or b and c", "a and b or c"}),
        ("not (a or b)", {"(a or b)", "not (a and b)"}),
        ("x = 16", {"x = 17"}),
        ("x = True, 0.5", {"x = False, 0.5", "x = True, 1.0"}),
        ("x -= y", {"x += y", "pass"}),
        ("x = min(a, b)", {"x = max(a, b)"}),
        ("x = f(a, most=b)", {"x = f(a, )"}),
        ("raise E(hint=h, code='c')", {'raise E(hint=h, code="another")', "raise E(hint=h, )", "pass"}),
        ("if a:\n    f()", {"if (not (a)):\n    f()", "if a:\n    pass"}),
        ("x = [y for y in z if y]", {"x = [y for y in z if (not (y))]"}),
        ("while a:\n    break", {"while (not (a)):\n    break", "while a:\n    continue"}),
        ("with a, b:\n    c = d", {"if True:\n    c = d"}),
        ("with a as b:\n    c = d", set()),
        ("def f():\n    return x", {"def f():\n    return None"}),
        ("async def f():\n    await shield(g)", {"async def f():\n    pass"}),
        ("async def f():\n    x = await asyncio.shield(g())", {"async def f():\n    x = await g()"}),
        ("def f(x: int | None = None) -> 'a':\n    'Words.'\n    assert x", set()),
        ("@g(1)\nclass C(A, b=1): ...", set()),
        ("Name = A | B", set()),
        ("x = f'{1}'", set()),
        ("def f():\n    raise NotImplementedError", set()),
    ],
)
def test_each_fault_is_small_and_none_is_in_words_or_types(source: str, mutants: set[str]) -> None:
    assert mutated(source) == mutants


def test_a_sample_is_the_same_for_a_seed_and_has_of_each_room_as_many() -> None:
    rooms = [room for room in ROOMS if room.name in ("gate", "tenancy")]
    first = sample(rooms, 12, seed=1)
    assert first == sample(rooms, 40, seed=1)[:12] != sample(rooms, 12, seed=2)
    assert [mutant.room.name for mutant in first] == ["gate", "tenancy"] * 6
    for mutant in first:
        assert mutant.source() != (ROOT / mutant.path).read_bytes()
        assert mutant.diff()


def test_every_room_has_files_and_what_runs_elsewhere_tests() -> None:
    assert all([*room.files()] for room in ROOMS)
    assert (
        {room.name for room in ROOMS if room.tests}
        == {"workers", "sandbox", "limits"}
        == {r.name for r in ROOMS if r.elsewhere}
    )


def test_a_mutant_meets_the_tests_that_enter_its_function_a_quick_case_of_each_first(tmp_path: Path) -> None:
    (mutant,) = sample([Room("one", "tenancy.py")], 1, seed=1)
    function = function_at(mutant.path, mutant.original, mutant.mutation.line)
    cases = [("slow", 5.0), ("grid[a]", 0.25), ("grid[b]", 0.125), ("other", 0.5), ("late", 40.0), ("later", 60.0)]
    lines = [json.dumps([f"tests/test_a.py::{test}", seconds, [function]]) for test, seconds in cases]
    lines.append(json.dumps(["tests/test_tenancy.py::last", 3.0, [function]]))
    entries = Entries(tmp_path / "entered")
    entries.add("tests/config/test_models.py", [*lines, json.dumps(["far", 0.1, ["another"]])])
    again = Entries(tmp_path / "entered")
    met = [([test.partition("::")[2] for test in tests], seconds) for tests, seconds in again.tests(mutant)]
    assert met == [(["last", "grid[b]", "other", "grid[a]"], 5.875), (["slow", "late"], 46.0)]
    assert [*again.tests(mutant)] == [*entries.tests(mutant)]


def test_what_a_test_enters_is_recorded_whatever_the_one_before_it_did_to_the_trace(tmp_path: Path) -> None:
    recorder, before = Recorder(ROOT, tmp_path / "entered"), sys.gettrace()
    try:
        for test in ("deep", "next"):
            recorder.pytest_runtest_logstart()
            NOBODY.domain(shared=True)
            sys.settrace(None)  # As Python does where the tracer itself meets the limit of recursion.
            recorder.pytest_runtest_logfinish(test)
    finally:
        sys.settrace(before)
        threading.settrace(None)
    lines = map(json.loads, (tmp_path / "entered").read_text().splitlines())
    assert [(test, "src/antiphon/tenancy.py Tenant.domain" in entered) for test, _, entered in lines] == [
        ("deep", True), ("next", True),
    ]  # fmt: skip


def test_a_mutant_that_no_test_enters_meets_the_nearest(tmp_path: Path) -> None:
    (mutant,) = sample([Room("one", "tenancy.py")], 1, seed=1)
    ((tests, seconds),) = Entries(tmp_path / "entered").tests(mutant)
    assert (len(tests), seconds) == (NEAREST, None)
    assert "antiphon.tenancy" in (ROOT / tests[0]).read_text("utf-8")


def test_every_argument_is_for_a_mutation_that_there_is() -> None:
    paths = {path for path, _ in argued()}
    known = {mutant.said: mutant for room in ROOMS for mutant in mutants_of(room, paths)}
    assert set(argued()) <= known.keys()
    assert all(compiles(known[said].source()) for said in argued())
