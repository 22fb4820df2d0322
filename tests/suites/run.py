"""Public suites of API servers against ours: ``run.py [llama] [vllm] [open-responses]``, all of them without a name.

Each is fetched at a pinned version and run as it is, in an environment of its own below ``.suites/api``. Tests that do
not pass stand in ``differences.toml`` with the reason; the exit code is 1 where one fails that has no row there, or
where a row's tests pass. ``OPEN_RESPONSES`` names another git repository to clone, ``ONLY`` runs the tests whose names
contain it and checks no rows.
"""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

from suites import llama, open_responses, vllm  # noqa: E402 - the folder of tests comes first
from suites.outcomes import Outcome  # noqa: E402

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


@dataclass(frozen=True, slots=True)
class Row:
    """Tests that do not pass, as patterns of their names (or of files that are not run), and why."""

    tests: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    kind: str = ""
    why: str = ""

    def has(self, test: str) -> bool:
        return any(fnmatchcase(test, pattern.replace("[", "[[]")) for pattern in self.tests)


def rows_of(suite: str) -> list[Row]:
    table: Mapping[str, Any] = tomllib.loads(ROWS.read_text("utf-8"))
    return [Row(tuple(r.get("tests", ())), tuple(r.get("files", ())), r["kind"], r["why"]) for r in table[suite]]


def tests_of(file: Path) -> int:
    """The number of test functions of a file, each counted once whatever its parameters."""
    nodes = ast.walk(ast.parse(file.read_text("utf-8")))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return sum(isinstance(node, functions) and node.name.startswith("test") for node in nodes)


def compare(name: str, suite: Suite) -> int:
    """Runs a suite and prints what is new and the counts. Returns the number of faults."""
    source = suite.fetch(FOLDER)
    rows, only = rows_of(name), os.environ.get("ONLY", "")
    files = sorted(str(file.relative_to(source)) for glob in suite.files for file in source.glob(glob))
    left_out = {f: row for f in files for row in row_first(rows, f)}
    counts: Counter[str] = Counter()
    for file, row in left_out.items():
        counts[row.kind] += tests_of(source / file)
    used: set[int] = set()
    faults = 0
    for outcome in suite.run(source, [file for file in files if file not in left_out], only):
        number = next((i for i, row in enumerate(rows) if row.has(outcome.test)), None)
        if outcome.passed is None:
            counts["skipped by itself"] += 1
        elif outcome.passed and number is None:
            counts["passed"] += 1
        elif outcome.passed or number is None:
            faults += 1
            counts["new"] += 1
            print(f"{'passes, and has a row' if outcome.passed else 'fails'}: {outcome.test}\n  {outcome.why}")
        else:
            used.add(number)
            counts[rows[number].kind] += 1
    unused = [row.tests for i, row in enumerate(rows) if row.tests and i not in used]
    if not only:
        for tests in unused:
            print(f"no such test, or it passes: {', '.join(tests)}")
        faults += len(unused)
    print(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in counts.most_common()), flush=True)
    return faults


def row_first(rows: Sequence[Row], file: str) -> list[Row]:
    """The row by which the file is not run, if there is one."""
    return [row for row in rows if any(fnmatchcase(file, pattern) for pattern in row.files)][:1]


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    sys.exit(min(sum(compare(name, SUITES[name]) for name in sys.argv[1:] or SUITES), 1))
