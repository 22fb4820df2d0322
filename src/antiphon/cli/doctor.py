"""``antiphon doctor``: can this machine do what the configuration says?"""

from __future__ import annotations

import asyncio
import errno
import importlib.metadata
import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.catalog.capabilities import capability_fields, given
from antiphon.catalog.files.store import ModelStore, file_digest, writable
from antiphon.catalog.loading import open_catalog
from antiphon.catalog.toolbox import tool_settings
from antiphon.config import Config, ModelEntry, find_entry
from antiphon.config.load import read_tuned, tuned_file
from antiphon.engines.machine import computing_threads, usable_cores
from antiphon.errors import AntiphonError, ConfigError, NotFoundError
from antiphon.generation import Capabilities
from antiphon.tools.python import Bubblewrap

from .config import capabilities_of
from .options import ConfigOption, JsonOption, ModelOption, configure, megabytes, print_json
from .running import listener
from .terminal import tell, waiting_for


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at; ``hint`` says what to do about it."""

    state: State
    what: str
    hint: str = ""


def command(
    tune: Annotated[
        bool,
        typer.Option("--tune", help="Measure with how many threads the embedded engine is fastest, and keep it."),
    ] = False,
    model: ModelOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check Python, the engine, the model files, the store and the port. Exit code 1 when something fails."""
    loaded = configure(config, model=model)
    if tune:
        from .tune import measure_threads  # The engine takes long to import.

        measure_threads(loaded, lambda: configure(config, model=model), json=json)
        return
    with waiting_for("checking this machine"):  # a large model's file is read whole
        able, unusable = abilities(loaded.config)
        findings = [*examine(loaded.config), *unusable, *lines(able)]
    if json:
        print_json({"findings": findings, "capabilities": capability_fields(able)})
    else:
        for finding in findings:
            tell(f"{finding.state:5} {finding.what}" + (f"  -> {finding.hint}" if finding.hint else ""))
    if any(finding.state is State.FAIL for finding in findings):
        raise typer.Exit(1)


def examine(config: Config) -> Iterator[Finding]:
    yield python()
    yield from engine()
    yield threads(config)
    yield sandbox(config)
    yield store(config)
    yield model(config)
    yield port(config)


def python() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding(State.OK, f"python {platform.python_version()}, {cores} cores, {sys.platform}")


def engine() -> Iterator[Finding]:
    for package in ("xllamacpp", "llguidance", "tokenizers"):
        try:
            yield Finding(State.OK, f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            yield Finding(State.FAIL, f"{package} is not installed", "pip install 'antiphon[local]'")


def threads(config: Config) -> Finding:
    """With how many threads does the embedded engine run, and was that measured here?"""
    tuned, cores = read_tuned(tuned_file(os.environ)), usable_cores()
    if tuned is not None and not tuned.counts:
        measured = f"embedded engine: measured with {tuned.cores} cores, and this process may use {cores}"
        return Finding(State.WARN, measured, "antiphon doctor --tune")
    hint = "" if tuned is not None else "antiphon doctor --tune measures which number is the fastest"
    return Finding(
        State.OK, f"embedded engine: {config.engine.threads or computing_threads()} threads, {cores} cores", hint
    )


def sandbox(config: Config) -> Finding:
    """Does the python tool's sandbox work here? A failure only where the configuration names that tool."""
    try:
        return Finding(State.OK, f"python tool: sandboxed by {Bubblewrap().program}")
    except ConfigError as error:
        configured = "python" in tool_settings(config.tools).names
        return Finding(State.FAIL if configured else State.WARN, f"python tool: {error.message}", error.hint or "")


def store(config: Config) -> Finding:
    folder = Path(config.store.folder)
    if not writable(folder):
        return Finding(State.FAIL, f"the model store {folder} cannot be written", "set ANTIPHON_HOME")
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    return Finding(State.OK if free > 2**30 else State.WARN, f"model store {folder}, {megabytes(free)} free")


def model(config: Config) -> Finding:
    """Is the default model here, and is it the file that the catalog means?"""
    try:
        name, entry = find_entry(config.model, config.entries)
        path = ModelStore(Path(config.store.folder)).path(name, entry)
    except AntiphonError as error:
        return Finding(State.FAIL, f"model {config.model}: {error.message}", error.hint or "")
    if entry.engine.remote:
        return elsewhere(config, name, entry)
    if not entry.engine.needs_file:
        return Finding(State.OK, f"model {name} is {entry.engine.kind}")
    if path is None:
        return Finding(State.WARN, f"model {name} is not here", f"antiphon pull {name}")
    checked = entry.sha256 is not None and entry.convert is None
    if checked and file_digest(path) != entry.sha256:
        return Finding(
            State.FAIL, f"{path} is damaged: its sha256 is another", f"antiphon rm {name}; antiphon pull {name}"
        )
    return Finding(
        State.OK, f"model {name}, {megabytes(path.stat().st_size)}" + (", sha256 matches" if checked else "")
    )


def abilities(config: Config) -> tuple[Capabilities, list[Finding]]:
    """Returns the default model's capabilities here; and why it cannot be used, where its files say so."""
    try:
        name, entry = find_entry(config.model, config.entries)
        if entry.engine.needs_file and ModelStore(Path(config.store.folder)).path(name, entry) is None:
            return Capabilities(), []
        return capabilities_of(config, config.model), []
    except NotFoundError:
        return Capabilities(), []  # `model` has said so.
    except AntiphonError as error:
        return Capabilities(), [Finding(State.FAIL, f"model {config.model}: {error.message}", error.hint or "")]


def lines(able: Capabilities) -> Iterator[Finding]:
    """A finding for each thing that the model can do, and for each that it cannot."""
    for subject, one in given(able):
        yield Finding(State.WARN if one.lacking else State.OK, f"{subject}: {one.says}", one.hint)


def elsewhere(config: Config, name: str, entry: ModelEntry) -> Finding:
    """Does the server that runs the default model answer, with the vocabulary that the configuration names?"""

    async def reach() -> Finding:
        async with aclosing(open_catalog(config)) as catalog:
            info = (await catalog.get(name)).engine.info
        grammars = "constrains replies by grammars" if info.grammar else "takes no grammars"
        summary = f"model {name} at {entry.engine.address}, {info.context} tokens, {grammars}"
        hint = "" if info.grammar or entry.task != "chat" else "forced tool calls and schemas will be refused"
        return Finding(State.WARN if hint else State.OK, summary, hint)

    try:
        return asyncio.run(reach())
    except AntiphonError as error:
        return Finding(State.FAIL, f"model {name} at {entry.engine.address}: {error.message}", error.hint or "")


def port(config: Config) -> Finding:
    server = config.server
    with socket.socket(socket.AF_INET6 if ":" in server.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError as error:
            busy = error.errno == errno.EADDRINUSE
            owner = (listener(server.port) if busy else "") or "another server"
            hint = f"taken by {owner}; antiphon serve --port N listens at another" if busy else ""
            return Finding(State.WARN if busy else State.FAIL, f"{server.host}:{server.port}: {error.strerror}", hint)
    return Finding(State.OK, f"{server.host}:{server.port} is free")
