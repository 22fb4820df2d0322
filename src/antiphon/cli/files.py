"""The files that a command is given: by name, or all those of a form in a folder."""

from __future__ import annotations

import difflib
import glob
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Protocol, cast

from antiphon.errors import AntiphonError, ConfigError, ParseError, Position
from antiphon.writing import write, written

from .terminal import TerminalSink, progress_bar

# Files and pipes of any length: read in parts with a bar on a terminal, written in parts.

STANDARD = Path("-")
"""Standard input or output."""
CHUNK = 1 << 18
"""Bytes that are read at once."""
MOST_NAMES = 2_000
"""Names of a folder that are looked through for one like a name that is not there."""


class Sink(Protocol):
    """Takes bytes in parts."""

    def write(self, content: bytes, /) -> int: ...

    def flush(self) -> None: ...


def chunks(file: Path) -> Iterator[bytes]:
    """The bytes of a file as they come; ``-`` is standard input. Raises `ConfigError` when it cannot be read."""
    try:
        size = file.stat().st_size if str(file) != "-" and file.is_file() else None
        with opened(file) as source, progress_bar(file.name, size) as progress:
            done = 0
            while chunk := source.read1(CHUNK):  # as much as is there
                yield chunk
                done += len(chunk)
                progress(done, None)
    except OSError as error:
        raise unreadable(file, error) from None


@contextmanager
def named_in_errors(file: Path) -> Iterator[None]:
    """A `ParseError` leaves with the name of the file that it is about, as a note."""
    try:
        yield
    except ParseError as error:
        error.add_note(f"  in {'standard input' if file == STANDARD else file}")
        raise


def error_line(file: Path, error: AntiphonError, number: int | None = None) -> str:
    """The error of one of many files, or of a line of one, with its place in there."""
    at = error.position or Position()
    place = f"{file}" if number is None else f"{file}:{number}"
    if number is not None and at.line == 1:
        place += f":{at.column}"
    elif (within := str(at) if number is None else at.path) and not error.message.startswith(within):
        place += f": {within}"
    return f"{place}: {error.message}  [{error.code}]{f'  {error.hint}' if error.hint else ''}"


def check_readable(file: Path) -> None:
    """Raises the `ConfigError` of `chunks` beforehand, for what prints as it reads."""
    try:
        if str(file) != "-" and not file.is_fifo():  # whose writer would see it closed
            file.open("rb").close()
    except OSError as error:
        raise unreadable(file, error) from None


def unreadable(file: Path, error: OSError) -> ConfigError:
    return ConfigError(f"cannot read {file}: {error.strerror}", code="unreadable_input", hint=near_file(file))


def near_file(file: Path) -> str | None:
    """A hint with the names in the folder that are most like that of a file that is not there; None: no hint."""
    try:
        names = [] if file.exists() else [other.name for other in islice(file.parent.iterdir(), MOST_NAMES)]
    except OSError:
        return None
    close = get_close_matches(file.name, names, n=3, cutoff=0.6)
    return f"Did you mean {', '.join(str(file.with_name(name)) for name in close)}?" if close else None


@contextmanager
def opened(file: Path) -> Iterator[BufferedReader]:
    if str(file) == "-":
        yield cast("BufferedReader", sys.stdin.buffer)
        return
    with file.open("rb") as source:
        yield source


@contextmanager
def output(file: Path | None, *, replace: bool = True) -> Iterator[Sink]:
    """Opens the sink of a result: standard output, or a file as `written` gives it.

    Raises `ConfigError` when the file cannot be written.
    """
    if file is None or str(file) == "-":
        sink = TerminalSink() if sys.stdout.isatty() else sys.stdout.buffer
        yield sink
        sink.flush()
        return
    sys.stdout.flush()  # the file may be where it goes
    with written(file, replace=replace) as sink:
        yield sink


SUFFIXES: Mapping[str, tuple[str, ...]] = {
    "openchatml": (".ocm", ".openchatml"),
    "harmony": (".harmony",),
    "harmony-ids": (".ids",),
    "harmony-json": (".json",),
    "chat": (".json",),
    "responses": (".json",),
    "json": (".json",),
}
"""The names of files of a form, in folders; a file that is named itself may have any name."""
EVERY_SUFFIX = tuple(dict.fromkeys(suffix for suffixes in SUFFIXES.values() for suffix in suffixes))
LINES = ".jsonl"
"""The end of a file's name that has a conversation a line."""
SIDECAR = ".sidecar.json"
"""The end of a file's name that has what a conversion lost of another."""


def files_of(paths: Iterable[Path], form: str | None = "openchatml") -> list[Path]:
    """Each file once, those of folders and patterns in the order of their names; ``-`` is standard input.

    ``form`` None: files of any form. Raises `ConfigError` for a folder or a pattern that has none.
    """
    return list(files_below(paths, form))


def files_below(paths: Iterable[Path], form: str | None) -> dict[Path, Path]:
    """Each file, and its path below the folder that was named; its name alone where it was named itself."""
    suffixes = EVERY_SUFFIX if form is None else SUFFIXES.get(form, (f".{form}",))
    return {file: relative for path in paths for file, relative in _files(path, suffixes)}


def is_pattern(path: Path) -> bool:
    """Whether it is a pattern of any number of files: ``chats/*.json``."""
    return not path.exists() and glob.has_magic(str(path))


def _files(path: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[Path, Path]]:
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.suffix in suffixes and file.is_file())
        found = [(file, file.relative_to(path)) for file in inside if not file.name.endswith(SIDECAR)]
        found = [
            (file, relative) for file, relative in found if not any(part.startswith(".") for part in relative.parts)
        ]
        if not found:
            lines = next((str(file) for file in sorted(path.rglob(f"*{LINES}"))), None)
            hint = f"A data set is named itself: {lines}" if lines else None
            raise ConfigError(f"no {' or '.join(f'*{suffix}' for suffix in suffixes)} is in {path}", hint=hint)
        yield from found
    elif is_pattern(path):
        matching = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
        if not matching:
            raise ConfigError(f"no file is named like {path}")
        yield from ((file, Path(file.name)) for file in matching if file.is_file())
    else:
        yield path, Path(path.name)


def write_back(file: Path, before: bytes, after: bytes) -> None:
    """Writes the file anew where it changes; what came by standard input goes to standard output."""
    if file == STANDARD:
        with output(None) as sink:
            sink.write(after)
    elif after != before:
        write(file, after)


def content_of(file: Path) -> bytes:
    """All of a file, or of standard input. Raises `ConfigError` when it cannot be read."""
    return b"".join(chunks(file))


def difference(file: Path, before: bytes, after: bytes) -> bytes:
    """The change of a file as a unified diff, which `patch` takes."""
    old, new = (_lines(text.decode("utf-8", "surrogateescape")) for text in (before, after))
    lines = difflib.unified_diff(old, new, f"{file}", f"{file}")
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return "".join(ended).encode("utf-8", "surrogateescape")


def _lines(text: str) -> list[str]:
    """Lines that only a line feed ends, as `patch` has them."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
