"""One of several servers over a store in a file, which tests kill and stop: ``several_servers.py FILE EVENTS``.

It prints its URL, says ``word`` a hundred times, a word in 20 ms, and is taken for dead after a second. EVENTS is
``streams`` where it records what it streams, or ``none``: then that ends with it.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from antiphon.config import Limits
from antiphon.http.server.server import Server
from antiphon.store import RunLimits, SessionLimits, SqliteStore
from kit.api import END, app, ids, rest_of, scripted
from kit.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[1]
LEASE = 1.0
WORDS = 100


@dataclass(frozen=True, slots=True)
class Running:
    """A server in a process of its own."""

    base: str
    process: subprocess.Popen[str]
    file: Path

    def pause(self) -> None:
        """It hears and says nothing until `resume`, and knows nothing of it.

        Not in the middle of a write, for which SQLite would let all others wait.
        """
        wait_until(self._paused)

    def _paused(self) -> bool:
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: "\nState:\tT" in Path(f"/proc/{self.process.pid}/status").read_text())
        if writable(self.file):
            return True
        self.resume()
        return False

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @contextmanager
    def begun(self, path: str, fields: dict[str, Any], **headers: str) -> Iterator[HTTPResponse]:
        """The answer to a request, of which nothing but the first line has come."""
        address = urlsplit(self.base)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)
        try:
            connection.request("POST", path, json.dumps(fields), {"content-type": "application/json", **headers})
            with connection.getresponse() as answer:
                answer.readline()
                yield answer
        finally:
            connection.close()


def writable(file: Path) -> bool:
    """Whether nobody writes to the store in this moment."""
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


@contextmanager
def server(file: Path, events: str = "none") -> Iterator[Running]:
    """A server over the store in ``file``, killed in the end."""
    command = [sys.executable, "-m", "kit.several_servers", str(file), events]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield Running(process.stdout.readline().strip(), process, file)
        finally:
            process.kill()
            process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    reply = ids(*["word "] * WORDS, END)
    engine = scripted(lambda prompt, *_: rest_of(reply, prompt), delay=0.02, chunk=5, slots=5)
    application = app(
        engine,
        store=SqliteStore(Path(sys.argv[1])),
        session_limits=SessionLimits(lease=LEASE, runs=RunLimits("streams" if sys.argv[2] == "streams" else "none")),
        limits=Limits(requests_per_minute=10**6),
    )
    Server(application, on_ready=lambda url: print(url, flush=True)).run()
