"""The program as a user has it: a real process in a home of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = (sys.executable, "-c", "from antiphon.cli import main; main()")


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON_")}
    return {**clean, "ANTIPHON_HOME": str(home), **more}


def antiphon(*arguments: str, home: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """One run of the program, whose output goes to pipes."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin, capture_output=True, text=True, timeout=120, check=False, env=environment(home, **environ),
    )  # fmt: skip
