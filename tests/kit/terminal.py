"""The program at a terminal, where a person types."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

LONGEST = 120


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
