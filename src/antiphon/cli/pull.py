"""``antiphon pull``: a model file into the store."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.catalog.capabilities import capability_fields, capability_lines
from antiphon.catalog.files.sources import FileSource, HubSource, parse_source
from antiphon.catalog.files.store import InstalledModel, ModelStore, existing
from antiphon.config import Config, ModelEntry, find_entry
from antiphon.engines.gguf_file import is_gguf
from antiphon.engines.machine import free_memory
from antiphon.errors import AntiphonError, ModelError, NotFoundError
from antiphon.errors.extras import require
from antiphon.generation import Capabilities

from .completions import model_names
from .config import capabilities_of
from .files import near_file
from .options import ConfigOption, JsonOption, configure, megabytes, print_json
from .terminal import progress_bar, tell


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Names, GGUF paths, hf:OWNER/REPO[:QUANT]; default: your model.", autocompletion=model_names
        ),
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Fetch models into the store. What is there already is not fetched again."""
    settings = configure(config).config
    store = ModelStore(Path(settings.store.folder))
    for given in names or [settings.model]:
        name, entry = find_entry(given, settings.entries)
        if (
            ":" in name and name not in settings.entries
        ):  # so other programs' models are called, which are used where they are
            print_json({"name": name, "source": entry.source}) if json else tell(f"{name} is here: {entry.source}")
            continue
        model = pull(store, name, entry)
        able, unusable = abilities(settings, given)
        if json:
            print_json({**msgspec.to_builtins(model), **capability_fields(able), **unusable})
            continue
        tell(f"{model.name}: {megabytes(model.size)}, sha256 {model.sha256[:16]}…, in {store.folder / name}")
        lines = [*(f"warning: {why}" for why in unusable.values()), *capability_lines(able)]
        tell("".join(f"  {line}\n" for line in lines), end="")


def abilities(config: Config, name: str) -> tuple[Capabilities, dict[str, str]]:
    """Returns the capabilities of a model that is here, and as ``unusable`` why its files cannot be used."""
    try:
        return capabilities_of(config, name), {}
    except AntiphonError as error:
        return Capabilities(), {"unusable": error.message + (f" ({error.hint})" if error.hint else "")}


def pull(store: ModelStore, name: str, entry: ModelEntry) -> InstalledModel:
    """Fetches one model, having said what it is where the catalogue does not, and shows how far it is, on stderr."""
    source = parse_source(entry.source) if entry.source else None
    if isinstance(source, FileSource):
        check_file(source.path)
    if store.find(name) is None and (entry.memory or isinstance(source, HubSource)):
        what = entry.title or name
        if isinstance(source, HubSource) and not source.path:
            file = source.found()
            entry = msgspec.structs.replace(entry, source=f"hf:{source.repository}/{file.path}", size=file.size)
            what = f"{file.path} of {source.repository}"
        tell(f"{what}: {announced(entry, store)}", file=sys.stderr)
    several = ("download",) if entry.mirrors else ("download", "copy")  # a mirror's wheels come one after the other
    stages = ("copy",) if isinstance(source, FileSource) else several
    with progress_bar(name, entry.size, patience=0.0, stages=stages) as progress:
        return store.pull(
            name, entry, progress, waiting=lambda: tell(f"waiting: another process pulls {name}", file=sys.stderr)
        )


def announced(entry: ModelEntry, store: ModelStore) -> str:
    """Tells what a file needs, and what is free for it."""
    room, memory = shutil.disk_usage(existing(store.folder)).free, free_memory()
    size = megabytes(entry.size) or "of a size that is not known"
    needed = f"{megabytes(entry.memory)} of memory" if entry.memory else "more of memory"
    licence = f", licence {entry.licence}" if entry.licence else ""
    free = f"{megabytes(room)} of disk" + (f" and {megabytes(memory)} of memory" if memory else "")
    return f"{size}, and {needed} to run it{licence}; free are {free}"


def pull_missing(config: Config) -> None:
    """Fetches the default model when the catalog knows where from and it is not here.

    Raises `NotFoundError` for an unknown name, `ModelError` for a path of no GGUF file, and what `pull` raises.
    """
    try:
        name, entry = find_entry(config.model, config.entries)
    except NotFoundError:
        if os.sep in config.model:
            check_file(Path(config.model).expanduser())
        raise
    store = ModelStore(Path(config.store.folder))
    if entry.engine.needs_file and entry.source and store.path(name, entry) is None:
        source = parse_source(entry.source)
        if isinstance(source, FileSource):
            check_file(source.path)
        if entry.engine.kind == "llama_cpp" and config.engine.open:
            require("xllamacpp", "local", "the embedded engine")  # before a model is fetched for it
        tell(f"fetching {name} ({megabytes(entry.size) or entry.source}) once", file=sys.stderr)
        pull(store, name, entry)


def check_file(path: Path) -> None:
    """Raises `ModelError` for a path of no GGUF file, with the names beside it."""
    if path.is_dir():
        files = sorted(str(file) for file in path.glob("*.gguf"))[:5]
        hint = f"Name a GGUF file in it: {', '.join(files)}." if files else "There is no GGUF file in it."
        raise ModelError(f"{path} is a folder", code="not_gguf", hint=hint)
    if not path.exists():
        hint = near_file(path) or "`antiphon models` lists the names of models; hf:OWNER/REPO is fetched."
        raise ModelError(f"there is no file {path}", code="model_not_fetched", hint=hint)
    if is_gguf(path):
        return
    if path.suffix != ".gguf":
        raise ModelError(f"{path} is not called *.gguf", code="not_gguf", hint="A model is one GGUF file, or a name.")
    raise ModelError(f"{path} is not a GGUF file", code="not_gguf", hint="Its first bytes are not “GGUF”.")
