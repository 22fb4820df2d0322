"""What each numbered requirement says, and which tests pin it, read from the marks in the tests' source.

Run as a script it prints the manifest: every requirement with its sentence and its tests, and those without a test.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("harmony", "openchatml", "databricks", "lmdeploy", "mindie")
"""Files of requirements/, one a specification: ``ID  sentence`` lines under ``#`` headings, in the source's order."""
_LINE = re.compile(r"([A-Z]{3}-[0-9]{2,3})  (\S.*)")

COMPLETE: tuple[str, ...] = ("DBX", "HAR", "LMD", "MIE", "OCM")
"""Families that have a test for each requirement; from then on a requirement without one fails the suite."""


def requirements() -> dict[str, str]:
    """Every numbered requirement (HAR, OCM, DBX, LMD, MIE) and what must hold, in one sentence."""
    entries = [entry for source in SOURCES for entry in entries_of(HERE / "requirements" / f"{source}.txt")]
    sentences = dict(entries)
    if len(sentences) < len(entries):
        raise ValueError("a requirement is listed twice")
    return sentences


def entries_of(path: Path) -> Iterator[tuple[str, str]]:
    """(id, sentence) of each line that is neither empty nor a heading. Raises `ValueError` at any other line."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if line and not line.startswith("#"):
            entry = _LINE.fullmatch(line)
            if entry is None:
                raise ValueError(f"{path.name}:{number} is no requirement: {line!r}")
            yield entry[1], entry[2]


def pinned(folder: Path) -> dict[str, list[str]]:
    """Requirement → the tests below ``folder`` that carry its mark (``path::test``)."""
    tests: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for where, clause in marks(ast.parse(path.read_text("utf-8"))):
            tests[clause].append(f"{path.relative_to(folder)}::{where}")
    return dict(tests)


def marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(where, clause) of each spec mark: on a test, a class, one case of a parametrize, or in a ``pytestmark``."""
    for node in module.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                where = node.name
            case _:
                where = "*"
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and is_spec(call.func):
                yield from ((where, clause) for clause in clauses(call))


def is_spec(function: ast.expr) -> bool:
    """Whether this is ``pytest.mark.spec`` or ``mark.spec``."""
    return isinstance(function, ast.Attribute) and function.attr == "spec" and "mark" in ast.unparse(function.value)


def clauses(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            raise TypeError(f"line {call.lineno}: a spec mark names its clauses as plain strings")
        yield argument.value


def untested(family: str, tests: Mapping[str, list[str]]) -> list[str]:
    return [clause for clause in requirements() if clause.startswith(f"{family}-") and clause not in tests]


def main() -> None:
    tests, known = pinned(HERE.parent), requirements()
    for clause, sentence in known.items():
        print(f"{clause}: {sentence}")
        for test in tests.get(clause, ["no test"]):
            print(f"    {test}")
    print(f"\n{sum(clause in tests for clause in known)} of {len(known)} requirements have a test")
    for family in dict.fromkeys(clause.partition("-")[0] for clause in known):
        print(f"{family}: without a test: {', '.join(untested(family, tests)) or 'none'}")


if __name__ == "__main__":
    main()
