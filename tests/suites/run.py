"""Public suites of API servers against ours: ``run.py [llama] [vllm] [open-responses]``, all of them without a name.

Each is fetched at a pinned version and run as it is, in an environment of its own below ``.suites/api``. Tests that do
not pass stand in ``differences.toml`` with the reason; the exit code is 1 where one fails that has no row there, or
where all of a row's tests pass, or one that does not depend on a model's words. ``OPEN_RESPONSES`` names another git
repository to fetch from; with ``ONLY``, tests whose names contain it are run, and no row is missed.
"""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from suites import llama, open_responses, vllm  # noqa: E402 - the folder of tests comes first
from suites.outcomes import IN_PROCESS, Outcome  # noqa: E402

FOLDER = ROOT / ".suites" / "api"
ROWS = Path(__file__).with_name("differences.toml")


@dataclass(frozen=True, slots=True)
class Suite:
    """``run`` gives the outcomes of the tests of ``files``; ``files`` are those that judge a server."""

    fetch: Callable[[Path], Path]
    run: Callable[[Path, Sequence[str], str], Iterable[Outcome]]
    files: tuple[str, ...] = ()


SUITES = {
    "open-responses": Suite(open_responses.fetch, open_responses.run),
    "llama": Suite(llama.fetch, llama.run, ("unit/test_*.py",)),
    "vllm": Suite(vllm.fetch, vllm.run, vllm.FILES),
}


BY_CHANCE = "model"
"""The kind of the tests that other words, or another model, may let pass."""


@dataclass(frozen=True, slots=True)
class Row:
    """Tests that do not pass, as patterns of their names (or of files that are not run), and why."""

    kind: str
    why: str
    tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def has(self, test: str) -> bool:
        return any(fnmatchcase(test, pattern.replace("[", "[[]")) for pattern in self.tests)

    def leaves_out(self, file: str) -> bool:
        return any(fnmatchcase(file, pattern) for pattern in self.files)


def rows_of(suite: str) -> list[Row]:
    return msgspec.convert(tomllib.loads(ROWS.read_text("utf-8"))[suite], list[Row])


def tests_of(file: Path) -> int:
    """The number of test functions of a file, each counted once whatever its parameters."""
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sum(isinstance(node, functions) and node.name.startswith("test") for node in nodes)


class Comparison:
    """The outcomes of a suite beside its rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._rows = rows
        self._used: set[Row] = set()

    def leave_out(self, source: Path, files: Iterable[str]) -> list[str]:
        """Counts the tests of the files that are not run. Returns the others."""
        run = []
        for file in files:
            row = next((row for row in self._rows if row.leaves_out(file)), None)
            if row is None:
                run.append(file)
            else:
                self.counts[f"not run: {row.kind}"] += tests_of(source / file)
        return run

    def add(self, outcome: Outcome) -> None:
        row = next((row for row in self._rows if row.has(outcome.test)), None)
        if outcome.passed is None:
            self.counts[IN_PROCESS if outcome.why == IN_PROCESS else "skipped by the suite"] += 1
        elif outcome.passed and (row is None or row.kind == BY_CHANCE):
            self.counts["passed"] += 1
        elif outcome.passed or row is None:
            self.counts["faults"] += 1
            self.faults.append(f"{'passes' if outcome.passed else 'fails'}: {outcome.test}\n  {outcome.why}")
        else:
            self._used.add(row)
            self.counts[row.kind] += 1

    def unused(self) -> list[str]:
        """The rows none of whose tests fails."""
        rows = (row for row in self._rows if row.tests and row not in self._used)
        return [f"nothing fails any longer: {', '.join(row.tests)}" for row in rows]


def compare(name: str, suite: Suite) -> int:
    """Runs a suite and prints the faults and the counts. Returns the number of faults."""
    source, only = suite.fetch(FOLDER), os.environ.get("ONLY", "")
    comparison = Comparison(rows_of(name))
    found = sorted(str(file.relative_to(source)) for glob in suite.files for file in source.glob(glob))
    for outcome in suite.run(source, comparison.leave_out(source, found), only):
        comparison.add(outcome)
    faults = comparison.faults + ([] if only else comparison.unused())
    for fault in faults:
        print(fault)
    print(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in comparison.counts.most_common()), flush=True)
    return len(faults)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.exit(min(sum(compare(name, SUITES[name]) for name in sys.argv[1:] or SUITES), 1))
