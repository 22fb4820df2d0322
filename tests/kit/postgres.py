"""A real PostgreSQL server and a real pgbouncer, on Unix sockets in a temporary folder."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict
from urllib.parse import quote

import psycopg

from .waiting import wait_until

NOBODY = 65534
"""Neither server runs as root."""
_QUICK = ("fsync=off", "full_page_writes=off", "shared_buffers=32MB", "max_connections=80")
_numbers = itertools.count()


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs, which Debian has in folders that are in nobody's path."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin") or next(map(str, places), None)
    assert found, f"{name} is not installed: `make postgres` does that"
    return found


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, **_identity(), capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _identity() -> _Identity:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@dataclass(slots=True)
class Postgres:
    """``folder`` has the data and the socket."""

    folder: Path
    bouncer: subprocess.Popen[bytes] | None = field(default=None)

    def address(self, database: str, *, port: int = 5432) -> str:
        return f"postgresql://postgres@{quote(str(self.folder), safe='')}:{port}/{database}"

    def admin(self) -> psycopg.Connection:
        return psycopg.connect(self.address("postgres"), autocommit=True)

    @contextmanager
    def database(self) -> Iterator[str]:
        """A new one, which is empty."""
        name = f"test{next(_numbers)}"
        with self.admin() as connection:
            connection.execute(f"CREATE DATABASE {name}")
        try:
            yield name
        finally:
            with self.admin() as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def start(self) -> None:
        settings = (*_QUICK, "listen_addresses=", f"unix_socket_directories={self.folder}")
        options = " ".join(f"-c {one}" for one in settings)
        self._control("-l", f"{self.folder}/log", "-o", options, "start")

    def stop(self) -> None:
        """At once: what a crash does."""
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        _run([program("pg_ctl"), "-D", f"{self.folder}/data", "-w", *arguments])

    def bounced(self, database: str) -> str:
        """The address of a database behind pgbouncer, which gives each transaction another connection."""
        if self.bouncer is None:
            (self.folder / "bouncer.ini").write_text(
                f"[databases]\n* = host={self.folder} port=5432 user=postgres\n"
                f"[pgbouncer]\npool_mode = transaction\nlisten_port = 6432\nunix_socket_dir = {self.folder}\n"
                "auth_type = any\ndefault_pool_size = 4\nserver_round_robin = 1\nmax_client_conn = 200\n"
            )
            self.bouncer = subprocess.Popen(
                [program("pgbouncer"), "-q", f"{self.folder}/bouncer.ini"], **_identity(), stderr=subprocess.DEVNULL
            )
            wait_until(lambda: _listens(self.folder / ".s.PGSQL.6432"))
        return self.address(database, port=6432)


def _listens(path: Path) -> bool:
    """Whether a server takes connections at a socket, which is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server that ends with the context, and its folder with it."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    server = Postgres(folder)
    try:
        _run([program("initdb"), "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "-N"])
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        if server.bouncer is not None:
            server.bouncer.terminate()
            server.bouncer.wait()
        shutil.rmtree(folder)
