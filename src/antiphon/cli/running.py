"""The servers that run here: each writes a file while it serves, which says what it is."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import platformdirs

from antiphon.config import Config, find_entry
from antiphon.config.load import HOME
from antiphon.errors import ConfigError
from antiphon.version import __version__

if TYPE_CHECKING:  # `ps` and `stop` serve nothing
    from antiphon.library.app import ModelSummary


# Ports of this machine: whether one is free, and who has it.

PRIVILEGED = 1024
TRIES = 20
LISTEN = "0A"
"""A listening socket's state in the tables of Linux."""


def check_free(host: str, port: int) -> None:
    """Raises `ConfigError` for a port at which nothing can listen, with who has it and one that is free."""
    fault = bind_fault(host, port)
    if fault is None:
        return
    match fault.errno:
        case errno.EADDRINUSE:
            owner = listener(port)
            others = (other for other in range(port + 1, min(port + TRIES, 65_536)) if bind_fault(host, other) is None)
            free = next(others, 0)
            raise ConfigError(
                f"port {port} of {host} is taken" + (f" by {owner}" if owner else ""),
                code="port_taken",
                hint=f"Stop that, or say --port {free}.",
            )
        case errno.EACCES:
            lower = f": ports below {PRIVILEGED} are the system's" if port < PRIVILEGED else ""
            raise ConfigError(f"you may not listen at port {port}{lower}", code="port_taken", hint="Say --port 8080.")
        case errno.EADDRNOTAVAIL:
            raise ConfigError(f"{host} is no address of this machine", code="port_taken", hint=HOSTS)
        case _:
            raise ConfigError(f"cannot listen at {host}:{port}: {fault.strerror}", code="port_taken", hint=HOSTS)


HOSTS = "--host 127.0.0.1 is this machine alone, --host 0.0.0.0 all of its addresses."


def bind_fault(host: str, port: int) -> OSError | None:
    """Why nothing can listen there; None: something can."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, _, _, address in found:
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        return error
    return None


def listener(port: int) -> str:
    """``name (pid)`` of the process that listens at the port; empty where the system does not say."""
    inodes = {line[9] for line in socket_table() if line[3] == LISTEN and line[1].endswith(f":{port:04X}")}
    for process in Path("/proc").glob("[0-9]*") if inodes else ():
        with suppress(OSError):
            if any(inode_of(descriptor) in inodes for descriptor in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
    return ""


def socket_table() -> list[list[str]]:
    """The TCP sockets of this machine, a row each; none where the system does not list them."""
    rows: list[list[str]] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            rows += [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return rows


def inode_of(descriptor: Path) -> str:
    """The inode of the socket that a process has open by that name; empty for what is no socket."""
    try:
        found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
    except OSError:
        return ""
    return found[1] if found else ""


PAUSE = 0.05
"""Seconds between two looks at a process that ends."""
Announce = Callable[[str, str | None, "ModelSummary"], None]


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of ours. ``started`` is when its process began, in the system's own words: ids are used again.

    ``since`` is a Unix time, ``certificate`` the file of its TLS certificate, which is trusted to ask it.
    """

    pid: int
    started: str
    url: str
    model: str
    since: float
    workers: int = 1
    version: str = __version__
    certificate: str | None = None

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def is_alive(self) -> bool:
        return started(self.pid) == self.started

    def stop(self) -> None:
        """Lets its answers end, and takes no new ones."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def wait(self) -> None:
        """Until the process has ended."""
        while self.is_alive:
            time.sleep(PAUSE)


def run_folder(environ: Mapping[str, str]) -> Path:
    """The folder in which servers are registered: below ANTIPHON_HOME, else in the user's folder of states."""
    home = environ.get(HOME)
    base = Path(home).expanduser() if home else platformdirs.user_state_path("antiphon", appauthor=False)
    return base / "run"


@contextmanager
def registered(config: Config, announce: Announce) -> Iterator[Announce]:
    """``announce`` for a server, which also registers it; at the end of the block it is no longer there.

    A folder that cannot be written is no reason not to serve: `antiphon ps` then does not know the server.
    """
    file = run_folder(os.environ) / f"{os.getpid()}.json"

    def announce_registered(url: str, also: str | None, summary: ModelSummary) -> None:
        own = RunningServer(
            pid=os.getpid(),
            started=started(os.getpid()) or "",
            url=url,
            model=find_entry(config.model, config.entries)[0],
            since=time.time(),
            workers=config.server.workers,
            certificate=str(Path(config.server.tls_cert).absolute()) if config.server.tls_cert else None,
        )
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = file.with_suffix(".part")
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
                sink.write(msgspec.json.encode(own))
            partial.replace(file)
        announce(url, also, summary)

    try:
        yield announce_registered
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def running_servers(folder: Path) -> list[RunningServer]:
    """The registered servers by their ports. What others left, killed or of another boot, is removed."""
    found = []
    for file in folder.glob("*.json"):
        try:
            server = msgspec.json.decode(file.read_bytes(), type=RunningServer)
        except (OSError, msgspec.DecodeError):
            continue
        if server.is_alive:
            found.append(server)
        else:
            file.unlink(missing_ok=True)
    return sorted(found, key=lambda server: (server.port, server.pid))


def started(pid: int) -> str | None:
    """When a process began, in words that no other process with its id has; None: there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Where there is no /proc, ps says it.
        command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
        found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a number alone varies
        return found.stdout.strip() or None
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else f"{boot} {fields[18]}"  # field 22 of proc(5), its first two being the name's


def memory(pid: int) -> int | None:
    """Bytes of memory that a process and those that it started have; None where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return None
    own = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:")), 0)
    return own + sum(memory(int(child)) or 0 for child in children)
