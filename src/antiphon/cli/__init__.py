"""The command line: one file a command, and only the file of the command that runs is imported."""

from __future__ import annotations

import gc
import sys

from antiphon.version import __version__


def main() -> None:
    """The program ``antiphon``. Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 server or engine, 130 Ctrl-C."""
    if sys.argv[1:] == ["--version"]:
        print(f"antiphon {__version__}")
        return
    gc.disable()  # what is imported stays: to look through it again and again would be a tenth of a short command
    try:
        from .app import run  # after the version, which must not wait for it

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while it imports: what a command does with Ctrl-C is its own
        code = 130
    gc.freeze()  # all ends with the process: to look for circles in it would take as long as a short command
    sys.exit(code)
