"""Which functions of ours each test enters, so that a mutant first meets the tests that run it, quick ones first."""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest

FIRST_SECONDS = 10.0
"""What the tests that a mutant meets first take in all."""


class Entry(NamedTuple):
    """A ``test`` that passed, by pytest's name, its ``seconds``, and what it enters as `function_at` names it."""

    test: str
    seconds: float
    functions: list[str]


class Recorder:
    """A plugin of pytest that writes an `Entry` a line for each test. What other processes run it does not see."""

    def __init__(self, source: Path, to: Path) -> None:
        self._source = f"{source}/"
        self._to = to
        self._begun = 0.0
        self._failed = False
        self._codes: set[CodeType] = set()

    def pytest_sessionstart(self) -> None:
        threading.settrace(self._entered)
        sys.settrace(self._entered)

    def pytest_runtest_logstart(self) -> None:
        self._codes, self._failed, self._begun = set(), False, time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= not report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds, codes = time.monotonic() - self._begun, self._codes.copy()
        ours = sorted(filter(None, map(self._named, codes)))
        if not self._failed:
            with self._to.open("a") as file:
                file.write(json.dumps(Entry(nodeid, seconds, ours)) + "\n")

    def _entered(self, frame: FrameType, event: str, argument: object) -> None:
        self._codes.add(frame.f_code)

    def _named(self, code: CodeType) -> str | None:
        path = code.co_filename
        return f"{path.removeprefix(self._source)} {code.co_qualname}" if path.startswith(self._source) else None


def recorded(lines: str) -> list[Entry]:
    """What a `Recorder` wrote."""
    return [Entry(*json.loads(line)) for line in lines.splitlines()]


def function_at(path: str, source: bytes, line: int) -> str | None:
    """The innermost function whose body has the line; None where that is run as the module is imported."""
    inner = [name for start, end, name in _functions(ast.parse(source), "") if start <= line <= end]
    return f"{path} {inner[-1]}" if inner else None


def first(entries: Iterable[Entry], function: str | None) -> tuple[tuple[str, ...], float]:
    """The quickest tests that enter the function, as many as take `FIRST_SECONDS`, and what they take."""
    chosen, seconds = [], 0.0
    for entry in sorted(entries, key=lambda entry: entry.seconds):
        if function in entry.functions and seconds + entry.seconds <= FIRST_SECONDS:
            chosen.append(entry.test)
            seconds += entry.seconds
    return tuple(sorted(chosen)), seconds


def _functions(node: ast.AST, within: str) -> Iterator[tuple[int, int, str]]:
    """First line, last line and qualified name of each function; of nested ones the outer first."""
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child.body[0].lineno, child.end_lineno or 0, within + child.name
            inside = f"{within}{child.name}.<locals>."
        elif isinstance(child, ast.ClassDef):
            inside = f"{within}{child.name}."
        yield from _functions(child, inside)
