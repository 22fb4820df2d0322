"""``antiphon ps``: the servers that run here, and what they do."""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Mapping
from typing import Annotated
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

import msgspec
import typer
from prometheus_client.parser import text_string_to_metric_families

from antiphon.errors import words_of

from .clients import check_variable
from .options import JsonOption, megabytes, print_json, print_table
from .running import RunningServer, memory, run_folder, running_servers
from .terminal import tell

PATIENCE = 3.0
"""Seconds that a server may take to say how it is."""
LARGEST = 1 << 24
FORBIDDEN = (401, 403)


class LoadedModel(msgspec.Struct, frozen=True):
    """A model in memory: ``busy`` of its ``slots`` make answers now."""

    name: str
    slots: int
    busy: int


class ServerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server and what it does. ``note`` says why ``models``, ``running`` and ``waiting`` are not known."""

    url: str
    port: int
    pid: int
    model: str
    workers: int
    version: str
    since: float
    memory: int | None = None
    models: tuple[LoadedModel, ...] = ()
    running: int | None = None
    waiting: int | None = None
    note: str = ""


def command(
    key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds a key of scope admin.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the servers of this user that run here: models, busy slots, requests, memory, since when.

    A server that has API keys says what it does to keys of scope `admin` only (--key-variable).
    """
    check_variable(key_variable)
    key = os.environ.get(key_variable, "") if key_variable else ""
    states = [state_of(server, key) for server in running_servers(run_folder(os.environ))]
    if json:
        print_json({"servers": states})
    elif not states:
        tell("no server runs here; antiphon serve starts one")
    else:
        print_table(("url", "pid", "models", "requests", "memory", "up"), [row(state) for state in states])


def state_of(server: RunningServer, key: str = "") -> ServerState:
    """Asks a server for its state; ``note`` says why it does not answer."""
    known = ServerState(
        server.url, server.port, server.pid, server.model, server.workers, server.version, server.since,
        memory(server.pid),
    )  # fmt: skip
    request = Request(f"{server.url}/metrics", headers={"authorization": f"Bearer {key}"} if key else {})  # noqa: S310 - its own
    try:
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trusting(server.certificate)))
        with opener.open(request, timeout=PATIENCE) as answer:
            samples = samples_of(answer.read(LARGEST).decode())
    except HTTPError as refused:
        reason = "it has keys: --key-variable names one of scope admin" if refused.code in FORBIDDEN else str(refused)
        return msgspec.structs.replace(known, note=reason)
    except (OSError, ValueError) as error:
        return msgspec.structs.replace(known, note=f"it does not answer: {words_of(error)}")
    slots, busy = (samples.get(f"antiphon_{name}", {}) for name in ("engine_slots", "turns_running"))
    running, waiting = (samples.get(f"antiphon_requests_{name}", {}) for name in ("running", "waiting"))
    return msgspec.structs.replace(
        known,
        models=tuple(LoadedModel(name, int(slots[name]), int(busy.get(name, 0))) for name in sorted(slots)),
        running=int(sum(running.values())),
        waiting=int(sum(waiting.values())),
    )


def trusting(certificate: str | None) -> ssl.SSLContext:
    """TLS that trusts this certificate itself, whoever signed it and whatever address it is for."""
    tls = ssl.create_default_context(cafile=certificate)
    tls.check_hostname = False
    tls.verify_flags = ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return tls


def samples_of(text: str) -> Mapping[str, Mapping[str, float]]:
    """The value of each metric by its model; ``""`` where it has none."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("model", "")] = sample.value
    return found


def row(state: ServerState) -> tuple[str, ...]:
    models = ", ".join(f"{model.name} ({model.busy} of {model.slots} slots busy)" for model in state.models)
    requests = state.note or f"{state.running} running, {state.waiting} waiting"
    up = duration(time.time() - state.since)
    return (state.url, str(state.pid), models or state.model, requests, megabytes(state.memory), up)


def duration(seconds: float) -> str:
    """The two largest units: ``3 h 20 min``."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    values = {"d": days, "h": hours, "min": minutes, "s": rest}
    parts = [f"{value} {unit}" for unit, value in values.items() if value]
    return " ".join(parts[:2]) or "0 s"
