"""A line on a terminal for whatever cannot say how far it is: what is waited for, and for how many seconds."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .progress import is_watched

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PERIOD = 0.1
ERASE = "\r\x1b[K"


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
            shown = words if isinstance(words, str) else words()
            room = max(1, shutil.get_terminal_size().columns - 12)
            sys.stderr.write(f"{ERASE}\x1b[2m{frame} {shown[:room]} {seconds:.1f} s\x1b[0m")
            sys.stderr.flush()
            drawn, wait = True, PERIOD
        if drawn:
            sys.stderr.write(ERASE)
            sys.stderr.flush()


@contextmanager
def waiting_for(words: str | Callable[[], str]) -> Iterator[None]:
    """Shows on a terminal that ``words`` are waited for while the block runs."""
    status = StatusLine()
    status.begin(words)
    try:
        yield
    finally:
        status.end()
