"""Which mutants are tried: as many of each room, drawn by a seed; what is known of them from an earlier run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path

from house.changed import Tree, nearest_first
from mutants.entered import Entered, function_at, in_turn
from mutants.mutations import Mutation, compiles, mutations_of
from mutants.rooms import LEFT_OUT, ROOT, Room

ARGUED = Path(__file__).with_name("argued.txt")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of one file, whose source was ``original``."""

    room: Room
    path: str
    original: bytes = field(repr=False)
    mutation: Mutation

    def source(self) -> bytes:
        return self.mutation.apply(self.original)

    def diff(self) -> list[str]:
        """The changed lines, ``-`` before and ``+`` after."""
        start = self.original.rfind(b"\n", 0, self.mutation.start) + 1
        rest = len(self.original) - (self.original + b"\n").index(b"\n", self.mutation.end)
        before, after = (
            text[start : len(text) - rest].decode().splitlines() for text in (self.original, self.source())
        )
        lines = unified_diff(before, after, n=0, lineterm="")
        return [line for line in lines if not line.startswith(("---", "+++", "@@"))]

    @property
    def key(self) -> str:
        """The same for the same fault of the same source, wherever in the sample it is."""
        digest = hashlib.sha256(self.original).hexdigest()[:16]
        return f"{self.path} {digest} {self.mutation.start}-{self.mutation.end} {self.mutation.replacement}"

    def rank(self, seed: int) -> str:
        """A number as good as drawn, which goes by the changed lines."""
        return hashlib.sha256(f"{seed} {self.path} {self.mutation.kind} {self.diff()}".encode()).hexdigest()

    @property
    def said(self) -> tuple[str, str]:
        """Its file and its changed lines without their blanks: what `ARGUED` names it by."""
        return self.path, " ".join(" ".join(self.diff()).split())


def sample(rooms: Sequence[Room], count: int, seed: int) -> list[Mutant]:
    """``count`` mutants, in turn one of each room; a larger sample of one seed begins with the smaller.

    A change elsewhere in a source leaves the order of the mutants as it is.
    """
    ranked = (sorted(mutants_of(room), key=lambda mutant: mutant.rank(seed)) for room in rooms)
    drawn = zip_longest(*(filter(lambda mutant: compiles(mutant.source()), of_room) for of_room in ranked))
    return list(islice((mutant for each in drawn for mutant in each if mutant is not None), count))


def mutants_of(room: Room, paths: Collection[str] | None = None) -> Iterator[Mutant]:
    """All of a room, or those of some of its files; some are not Python any more."""
    for path in room.files():
        if paths is not None and path not in paths:
            continue
        original = (ROOT / path).read_bytes()
        yield from (Mutant(room, path, original, mutation) for mutation in mutations_of(original))


def argued() -> dict[tuple[str, str], str]:
    """Mutants that change nothing which could be seen, and why."""
    blocks = [block.splitlines() for block in ARGUED.read_text("utf-8").split("\n\n")]
    told = [block for block in blocks if block and not block[0].startswith("#")]
    return {(path, " ".join(" ".join(diff).split())): why for path, *diff, why in told}


class Known:
    """What became of mutants, a line each in a file. A killed one stays killed; a survivor is tried again when its
    tests have changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = dict(self._read())

    def get(self, mutant: Mutant, tests: Collection[str]) -> str | None:
        """``killed``, ``timeout`` or ``survived``; None where it is to be tried. ``tests``: those of `Entries`."""
        outcome, then = self._known.get(mutant.key, (None, ""))
        return None if outcome == "survived" and then != _digest(tests) else outcome

    def add(self, mutant: Mutant, outcome: str, tests: Collection[str]) -> None:
        self._known[mutant.key] = (outcome, _digest(tests))
        with self._path.open("a") as file:
            file.write(json.dumps([mutant.key, *self._known[mutant.key]]) + "\n")

    def _read(self) -> Iterator[tuple[str, tuple[str, str]]]:
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                key, outcome, tests = json.loads(line)
                yield key, (outcome, tests)


FIRST_SECONDS, LATER_SECONDS, NEAREST = 10.0, 60.0, 6
"""What the tests take in all that a mutant meets first, and then; how many files of tests it meets that none enters."""


Batch = tuple[tuple[str, ...], float | None]
"""Tests that a mutant meets together, and their seconds where they are known."""


class Entries:
    """What the tests of each file enter, a line each in a file; taken anew when that file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[tuple[str, str], Entered] = {}
        self._tests: dict[str, list[Batch]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            test, digest, functions, entries = json.loads(line)
            self._files[test, digest] = Entered(functions, entries)
        found = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py"))
        self._now = {str(path): _digest((str(path),)) for path in found if path.parts[1] not in LEFT_OUT}

    def missing(self) -> list[str]:
        """The files with tests of which nothing is known."""
        return [test for test, digest in self._now.items() if (test, digest) not in self._files]

    def add(self, test: str, lines: Iterable[str]) -> None:
        entered = self._files[test, self._now[test]] = Entered.of(lines)
        with self._path.open("a") as file:
            file.write(json.dumps([test, self._now[test], entered.functions, entered.entries], default=list) + "\n")

    def tests(self, mutant: Mutant) -> list[Batch]:
        """The tests that a mutant meets first, and then.

        They are those that enter its function. Where it is in none they are those that enter its file, and the room's;
        where none does they are the room's, or the nearest by imports.
        """
        function = function_at(mutant.path, mutant.original, mutant.mutation.line)
        if function not in self._tests:
            files = (self._files.get(test) for test in self._now.items())
            into = [entry for entered in files if entered is not None for entry in entered.into(function)]
            first = in_turn(into, FIRST_SECONDS, Path(mutant.path).stem)
            later = in_turn((entry for entry in into if entry.test not in set(first[0])), LATER_SECONDS)
            self._tests[function] = [tests for tests in (first, later) if tests[0]]
            if not first[0] or (function == mutant.path and mutant.room.tests):
                self._tests[function].append((mutant.room.tests or _nearest(mutant.path, tuple(self._now)), None))
        return self._tests[function]

    def all_tests(self, mutant: Mutant) -> tuple[str, ...]:
        """All that `tests` yields."""
        return tuple(test for tests, _ in self.tests(mutant) for test in tests)


@cache
def _nearest(path: str, known: tuple[str, ...]) -> tuple[str, ...]:
    near = (str(test.relative_to(ROOT)) for test in nearest_first(_tree(), [ROOT / path]))
    return tuple(islice((test for test in near if test in known), NEAREST))


@cache
def _tree() -> Tree:
    return Tree(ROOT / "src", ROOT / "tests")


def _digest(tests: Collection[str]) -> str:
    """Of the source of files with tests as this run began with it."""
    digest = hashlib.sha256()
    for path in sorted({test.partition("::")[0] for test in tests}):
        digest.update(_source(path))
    return digest.hexdigest()[:16]


@cache
def _source(path: str) -> bytes:
    return (ROOT / path).read_bytes()
