"""``antiphon models``: what is known by name, what is here, and how one of them is spoken to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.api.native.templates import RepliesFound, found_replies
from antiphon.catalog.capabilities import capability_fields, capability_lines
from antiphon.catalog.describe import described_lines
from antiphon.catalog.files.store import InstalledModel, ModelStore
from antiphon.config import Config, ModelEntry, find_entry
from antiphon.config.found import found_models
from antiphon.config.models import WAYS
from antiphon.errors import NotFoundError
from antiphon.formats.template import JinjaFormat

from . import pull, rm
from .completions import model_names
from .config import described
from .options import ConfigOption, JsonOption, actions, configure, megabytes, print_json, print_table
from .select_format import select_format
from .terminal import tell

command = actions()
command.command("pull")(pull.command)
command.command("rm")(rm.command)


@command.command("list")
def list_command(config: ConfigOption = None, json: JsonOption = False) -> None:
    """List the models of the catalog, of your configuration, of the store, and of other programs here (`antiphon
    models` alone does so)."""
    settings = configure(config).config
    rows = rows_of(settings)
    print_json({"default": settings.model, "models": rows}) if json else print_rows(rows)


@command.command("search")
def search_command(
    word: Annotated[str, typer.Argument(metavar="WORD", help="A part of a name, an alias or a title.")],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List those of these models that have WORD in their name, an alias or their title."""
    sought = word.lower()
    rows = [row for row in rows_of(configure(config).config) if sought in "\n".join(row.words).lower()]
    if not rows:
        raise NotFoundError(f"no model here has {word!r} in its name", code="model_not_found", hint=f"Try {WAYS}")
    print_json({"models": rows}) if json else print_rows(rows)


def rows_of(settings: Config) -> list[ModelRow]:
    """The models that can be named here, by name; those of other programs have the program as their state."""
    store = ModelStore(Path(settings.store.folder))
    here = {model.name: model for model in store.installed()}
    entries = {**{name: ModelEntry(source=model.source) for name, model in here.items()}, **settings.entries}
    rows = {name: ModelRow.of(name, entry, here.get(name), store) for name, entry in entries.items()}
    for found in found_models():
        row = ModelRow(
            name=found.name, state=found.program, task="chat", size=found.size, source=str(found.path),
            path=str(found.path),
        )  # fmt: skip
        rows.setdefault(found.name, row)
    return [rows[name] for name in sorted(rows)]


def print_rows(rows: Sequence[ModelRow]) -> None:
    """Prints a line a model."""
    print_table(
        ("name", "state", "size", "memory", "licence", "aliases", "tested"),
        [
            (
                row.name,
                row.state,
                megabytes(row.size),
                megabytes(row.memory),
                row.licence,
                ", ".join(row.aliases),
                row.tested,
            )
            for row in rows
        ],
    )


@command.command("show")
def show_command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A model's name, alias, GGUF path or hf:OWNER/REPO[:QUANT].",
            autocompletion=model_names,
        ),
    ],
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Show a model's line, its format, its settings and from where, and where its replies are known from."""
    settings = configure(config, model=name).config
    name, entry = find_entry(settings.model, settings.entries)
    store = ModelStore(Path(settings.store.folder))
    here = {model.name: model for model in store.installed()}
    row = ModelRow.of(name, entry, here.get(name), store)
    chats = entry.task == "chat" and (entry.tokenizer or store.path(name, entry))
    format = select_format(settings, named=None).format if chats else None
    replies = found_replies(format.found) if isinstance(format, JinjaFormat) else None
    facts = asyncio.run(described(settings, settings.model)) if entry.tokenizer or store.path(name, entry) else None
    shown = ShownModel(
        model=row,
        format=format.name if format else None,
        replies=replies,
        context=facts.context if facts else entry.context,
        default_output_tokens=facts.default_output_tokens if facts else entry.default_output_tokens,
        settings=tuple(described_lines(facts)) if facts else (),
        capabilities=capability_fields(facts.capabilities) if facts else {},
    )
    if json:
        print_json(shown)
    else:
        lines = capability_lines(facts.capabilities) if facts else ()
        tell("\n".join([*shown_lines(shown), *lines]))


def shown_lines(shown: ShownModel) -> Iterator[str]:
    """Yields the lines that `show` prints for people."""
    for key, value in msgspec.to_builtins(shown.model).items():
        yield f"{key}: {', '.join(value) if isinstance(value, (list, tuple)) else value}"
    yield f"speaks: {shown.format or 'not known before it is here'}"
    yield from shown.settings
    if shown.replies is None:
        return
    yield f"replies known from: {shown.replies.source}"
    yield f"shapes proven: {', '.join(shown.replies.proven) or 'none'}"
    yield f"shapes failed: {', '.join(failure.shape for failure in shown.replies.failed) or 'none'}"
    yield from (f"warning: {warning}" for warning in shown.replies.warnings)


class ModelRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model's line; what is not known is left out."""

    name: str
    state: str
    task: str
    title: str = ""
    aliases: tuple[str, ...] = ()
    size: int | None = None
    memory: int | None = None
    tested: str = ""
    licence: str = ""
    format: str | None = None
    source: str | None = None
    path: str | None = None
    sha256: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Texts by which the model is searched."""
        return (self.name, self.title, *self.aliases)

    @classmethod
    def of(cls, name: str, entry: ModelEntry, here: InstalledModel | None, store: ModelStore) -> ModelRow:
        path = store.path(name, entry)
        return cls(
            name=name,
            state="elsewhere" if entry.engine.remote else "here" if path or not entry.engine.needs_file else "to pull",
            task=entry.task,
            title=entry.title,
            aliases=entry.aliases,
            size=here.size if here else entry.size,
            memory=entry.memory,
            tested=entry.tested,
            licence=entry.licence,
            format=entry.format,
            source=entry.source or entry.engine.address or None,
            path=str(path) if path else None,
            sha256=here.sha256 if here else entry.sha256,
        )


class ShownModel(msgspec.Struct, frozen=True, kw_only=True):
    """``replies`` only of a model that speaks a Jinja template; ``settings`` are what it got and from where."""

    model: ModelRow
    format: str | None
    replies: RepliesFound | None
    context: int | None
    default_output_tokens: int | None
    settings: tuple[str, ...]
    capabilities: dict[str, str | list[str]]
