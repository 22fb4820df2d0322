"""Servers over a store in a file, which tests kill: ``crashing.py batches|responses FOLDER`` prints the URL of one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from antiphon.http.server.server import Server
from antiphon.store import SessionLimits, SqliteStore
from kit.api import END, app, ids, scripted

# What a server of batches that was killed had is the next one's in a second.
KINDS = {"batches": (0.0005, SessionLimits(lease=1.0)), "responses": (0.001, SessionLimits())}
"""Seconds between two tokens, and limits of what is stored."""


@contextmanager
def crashing(kind: str, folder: Path) -> Iterator[str]:
    """The URL of a server in a process of its own, which is killed in the end."""
    command = [sys.executable, "-m", "kit.crashing", kind, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    delay, limits = KINDS[sys.argv[1]]
    engine = scripted(ids("word " * 2, END), delay=delay, slots=5)
    store = SqliteStore(Path(sys.argv[2]) / "store.db")
    application = app(engine, store=store, session_limits=limits)
    Server(application, on_ready=lambda url: print(url, flush=True)).run()
