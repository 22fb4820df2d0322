"""``antiphon stop``: a server of this user's ends, once its answers are whole."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from antiphon.errors import NotFoundError, RequestError

from .options import JsonOption, print_json
from .running import RunningServer, run_folder, running_servers
from .terminal import tell


def command(
    server: Annotated[
        str | None,
        typer.Argument(metavar="[PORT|PID|URL]", help="Which one, as `antiphon ps` has it; needed where several run."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it has ended.")] = True,
    json: JsonOption = False,
) -> None:
    """Stop a server that `antiphon ps` lists. It takes no new requests and ends once its answers are whole.

    They have `server.drain` seconds (30 by default).
    """
    number = None if server is None else server.rstrip("/").rpartition(":")[2]
    if number is not None and not (number.isascii() and number.isdigit()):
        raise RequestError(f"{server!r} is no port, process or address", hint="antiphon ps lists those that run here.")
    chosen = choose(running_servers(run_folder(os.environ)), int(number) if number else None)
    chosen.stop()
    if wait:
        chosen.wait()
    if json:
        print_json({"url": chosen.url, "pid": chosen.pid, "ended": not chosen.is_alive})
    else:
        tell(f"{chosen.url} {'has ended' if wait else 'ends'}")


def choose(servers: list[RunningServer], port_or_pid: int | None) -> RunningServer:
    """The server of a port or process. Raises `NotFoundError` where there is none, `RequestError` for several."""
    found = [server for server in servers if port_or_pid in (None, server.port, server.pid)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{server.port} (pid {server.pid})" for server in found or servers)
    if not found:
        which = "" if port_or_pid is None else f" of port or process {port_or_pid}"
        hint = f"There are {listed}." if servers else "antiphon ps lists those that run here."
        raise NotFoundError(f"no server{which} runs here", code="not_found", hint=hint)
    raise RequestError("several servers run here", hint=f"Name a port or a process: {listed}.")
