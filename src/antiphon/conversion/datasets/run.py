"""A run over a data set: its rows, the processes that work on them, and the folder of what comes out."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from .checks import finding
from .columns import check_kind
from .pool import Pool
from .rows import CHUNK, Chunk, Place, chunks, files_of
from .shards import Folder, Input
from .work import Result, RowWork, Sums, Task, TrainedModel

# Duplicates among any number of rows, in 64 bytes a row at most.

_BITS = 40
"""Bits of a row's number."""


class SeenRows:
    """Digests of rows, each with where it was seen first: a table of integers with open addressing."""

    def __init__(self) -> None:
        self._size = 0
        self._low, self._high, self._places = _slots(1 << 12)

    def first(self, digest: bytes, place: tuple[int, int]) -> tuple[int, int]:
        """The place, a file's number and a row's, where the digest was seen first: this one where it is new."""
        if 4 * self._size >= 3 * len(self._low):
            before = zip(self._low, self._high, self._places, strict=True)
            self._low, self._high, self._places = _slots(2 * len(self._low))
            for low, high, known in filter(any, before):
                at = self._slot(low, high)
                self._low[at], self._high[at], self._places[at] = low, high, known
        low, high = int.from_bytes(digest[:8]) or 1, int.from_bytes(digest[8:])
        at = self._slot(low, high)
        if not self._low[at]:
            self._size += 1
            self._low[at], self._high[at], self._places[at] = low, high, place[0] << _BITS | place[1]
        return self._places[at] >> _BITS, self._places[at] & (1 << _BITS) - 1

    def _slot(self, low: int, high: int) -> int:
        """Finds the digest's slot, or the free one where it would be."""
        mask = len(self._low) - 1
        at = low & mask
        while self._low[at] and (self._low[at], self._high[at]) != (low, high):
            at = at + 1 & mask
        return at


def _slots(count: int) -> tuple[array[int], array[int], array[int]]:
    return array("Q", bytes(8 * count)), array("Q", bytes(8 * count)), array("Q", bytes(8 * count))


_ROW = 24
"""Bytes of a row in `Result.digests`; in a folder 4 for the number of its file are before them."""


class Duplicates:
    """Finds rows that say the same as one before, in all files of a run."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = list(map(str, files))
        self._numbers = {name: number for number, name in enumerate(self._files)}
        self._seen = SeenRows()

    def note(self, path: str, result: Result) -> bytes:
        """Adds the findings to the result, whose fixed rows have none of them; returns its rows for `restore`."""
        file = self._numbers[path]
        known = [file.to_bytes(4) + result.digests[at : at + _ROW] for at in range(0, len(result.digests), _ROW)]
        twice = {row: where for row, where in map(self._first, known) if where is not None}
        if twice:
            found = [finding(row, "", "duplicate", f"the same conversation as {where}") for row, where in twice.items()]
            result.findings = sorted([*result.findings, *found], key=lambda one: one.row)
            result.fixed = [(row, data) for row, data in result.fixed if row not in twice]
            result.sums.kinds["duplicate"] = len(found)
        return b"".join(known)

    def restore(self, rows: bytes) -> None:
        """Takes the rows of a former run."""
        for at in range(0, len(rows), _ROW + 4):
            self._first(rows[at : at + _ROW + 4])

    def _first(self, entry: bytes) -> tuple[int, str | None]:
        """The row's number, and where the same was before, if it was."""
        place = (int.from_bytes(entry[:4]), int.from_bytes(entry[20:]))
        first = self._seen.first(entry[4:20], place)
        return place[1], None if first == place else f"{self._files[first[0]]}:{first[1]}"


@dataclass(slots=True)
class Run:
    """A task over the rows of files and folders, in so many processes; None: one for each core that has work.

    ``open`` opens the model, in each process anew: a function that processes find by its name. ``out`` is the
    folder of the results, in which a run that was ended goes on; ``force`` begins anew. ``length``: rows are packed
    into sequences of so many tokens. ``shard_rows`` are the rows of a file of results at least. ``settings`` are
    others that a run which goes on must share. ``progress`` is called with the bytes that are done, and all.
    """

    paths: Sequence[Path]
    open: Callable[[], TrainedModel]
    task: Task
    _: KW_ONLY
    workers: int | None = None
    limit: int | None = None
    out: Path | None = None
    force: bool = False
    length: int | None = None
    shard_rows: int = 10_000
    settings: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[int, int | None], None] = lambda done, total: None
    sums: Sums = field(default_factory=Sums)
    earlier: int = 0
    """Rows of the run that this one goes on with."""

    def results(self) -> Iterator[tuple[Chunk, Result]]:
        """Yields each chunk with its result, in order; then ``sums`` are those of all.

        Raises `ConfigError` for inputs that are not there and a folder that cannot be gone on in, and what opening the
        model raises.
        """
        own = None if self.out is None else self.out.resolve()  # may be in a folder that is read
        files = [path for path in files_of(self.paths) if own not in path.resolve().parents]
        check_kind(self.task.kind)
        inputs = list(map(Input.of, files))
        duplicates = Duplicates(files) if self.task.check else None
        with Pool(partial(work_of, self.open, self.task), self._workers(inputs)) as pool:
            folder, start = None, Place()
            if self.out is not None:
                more = {
                    "limit": self.limit,
                    "length": self.length,
                    "shard_rows": self.shard_rows,
                    "model": pool.identity,
                }
                settings = msgspec.json.encode({**msgspec.to_builtins(self.task), **self.settings, **more})
                folder = Folder(
                    self.out, msgspec.json.decode(settings), inputs,
                    kind=self.task.kind, rows=self.shard_rows, length=self.length, force=self.force,
                )  # fmt: skip
                start, self.earlier = folder.state.next, folder.state.sums.rows
                for rows in folder.rows() if duplicates is not None else ():
                    duplicates.restore(rows)  # type: ignore[union-attr]
                if folder.state.done:
                    self.sums = folder.state.sums
                    return
            with folder or nullcontext():
                yield from self._run(pool, files, start, duplicates, folder)

    def _run(
        self, pool: Pool, files: Sequence[Path], start: Place, duplicates: Duplicates | None, folder: Folder | None
    ) -> Iterator[tuple[Chunk, Result]]:
        total = sum(path.stat().st_size for path in files)
        done = sum(path.stat().st_size for path in files[: start.file]) + start.offset
        passed = folder.state.rows if folder is not None else 0
        limit = None if self.limit is None else max(0, self.limit - passed)
        for chunk, result in pool.run(chunks(files, start, limit)):
            rows = duplicates.note(chunk.path, result) if duplicates is not None else b""
            if folder is not None:
                folder.add(chunk, result, rows)
            else:
                self.sums.add(result.sums)
            done += chunk.size
            self.progress(done, total)
            yield chunk, result
        if folder is not None:
            self.sums = folder.close()

    def _workers(self, inputs: Sequence[Input]) -> int:
        """As many as are asked for, or one for each core that has sixteen chunks: a process takes a second to begin."""
        chunks = sum(1 + file.size // CHUNK for file in inputs)
        return self.workers or max(1, min(os.cpu_count() or 1, chunks // 16))


def work_of(open: Callable[[], TrainedModel], task: Task) -> RowWork:
    """Opens the model for a task."""
    return RowWork(open(), task)
