"""``antiphon models``: what is known by name, and what is here."""

from __future__ import annotations

from pathlib import Path

import msgspec

from antiphon.config import ModelEntry
from antiphon.models.store import InstalledModel, ModelStore

from .options import ConfigOption, JsonOption, configure, megabytes, print_json, print_table


def command(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the models of the catalog, of your configuration and of the store."""
    settings = configure(config).config
    store = ModelStore(Path(settings.store.folder))
    here = {model.name: model for model in store.installed()}
    entries = {**{name: ModelEntry(source=model.source) for name, model in here.items()}, **settings.entries}
    rows = [ModelRow.of(name, entry, here.get(name), store) for name, entry in sorted(entries.items())]
    if json:
        print_json({"default": settings.model, "models": rows})
        return
    print_table(
        ("name", "state", "size", "licence", "aliases"),
        [(row.name, row.state, megabytes(row.size), row.licence, ", ".join(row.aliases)) for row in rows],
    )


class ModelRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model's line; what is not known is left out."""

    name: str
    state: str
    task: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    size: int | None = None
    licence: str = ""
    format: str | None = None
    source: str | None = None
    path: str | None = None
    sha256: str | None = None

    @classmethod
    def of(cls, name: str, entry: ModelEntry, here: InstalledModel | None, store: ModelStore) -> ModelRow:
        path = store.path(name, entry)
        return cls(
            name=name,
            state=state_of(entry, path),
            task=entry.task,
            title=entry.title,
            aliases=entry.aliases,
            size=here.size if here else entry.size,
            licence=entry.licence,
            format=entry.format,
            source=entry.source or entry.engine.address or None,
            path=str(path) if path else None,
            sha256=here.sha256 if here else entry.sha256,
        )


def state_of(entry: ModelEntry, path: Path | None) -> str:
    """In a word, where the model is."""
    if entry.engine.remote:
        return "elsewhere"
    return "here" if path or not entry.engine.needs_file else "to pull"
