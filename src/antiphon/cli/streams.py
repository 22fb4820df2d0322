"""Files and pipes of any length: read in parts with a bar on a terminal, written in parts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Protocol

from antiphon.errors import ConfigError
from antiphon.writing import written

from .progress import progress_bar
from .terminal import TerminalSink

CHUNK = 1 << 18
"""Bytes that are read at once."""
MOST_NAMES = 2_000
"""Names of a folder that are looked through for one like a name that is not there."""


class Sink(Protocol):
    """Takes bytes in parts."""

    def write(self, content: bytes, /) -> int: ...

    def flush(self) -> None: ...


def chunks(file: Path) -> Iterator[bytes]:
    """The bytes of a file, part by part; ``-`` is standard input. Raises `ConfigError` when it cannot be read."""
    try:
        with opened(file) as source, progress_bar(file.name, length(file)) as progress:
            done = 0
            while chunk := source.read(CHUNK):
                yield chunk
                done += len(chunk)
                progress(done, None)
    except OSError as error:
        raise unreadable(file, error) from None


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
def opened(file: Path) -> Iterator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    with file.open("rb") as source:
        yield source


def length(file: Path) -> int | None:
    return file.stat().st_size if str(file) != "-" and file.is_file() else None


@contextmanager
def output(file: Path | None, *, replace: bool = True) -> Iterator[Sink]:
    """Where a result goes: standard output, or a file as `written` gives it.

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
