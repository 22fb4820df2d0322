"""A folder of results in shards, with a record of how far they are: a run that was ended goes on there."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from antiphon.errors import ConfigError
from antiphon.structs import ready
from antiphon.version import __version__
from antiphon.writing import write

from .columns import FILES, encode, opened
from .rows import Chunk, Place
from .work import PackedRow, Result, Sums

STATE = ".state.json"
WINDOW = 4_000_000
"""Tokens of rows that are packed together at least, but for the last ones."""
WINDOW_SEQUENCES = 128
"""Sequences of them at least."""
_OURS = re.compile(r"\.{0,2}(?:part|findings|rows|state)(?:-(?P<number>\d{5}))?\.\w+(?P<partial>\.\w+\.part)?")
"""The names of a run's files, and of those that it had not written whole when it ended."""


class Input(msgspec.Struct, frozen=True):
    """A file as it was when the run began: its size in bytes, and when it was changed, in nanoseconds."""

    path: str
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Input:
        status = path.stat()
        return cls(str(path), status.st_size, status.st_mtime_ns)


class State(msgspec.Struct, kw_only=True):
    """How far a run is: ``shards`` are whole, of ``rows``, blank ones too, and ``next`` is where the next begins."""

    version: str
    settings: dict[str, Any]
    inputs: list[Input]
    next: Place = Place()
    shards: int = 0
    rows: int = 0
    sums: Sums = msgspec.field(default_factory=Sums)
    done: bool = False


def former(path: Path) -> State | None:
    """The state of the run whose results a folder has; None without one. Raises `ConfigError` for an unreadable one."""
    try:
        return msgspec.json.decode((path / STATE).read_bytes(), type=ready(State))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _refused(f"the record of {path} cannot be read", "--force begins anew.") from None


class Folder:
    """The folder of a run. Results are added in order; a shard is there only when it is whole.

    ``rows``: as many has a shard at least, but for the last one. ``length``: rows are packed into sequences of so many
    tokens, and a shard has `WINDOW` of them. Raises `ConfigError` (``unwritable_output``) for a
    folder of another run, or of other files; ``force`` begins anew in it.
    """

    def __init__(
        self,
        path: Path,
        settings: Mapping[str, Any],
        inputs: Sequence[Input],
        *,
        kind: str,
        rows: int,
        length: int | None = None,
        force: bool = False,
    ) -> None:
        self._path, self._kind, self._rows, self._length = path, kind, rows, length
        self.state = State(version=__version__, settings=dict(settings), inputs=list(inputs))
        if path.exists() and not path.is_dir():
            raise _refused(f"{path} is a file, and what is written is a folder", "Name a folder.")
        path.mkdir(parents=True, exist_ok=True)
        before = None if force else former(path)
        if before is not None:
            self.state = self._same(before)
        elif force:
            (path / STATE).unlink(missing_ok=True)
        elif any(path.iterdir()):
            raise _refused(f"the folder {path} is not empty", "Name another one; --force replaces a former run.")
        for file in path.iterdir():
            ours = _OURS.fullmatch(file.name)
            if ours and (ours["partial"] or int(ours["number"] or -1) >= self.state.shards):
                file.unlink()
        self._shard = _Shard(self._named, self.state.sums)

    def _same(self, before: State) -> State:
        """The state of the run that is to go on. Raises `ConfigError` where that is another run than this one."""
        now = {**self.state.settings, "version": self.state.version, "files": self.state.inputs}
        then = {**before.settings, "version": before.version, "files": before.inputs}
        other = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
        if other:
            what = f"the folder {self._path} has a run with other {', '.join(other)}"
            raise _refused(what, "Name another folder; --force begins anew in this one.")
        return before

    def _named(self, name: str, ending: str) -> Path:
        return self._path / f"{name}-{self.state.shards:05}{ending}"

    def rows(self) -> Iterator[bytes]:
        """Yields the rows of the shards that are there, each as `add` was given them."""
        for file in sorted(self._path.glob(".rows-*.bin")):
            yield file.read_bytes()

    def add(self, chunk: Chunk, result: Result, rows: bytes = b"") -> None:
        """Adds the result of a chunk; ``rows`` are for a later run that goes on."""
        shard = self._shard
        shard.rows += chunk.count
        shard.sums.add(result.sums)
        for finding in result.findings:
            line = {"file": chunk.path, **msgspec.structs.asdict(finding)}
            shard.write("findings", ".jsonl", "jsonl", msgspec.json.encode(line) + b"\n")
        for output in result.output:
            shard.write("part", FILES[self._kind], self._kind, output)
        for _, data in result.fixed:
            shard.write("part", ".jsonl", "jsonl", data + b"\n")
        if rows:
            shard.write(".rows", ".bin", "jsonl", rows)
        shard.packed += result.packed
        shard.tokens += sum(len(row.ids) // 4 for row in result.packed)
        window = None if self._length is None else max(WINDOW, WINDOW_SEQUENCES * self._length)
        if shard.rows >= self._rows if window is None else shard.tokens >= window:
            self._commit(chunk.end)

    def _commit(self, place: Place, *, done: bool = False) -> None:
        """Makes a shard of what was added since the last one: first its files, then the record of them."""
        shard, state = self._shard, self.state
        if self._length is not None and shard.packed:
            sequences = packed(shard.packed, self._length)
            shard.sums.sequences += len(sequences)
            shard.sums.packed += shard.tokens
            for at in range(0, len(sequences), 64):
                shard.write("part", FILES[self._kind], self._kind, encode(sequences[at : at + 64], self._kind))
        shard.close()
        self.state = msgspec.structs.replace(
            state, next=place, shards=state.shards + shard.any, rows=state.rows + shard.rows, sums=shard.sums, done=done
        )
        write(self._path / STATE, msgspec.json.encode(self.state))
        self._shard = _Shard(self._named, self.state.sums)

    def close(self) -> Sums:
        """Makes the last shard, and returns the sums of all."""
        self._commit(self.state.next, done=True)
        return self.state.sums

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves a shard that is not whole, of which nothing stays."""
        self._shard.abandon()


def _refused(problem: str, hint: str) -> ConfigError:
    return ConfigError(problem, code="unwritable_output", hint=hint)


class _Shard:
    """The files of a shard while they are written: none of them is there before `close`."""

    def __init__(self, named: Callable[[str, str], Path], before: Sums) -> None:
        self._named = named
        self._stack = ExitStack()
        self._sinks: dict[str, Callable[[bytes], Any]] = {}
        self.sums = Sums()
        self.sums.add(before)
        self.packed: list[PackedRow] = []
        self.rows = self.tokens = 0

    @property
    def any(self) -> bool:
        return bool(self._sinks)

    def write(self, name: str, ending: str, kind: str, data: bytes) -> None:
        if name not in self._sinks:
            self._sinks[name] = self._stack.enter_context(opened(self._named(name, ending), kind))
        self._sinks[name](data)

    def close(self) -> None:
        self._stack.close()

    def abandon(self) -> None:
        """Removes what is written of the files."""
        with suppress(_Abandoned), self._stack:
            raise _Abandoned


class _Abandoned(Exception):
    """Ends the files of a shard without their becoming any."""


# Packing: rows of any length into sequences of one.


def packed(rows: Sequence[PackedRow], length: int) -> list[dict[str, array[int]]]:
    """Sequences of at most ``length`` tokens that have all these rows whole, as columns of `PACKED`.

    The position ids begin at 0 in each row. No row may be longer than a sequence.
    """
    sizes = [len(row.ids) // 4 for row in rows]
    return [_sequence([rows[i] for i in members]) for members in best_fit(sizes, length)]


def best_fit(sizes: Sequence[int], length: int) -> list[list[int]]:
    """The indices of each sequence's rows: the longest rows first, each where it leaves the least room (best fit).

    >>> best_fit([3, 5, 2, 4, 6], 10)
    [[4, 3], [1, 0, 2]]
    """
    sequences: list[list[int]] = []
    room: list[tuple[int, int]] = []  # of each sequence with any, and its number, sorted
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        at = bisect_left(room, (sizes[i], -1))
        if at == len(room):
            left, number = length, len(sequences)
            sequences.append([])
        else:
            left, number = room.pop(at)
        sequences[number].append(i)
        if left > sizes[i]:
            insort(room, (left - sizes[i], number))
    return sequences


def _sequence(rows: Iterable[PackedRow]) -> dict[str, array[int]]:
    sequence = {name: array("i") for name in ("input_ids", "labels", "position_ids", "seq_lengths")}
    for row in rows:
        size = len(row.ids) // 4
        sequence["input_ids"].frombytes(row.ids)
        sequence["labels"].frombytes(row.labels)
        sequence["position_ids"].extend(range(size))
        sequence["seq_lengths"].append(size)
    return sequence
