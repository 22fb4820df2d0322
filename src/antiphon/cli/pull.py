"""``antiphon pull``: a model file into the store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from antiphon.config import Config, ModelEntry, find_entry
from antiphon.models.sources import Progress
from antiphon.models.store import InstalledModel, ModelStore

from .options import ConfigOption, JsonOption, configure, megabytes, print_json


def command(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names, GGUF paths, hf: sources; default: your model.")
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


@contextmanager
def progress_bar(name: str, size: int | None) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    # Rich takes longer to import than a pull that finds its model takes.
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=size)
        yield lambda done, total: bar.update(task, completed=done, total=total or size)
