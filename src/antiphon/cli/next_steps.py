"""Next steps on this machine, as `antiphon` alone prints them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path

from antiphon.catalog.files.store import ModelStore
from antiphon.config import Config, find_entry
from antiphon.engines.llama_cpp import LlamaCpp
from antiphon.errors import AntiphonError

from .clients import local_url
from .options import configure, megabytes
from .running import run_folder, running_servers
from .terminal import tell

PATIENCE = 0.5
"""Seconds for a server of this machine to answer."""
QUESTION = 'antiphon chat "What is the capital of Japan?"'
WIDTH = 47
"""Characters of a command, before what it does: together they fit into 80 columns, but for long names."""


def print_next_steps() -> None:
    """A few lines, by what is here and what runs; a configuration that cannot be used is said in words as well."""
    tell("Antiphon: the conversation layer for language models.\n")
    try:
        steps = list(steps_of(configure().config))
    except AntiphonError as error:
        steps = [("antiphon doctor", f"the configuration cannot be used: {error}")]
    for command, does in [*steps, ("antiphon --help", "all commands")]:
        tell(f"  {command:{WIDTH}} {does}")


def steps_of(config: Config) -> Iterator[tuple[str, str]]:
    """Commands, and what each does."""
    name, entry = find_entry(config.model, config.entries)
    if isinstance(entry.engine, LlamaCpp) and find_spec("xllamacpp") is None:
        yield "pip install 'antiphon[local]'", f"the embedded engine, which {name} needs"
        yield "antiphon render FILE --to harmony", "prompts, and all of transcripts, do without"
        yield "antiphon doctor", "checks this machine"
        return
    here = not entry.engine.needs_file or ModelStore(Path(config.store.folder)).path(name, entry) is not None
    if not here:
        yield QUESTION, f"fetches {name} ({megabytes(entry.size) or entry.source}) once"
        return
    servers = running_servers(run_folder(os.environ))
    url = running(config) or next((server.url for server in servers), None)
    if url is not None:
        yield "antiphon ps", f"a server runs at {url}"
        if config.server.playground:
            yield f"open {url}", "its playground, in a browser"
    yield QUESTION, f"one answer of {name}"
    yield "antiphon chat", "a conversation in the terminal"
    if url is None:
        yield "antiphon serve", f"API and playground, port {config.server.port}"
    yield "antiphon doctor", "checks this machine"


def running(config: Config) -> str | None:
    """The URL of a server of ours at the usual port; None where there is none. One with TLS is not asked."""
    url = local_url(config)
    if url.startswith("https"):
        return None
    connection = HTTPConnection(url.removeprefix("http://"), timeout=PATIENCE)
    try:
        connection.request("GET", "/version")
        answer = connection.getresponse()
        known = json.loads(answer.read(4096)) if answer.status == 200 else None
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return url if isinstance(known, dict) and set(known) == {"version"} else None
