"""A line on a terminal for whatever cannot say how far it is: what is waited for, and for how many seconds."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .progress import PATIENCE, QUIET, is_watched
from .terminal import safe

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PERIOD = 0.1
ERASE = "\r\x1b[K"


def dim(text: str) -> str:
    """The text in grey on a terminal that has colours."""
    return f"\x1b[2m{text}\x1b[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text


class StatusLine:
    """The last line of a terminal's stderr while something is waited for; nothing where stderr is no terminal.

    The cursor must stand at the beginning of a line at `begin`, and stands there again after `end`. Nothing else may
    be printed between the two.
    """

    def __init__(self) -> None:
        self._visible = is_watched()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, words: str | Callable[[], str], *, after: float = 0.3) -> None:
        """Shows ``words``, which may be others each time, once ``after`` seconds have passed; ends what was shown."""
        self.end()
        if self._visible:
            self._over.clear()
            self._thread = threading.Thread(target=self._draw, args=(words, time.monotonic(), after), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Erases the line, where there is one."""
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._thread = None

    def _draw(self, words: str | Callable[[], str], began: float, after: float) -> None:
        drawn = False
        wait = after
        while not self._over.wait(wait):
            seconds = time.monotonic() - began
            frame = FRAMES[int(seconds / PERIOD) % len(FRAMES)]
            shown = safe(words if isinstance(words, str) else words())
            room = max(1, shutil.get_terminal_size().columns - 12)
            sys.stderr.write(ERASE + dim(f"{frame} {shown[:room]} {seconds:.1f} s"))
            sys.stderr.flush()
            drawn, wait = True, PERIOD
        if drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()


@contextmanager
def waiting_for(words: str | Callable[[], str], *, after: float = 0.3) -> Iterator[None]:
    """Shows on a terminal that ``words`` are waited for while the block runs, once ``after`` seconds have passed."""
    status = StatusLine()
    status.begin(words, after=after)
    try:
        yield
    finally:
        status.end()


@contextmanager
def then_waiting(parts: Iterator[bytes], words: str) -> Iterator[Iterator[bytes]]:
    """The parts; once the last was read, ``words`` are waited for: some forms are written only when all is read.

    Without words nothing is shown: where the result itself goes to the terminal.
    """
    status = StatusLine()

    def read() -> Iterator[bytes]:
        yield from parts
        if words:
            status.begin(words, after=PATIENCE)

    try:
        yield read()
    finally:
        status.end()


def say(words: str) -> None:
    """A line on stderr, also while something is waited for."""
    terminal = sys.stderr.isatty()
    print(f"{ERASE}{safe(words)}" if terminal else words, file=sys.stderr, flush=True)


def each_of(files: Sequence[Path], doing: str) -> Iterator[Path]:
    """The files one by one; on a terminal, how many of them are done, or the one that is alone.

    What is done with a file shows no bar of its own meanwhile.
    """
    done = 0

    def words() -> str:
        return f"{doing} {files[0].name}" if len(files) == 1 else f"{doing}: {done} of {len(files)} files"

    with waiting_for(words, after=PATIENCE):
        before = QUIET.set(True)
        try:
            for file in files:
                yield file
                done += 1
        finally:
            QUIET.reset(before)
