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

from mutants.entered import first, function_at, recorded
from mutants.mutations import Mutation, compiles, mutations_of
from mutants.rooms import ROOT, Room

ARGUED = Path(__file__).with_name("argued.txt")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutation of one file, whose source was ``original``, and the tests that are to find it."""

    room: str
    path: str
    original: bytes = field(repr=False)
    tests: tuple[str, ...]
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
    for path, tests in room.files():
        if paths is not None and path not in paths:
            continue
        original = (ROOT / path).read_bytes()
        yield from (Mutant(room.name, path, original, tests, mutation) for mutation in mutations_of(original))


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

    def get(self, mutant: Mutant) -> str | None:
        """``killed``, ``timeout`` or ``survived``; None where it is to be tried."""
        now = _digest(mutant.tests)
        outcome, then = self._known.get(mutant.key, (None, ""))
        return None if outcome == "survived" and then != now else outcome

    def add(self, mutant: Mutant, outcome: str) -> None:
        self._known[mutant.key] = (outcome, _digest(mutant.tests))
        with self._path.open("a") as file:
            file.write(json.dumps([mutant.key, *self._known[mutant.key]]) + "\n")

    def _read(self) -> Iterator[tuple[str, tuple[str, str]]]:
        if self._path.exists():
            for line in self._path.read_text().splitlines():
                key, outcome, tests = json.loads(line)
                yield key, (outcome, tests)


class Entries:
    """What the tests of each file enter, a line each in a file; taken anew when that file has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._files = {(test, digest): recorded(text) for test, digest, text in map(json.loads, lines)}

    def missing(self, mutants: Iterable[Mutant]) -> list[str]:
        """The files with tests of these mutants of which nothing is known."""
        tests = {file for mutant in mutants for test in mutant.tests for file in _files(test)}
        return [test for test in sorted(tests) if (test, _digest((test,))) not in self._files]

    def add(self, test: str, lines: str) -> None:
        self._files[test, _digest((test,))] = recorded(lines)
        with self._path.open("a") as file:
            file.write(json.dumps([test, _digest((test,)), lines]) + "\n")

    def first(self, mutant: Mutant) -> tuple[tuple[str, ...], float]:
        """Those of a mutant's tests which it meets first, and their seconds; none where none enters its function."""
        function = function_at(mutant.path, mutant.original, mutant.mutation.line)
        files = [(file, _digest((file,))) for test in mutant.tests for file in _files(test)]
        return first([entry for file in files for entry in self._files.get(file, [])], function)


def _files(test: str) -> list[str]:
    """The files with tests at a place of `rooms`, paths below the repository's root."""
    path = ROOT / test
    found = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
    return [str(file.relative_to(ROOT)) for file in found]


@cache
def _digest(tests: tuple[str, ...]) -> str:
    """Of the tests' source as this run began with it."""
    digest = hashlib.sha256()
    for test in tests:
        path = ROOT / test
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
