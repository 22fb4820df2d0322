"""Which functions of ours each test enters, so that a mutant meets the tests that run it, quick ones first."""

from __future__ import annotations

import ast
import json
import sys
import threading
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest


class Entry(NamedTuple):
    """A ``test`` that passed, by pytest's name, its ``seconds``, and what it enters: numbers in its file's list."""

    test: str
    seconds: float
    functions: array[int]


class Recorder:
    """A plugin of pytest that writes a line for each test that passes: its name, its seconds, and the functions that it
    enters as `function_at` names them. What other processes run it does not see."""

    def __init__(self, source: Path, to: Path) -> None:
        self._source = f"{source}/"
        self._to = to
        self._begun = 0.0
        self._failed = False
        self._codes: set[CodeType] = set()

    def pytest_runtest_logstart(self) -> None:
        """Traces each test anew: Python traces no more once there is no room on the stack to call the tracer."""
        self._codes, self._failed, self._begun = set(), False, time.monotonic()
        threading.settrace(self._entered)
        sys.settrace(self._entered)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= not report.passed

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds, codes = time.monotonic() - self._begun, self._codes.copy()
        if not self._failed:
            with self._to.open("a") as file:
                file.write(json.dumps([nodeid, seconds, sorted(filter(None, map(self._named, codes)))]) + "\n")

    def _entered(self, frame: FrameType, event: str, argument: object) -> None:
        self._codes.add(frame.f_code)

    def _named(self, code: CodeType) -> str | None:
        path = code.co_filename
        return f"{path.removeprefix(self._source)} {code.co_qualname}" if path.startswith(self._source) else None


class Entered:
    """The tests of one file, and the ``functions`` that they enter, each by its number in that list."""

    def __init__(self, functions: Iterable[str], entries: Iterable[tuple[str, float, Iterable[int]]]) -> None:
        self.functions = list(functions)
        self._numbers = {name: at for at, name in enumerate(self.functions)}
        self.entries = [Entry(test, seconds, array("I", numbers)) for test, seconds, numbers in entries]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Entered:
        """What a `Recorder` wrote."""
        functions: dict[str, int] = {}
        entries = [
            (test, seconds, [functions.setdefault(name, len(functions)) for name in names])
            for test, seconds, names in map(json.loads, lines)
        ]
        return cls(functions, entries)

    def into(self, function: str) -> Iterator[Entry]:
        """The tests that enter the function; those that enter any of a file, where ``function`` is a path."""
        if " " in function:
            wanted = {self._numbers[function]} if function in self._numbers else set()
        else:
            wanted = {at for name, at in self._numbers.items() if name.startswith(f"{function} ")}
        return (entry for entry in self.entries if wanted and not wanted.isdisjoint(entry.functions))


FILE_SECONDS = 1.0
"""What a file costs before its first test runs."""


def in_turn(entries: Iterable[Entry], seconds: float, stem: str = "") -> tuple[tuple[str, ...], float]:
    """As many as take ``seconds``, and what they take: a quick case of each function first, then another of each; of
    those in a file that is named like the ``stem`` first, and then of what enters little else."""
    turns: Counter[str] = Counter()
    ordered: list[tuple[int, bool, int, float, str]] = []
    for entry in sorted(entries, key=lambda entry: entry.seconds):
        file, _, function = entry.test.partition("[")[0].partition("::")
        ordered.append((turns[function], stem not in file, len(entry.functions), entry.seconds, entry.test))
        turns[function] += 1
    chosen, taken, files = list[str](), 0.0, set[str]()
    for *_, took, test in sorted(ordered):
        file = test.partition("::")[0]
        took += FILE_SECONDS * (file not in files)
        if taken + took <= seconds:
            chosen.append(test)
            files.add(file)
            taken += took
    return tuple(chosen), taken


def function_at(path: str, source: bytes, line: int) -> str:
    """The innermost function whose body has the line; the path alone where that is run as the module is imported."""
    inner = [name for start, end, name in _functions(ast.parse(source), "") if start <= line <= end]
    return f"{path} {inner[-1]}" if inner else path


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
