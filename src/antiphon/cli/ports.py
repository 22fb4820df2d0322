"""Ports of this machine: whether one is free, and who has it."""

from __future__ import annotations

import errno
import os
import re
import socket
from contextlib import suppress
from pathlib import Path

from antiphon.errors import ConfigError

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
            hint = "--host 127.0.0.1 is this machine alone, --host 0.0.0.0 all of its addresses."
            raise ConfigError(f"{host} is no address of this machine", code="port_taken", hint=hint)
        case _:
            raise ConfigError(f"cannot listen at {host}:{port}: {fault.strerror}", code="port_taken")


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
