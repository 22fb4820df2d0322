"""Which numbered requirement is pinned by which tests, read from the marks in the tests' source.

Run as a script it prints the manifest: every requirement with its tests, and those without one.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent

COMPLETE: tuple[str, ...] = ("DBX", "HAR", "LMD", "MIE", "OCM")
"""Families that have a test for each requirement; from then on a requirement without one fails the suite."""


def requirements() -> list[str]:
    """Every numbered requirement: HAR, OCM, DBX, LMD, MIE."""
    return (HERE / "requirements.txt").read_text().split()


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
    tests = pinned(HERE.parent)
    for clause in requirements():
        print(f"{clause:8}", ", ".join(tests.get(clause, ["-"])))
    known = requirements()
    print(f"\n{sum(clause in tests for clause in known)} of {len(known)} requirements have a test")
    for family in dict.fromkeys(clause.partition("-")[0] for clause in known):
        print(f"{family}: without a test: {', '.join(untested(family, tests)) or 'none'}")


if __name__ == "__main__":
    main()
