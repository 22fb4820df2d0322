"""``antiphon pull``: a model file into the store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from antiphon.config import Config, ModelEntry, find_entry
from antiphon.models.store import InstalledModel, ModelStore

from .completions import model_names
from .options import ConfigOption, JsonOption, configure, megabytes, print_json
from .progress import progress_bar


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names, GGUF paths, hf: sources; default: your model.", autocompletion=model_names),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch models into the store. What is there already is not fetched again."""
    settings = configure(config).config
    store = ModelStore(Path(settings.store.folder))
    for given in names or [settings.model]:
        name, entry = find_entry(given, settings.entries)
        model = pull(store, name, entry)
        if json:
            print_json(model)
        else:
            print(f"{model.name}: {megabytes(model.size)}, sha256 {model.sha256[:16]}…, in {store.folder / name}")


def pull(store: ModelStore, name: str, entry: ModelEntry) -> InstalledModel:
    """Fetches one model and shows how far it is, on stderr."""
    with progress_bar(name, entry.size) as progress:
        return store.pull(
            name, entry, progress, waiting=lambda: print(f"waiting: another process pulls {name}", file=sys.stderr)
        )


def pull_missing(config: Config) -> None:
    """Fetches the default model when the catalog knows where from and it is not here."""
    name, entry = find_entry(config.model, config.entries)
    store = ModelStore(Path(config.store.folder))
    if entry.engine.needs_file and entry.source and store.path(name, entry) is None:
        print(f"fetching {name} ({megabytes(entry.size) or entry.source}) once", file=sys.stderr)
        pull(store, name, entry)
