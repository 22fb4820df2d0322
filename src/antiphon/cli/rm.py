"""``antiphon rm``: models out of the store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.catalog.files.store import ModelStore
from antiphon.config import find_entry
from antiphon.errors import NotFoundError

from .completions import model_names
from .options import ConfigOption, JsonOption, configure, print_json
from .terminal import tell


def command(
    names: Annotated[list[str], typer.Argument(help="Names of models in the store.", autocompletion=model_names)],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Remove models from the store. Files that were never copied there stay where they are."""
    settings = configure(config).config
    store = ModelStore(Path(settings.store.folder))
    for given in names:
        name = given if store.find(given) else find_entry(given, settings.entries)[0]
        elsewhere = ":" in name and name not in settings.entries  # so other programs' models are called
        if elsewhere or not store.remove(name):
            hint = "antiphon models lists it. What another program has is removed there."
            raise NotFoundError(f"{name!r} is not in the store", code="model_not_found", hint=hint)
        if not json:
            tell(f"removed {name}")
    if json:
        print_json({"removed": names})
