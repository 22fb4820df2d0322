"""The program at a terminal, where a person types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from kit.waiting import PATIENCE

LONGEST = 120
PROMPT = "▸"
AT_TERMINAL = (
    sys.executable,
    "-c",
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from antiphon.cli import main; main()",
)
"""The program in a session of its own: what is typed as Ctrl-C interrupts it."""
SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][0-9A-B]?)")
"""What moves the cursor or changes a colour."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what was on the screen until then."""

    returncode: int
    screen: str


def typed(command: Sequence[str], environ: Mapping[str, str], lines: str = "") -> Ended:
    """Runs a program at a terminal of its own, into which ``lines`` are typed beforehand."""
    ours, theirs = pty.openpty()
    os.write(ours, lines.encode())
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environ)) as process:
        os.close(theirs)
        screen = _screen(ours)
        code = process.wait(LONGEST)
    os.close(ours)
    return Ended(code, screen)


def _screen(terminal: int) -> str:
    """What comes until nobody has the terminal open any longer."""
    shown = b""
    with suppress(OSError):  # how Linux says that it is closed
        while part := os.read(terminal, 65_536):
            shown += part
    return shown.decode(errors="replace").replace("\r\n", "\n")


@dataclass(slots=True)
class Terminal:
    """A program at a terminal. ``raw`` is all that came; what was waited for is not looked at again."""

    process: subprocess.Popen[bytes]
    ours: int
    raw: bytes = b""
    seen: int = field(default=0)

    @property
    def text(self) -> str:
        """What came, without what moves the cursor."""
        return SEQUENCE.sub("", self.raw.decode(errors="replace")).replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def until(self, words: str) -> str:
        """Waits for the words, after what was waited for before; what came up to them."""
        deadline = time.monotonic() + PATIENCE
        while (place := self.text.find(words, self.seen)) < 0:
            if time.monotonic() > deadline or not self._read():
                raise AssertionError(f"{words!r} did not come after:\n{self.text[self.seen :]}")
        before, self.seen = self.text[self.seen : place], place + len(words)
        return before

    def enter(self, line: str, words: str) -> str:
        """Types a line, which the editor then shows once more, and waits for the words; what came until then."""
        self.type(f"{line}\r")
        self.until(PROMPT)
        return self.until(words)

    def ended(self) -> int:
        """Waits for the program's end; its exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self.ours], [], [], PATIENCE)[0]:
            return False
        try:
            part = os.read(self.ours, 65_536)
        except OSError:  # how Linux says that nobody has the terminal open any longer
            return False
        self.raw += part
        return bool(part)


@contextmanager
def at_terminal(*arguments: str, environ: Mapping[str, str], rows: int = 40, columns: int = 120) -> Iterator[Terminal]:
    """The program at a terminal of its own, killed at the end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environ = {**environ, "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*AT_TERMINAL, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
