"""No test sleeps, and what waits by looking again and again does so in the kit."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
WAITING = "kit/waiting.py"
PROGRAMS = ("browser/", "clients/", "fuzz/")
"""Programs that are no tests: clients and tools that take their time, under load and for minutes."""
SLEEPS = ("asyncio.sleep", "time.sleep", "sleep")


def sleeps(source: str) -> list[int]:
    """The lines of each sleep that takes time, and of each in a loop that does nothing else."""
    if "sleep" not in source:
        return []
    return sorted({line for node in ast.walk(ast.parse(source)) for line in _at(node)})


def _at(node: ast.AST) -> Iterator[int]:
    match node:
        case ast.Call() if _is_sleep(node) and ast.unparse(node) != "asyncio.sleep(0)":
            yield node.lineno
        case ast.While(body=[ast.Expr(value=ast.Await(value=ast.Call() as call) | (ast.Call() as call))]):
            if _is_sleep(call):
                yield call.lineno


def _is_sleep(call: ast.Call) -> bool:
    return ast.unparse(call.func) in SLEEPS


def test_no_test_sleeps() -> None:
    found = {path.relative_to(TESTS).as_posix(): sleeps(path.read_text("utf-8")) for path in TESTS.rglob("*.py")}
    assert found.pop(WAITING)
    assert {name for name, lines in found.items() if lines and not name.startswith(PROGRAMS)} == set()


def test_each_way_to_sleep_is_found() -> None:
    assert sleeps("import time\ntime.sleep(0.1)") == [2]
    assert sleeps("async def f():\n    await asyncio.sleep(delay)") == [2]
    assert sleeps("async def f():\n    while not done():\n        await asyncio.sleep(0)") == [3]
    assert sleeps("async def f():\n    await asyncio.sleep(0)") == []
