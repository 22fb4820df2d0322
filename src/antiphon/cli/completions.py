"""Completions for shells: names of models, formats, keys and clients.

Each function imports what has the names only when a shell wants them: commands that run must not wait for it. A
configuration or a file that cannot be read has none, for a shell shows no errors.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from antiphon.errors import AntiphonError

VARIABLE = "_ANTIPHON_COMPLETE"
"""Set where a shell runs the program to complete a line, which is in one of `LINES`."""
LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")


def line_to_complete() -> list[str] | None:
    """The words behind the program's name that a shell wants completed; None: it runs a command."""
    if VARIABLE not in os.environ:
        return None
    line = next((os.environ[name] for name in LINES if name in os.environ), "")
    return line.split()[1:]


def model_names() -> list[str]:
    """Models of the catalog, of the configuration and of the store, and their aliases."""
    with suppress(AntiphonError):
        from antiphon.catalog.files.store import ModelStore
        from antiphon.config import load_config

        config = load_config(os.environ).config
        entries = config.entries
        here = [model.name for model in ModelStore(Path(config.store.folder)).installed()]
        aliases = [alias for entry in entries.values() for alias in entry.aliases if "*" not in alias]
        return sorted({*entries, *here, *aliases})
    return []


def format_names() -> list[str]:
    """Formats and chat templates."""
    with suppress(AntiphonError):
        from antiphon.catalog.known_formats import known_formats

        return list(known_formats().names)
    return []


def form_names() -> list[str]:
    """Returns the forms that a conversation can be converted to."""
    from antiphon.conversion.convert import TARGETS

    return list(dict.fromkeys([*TARGETS, *format_names()]))


def key_names() -> list[str]:
    """API keys of the server."""
    with suppress(AntiphonError):
        from antiphon.config import load_config
        from antiphon.http.gate.keys import KeyFile

        keys = KeyFile(Path(load_config(os.environ).config.server.keys)).read() or []
        return [key.name for key in keys]
    return []


def client_names() -> list[str]:
    """Clients of `antiphon connect`."""
    from .clients import CLIENTS

    return list(CLIENTS)
