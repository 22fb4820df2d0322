"""Rows of data sets: files and folders in chunks of whole rows, each row with its file and its number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.conversion.json_text import entries
from antiphon.errors import AntiphonError, ConfigError, Position
from antiphon.errors.extras import extra

CHUNK = 1 << 18
"""Bytes of a chunk at least, but for the last one of a file."""
LONGEST_ROW = 1 << 24
"""Bytes that a row may have."""
BATCH = 128
"""Rows of a chunk of a Parquet file."""
TEXTS = (".ocm", ".openchatml", ".harmony")
"""The ends of names of files that are one conversation."""
SUFFIXES = (".jsonl", ".json", ".parquet", *TEXTS)
"""The ends of names of files that are read of a folder."""


class Place(msgspec.Struct, frozen=True):
    """A place between two rows: ``row`` rows of file number ``file`` are before it, and ``offset`` bytes."""

    file: int = 0
    row: int = 0
    offset: int = 0


class Chunk(msgspec.Struct, frozen=True):
    """Some rows of one file. The first has the number ``first``, and they begin at row 1.

    ``kind``: ``lines`` of JSON, ``arrow``, one record batch as an IPC stream, or ``text``, one row that is the whole
    file. ``end`` is where the next chunk begins, and ``size`` how many bytes of the file these rows are. ``problem`` is
    the error of what cannot be read there, in the place of rows. ``only``: the index of the one row that counts.
    """

    path: str
    first: int
    kind: str
    data: bytes
    end: Place
    size: int = 0
    problem: tuple[str, str] | None = None
    only: int | None = None

    @property
    def count(self) -> int:
        """How many rows there are, blank ones too."""
        return max(0, self.end.row - self.first + 1) if self.first else 0

    def rows(self) -> Iterator[tuple[int, bytes]]:
        """Yields the number of each row that is not blank, and its JSON or text."""
        for i, row in enumerate(self._all()):
            if row.strip() and self.only in (None, i):
                yield self.first + i, row

    def _all(self) -> Iterable[bytes]:
        match self.kind:
            case "lines":
                return self.data.removesuffix(b"\n").split(b"\n")
            case "arrow":
                return _json_rows(self.data)
            case _:
                return (self.data,)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files of data sets: those that are named, and of folders those below whose names end like one's, sorted.

    Raises `ConfigError` for a folder without any, and for what is not there.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            below = [file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES and file.is_file()]
            inside = [file for file in below if not any(part[0] == "." for part in file.relative_to(path).parts)]
            if not inside:
                raise ConfigError(f"no {' or '.join(f'*{end}' for end in SUFFIXES)} is in {path}")
            found |= dict.fromkeys(inside)
        elif path.is_file():
            found[path] = None
        else:
            raise ConfigError(f"cannot read {path}: there is no such file", code="unreadable_input")
    return list(found)


def chunks(files: Sequence[Path], start: Place, limit: int | None = None) -> Iterator[Chunk]:
    """Yields the rows of the files from ``start`` on, in order; ``limit``: the first so many of them.

    What cannot be read of a file is a chunk with a ``problem``, behind which the next file comes.
    """
    left = limit
    for number, path in enumerate(files[start.file :], start.file):
        place = start if number == start.file else Place(number)
        try:
            for chunk in _of_file(path, place):
                if left is not None:
                    chunk = _first(chunk, left)
                    left -= chunk.count
                yield chunk
                if left == 0:
                    return
        except ConfigError:
            raise
        except (AntiphonError, OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors and OSErrors
            code = error.code if isinstance(error, AntiphonError) else "unreadable_input"
            at = f" at {error.position}" if isinstance(error, AntiphonError) and error.position else ""
            words = getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)
            yield Chunk(str(path), 0, "text", b"", Place(number + 1), 0, (code, f"{words}{at}"))


def _first(chunk: Chunk, left: int) -> Chunk:
    """The chunk, of whose rows only so many are read."""
    end = chunk.end
    if chunk.problem is not None or chunk.count <= left:
        return chunk
    if chunk.kind == "lines":
        data = b"\n".join(chunk.data.split(b"\n", left)[:left])
    else:
        import pyarrow

        data = _stream(pyarrow.ipc.open_stream(chunk.data).read_next_batch().slice(0, left))
    return msgspec.structs.replace(chunk, data=data, end=Place(end.file, chunk.first - 1 + left, end.offset))


def _of_file(path: Path, start: Place) -> Iterator[Chunk]:
    match path.suffix:
        case ".parquet":
            return _batches(path, start)
        case suffix if suffix in TEXTS:
            return _text(path, start)
        case ".json":
            return _json(path, start)
        case _:
            return _lines(path, start)


def _lines(path: Path, start: Place) -> Iterator[Chunk]:
    row, name = start.row, str(path)
    with path.open("rb") as file:
        file.seek(start.offset)
        while data := file.read(CHUNK):
            data += file.readline(LONGEST_ROW) if not data.endswith(b"\n") else b""
            before, _, last = data.removesuffix(b"\n").rpartition(b"\n")
            cut = len(last) > LONGEST_ROW
            rest = data
            while cut and rest and not rest.endswith(b"\n"):
                rest = file.readline(LONGEST_ROW)
            whole = before if cut else data
            if whole:
                end = Place(start.file, row + whole.count(b"\n") + (not whole.endswith(b"\n")), file.tell())
                text = whole if row else whole.removeprefix(b"\xef\xbb\xbf")
                yield Chunk(name, row + 1, "lines", text, end, len(whole))
                row = end.row
            if cut:
                row += 1
                problem = ("not_json", f"the row has more than {LONGEST_ROW} bytes")
                yield Chunk(name, row, "text", b"", Place(start.file, row, file.tell()), len(last), problem)


def _json(path: Path, start: Place) -> Iterator[Chunk]:
    """Rows of a file that is one list of them; a file that is anything else is one row."""
    with path.open("rb") as file:
        if file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"[":
            yield from _text(path, start)
            return
        file.seek(0)
        row, begun, size = start.row, list[bytes](), 0
        try:
            for _, index, value in entries(file):
                if index is None or index < start.row:
                    continue
                begun.append(json.dumps(value).encode())
                size += len(begun[-1])
                if size >= CHUNK:
                    yield _joined(path, start.file, row, begun, size)
                    row, begun, size = row + len(begun), [], 0
        except AntiphonError as error:  # the rows before it are read all the same
            if begun:
                yield _joined(path, start.file, row, begun, size)
            where = error.position or Position(line=row + len(begun))
            problem = (error.code, f"{error.message} at {where}: the rest of the file is not read")
            yield Chunk(str(path), row + len(begun) + 1, "text", b"", Place(start.file + 1), 0, problem)
            return
        if begun:
            yield _joined(path, start.file, row, begun, size)


def _joined(path: Path, file: int, row: int, rows: list[bytes], size: int) -> Chunk:
    return Chunk(str(path), row + 1, "lines", b"\n".join(rows), Place(file, row + len(rows)), size)


def _text(path: Path, start: Place) -> Iterator[Chunk]:
    if start.row:
        return
    size = path.stat().st_size
    problem = ("not_json", f"the row has more than {LONGEST_ROW} bytes") if size > LONGEST_ROW else None
    yield Chunk(str(path), 1, "text", b"" if problem else path.read_bytes(), Place(start.file, 1), size, problem)


# Parquet, by an optional package.


def _batches(path: Path, start: Place) -> Iterator[Chunk]:
    with extra("datasets", "a Parquet file"):
        import pyarrow.parquet as parquet
    row = 0
    with parquet.ParquetFile(path) as file:
        share = path.stat().st_size / max(1, file.metadata.num_rows)
        for batch in file.iter_batches(batch_size=BATCH):
            before, row = row, row + batch.num_rows
            if row <= start.row:
                continue
            batch = batch.slice(max(0, start.row - before))
            end = Place(start.file, row)
            yield Chunk(str(path), row - batch.num_rows + 1, "arrow", _stream(batch), end, int(batch.num_rows * share))


def _stream(batch: Any) -> bytes:
    """A record batch as an Arrow IPC stream."""
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _json_rows(data: bytes) -> Iterator[bytes]:
    """The rows of a record batch as JSON. A field that is null there is left out: Parquet has no other word for it."""
    import pyarrow

    for row in pyarrow.ipc.open_stream(data).read_next_batch().to_pylist():
        try:
            yield msgspec.json.encode(_without_nulls(row))
        except (TypeError, ValueError):
            yield repr(row).encode()  # no JSON: the row is named as such


def _without_nulls(value: Any) -> Any:
    match value:
        case dict():
            return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
        case list():
            return list(map(_without_nulls, value))
        case _:
            return value
