"""``antiphon store``: what is stored between requests, as a whole."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO, TypeVar

import msgspec
import typer

from antiphon.errors import ConfigError
from antiphon.store import MEMORY, hidden_password, store_at, store_name
from antiphon.store.transfer import End, Found, Head, Imported, ListedStore, import_lines, is_empty, migrate, records

from .files import STANDARD, Sink, output
from .options import ConfigOption, JsonOption, actions, configure, print_json
from .terminal import tell, waiting_for

Result = TypeVar("Result")
_ENCODER = msgspec.json.Encoder()


command = actions()
StoreOption = Annotated[str | None, typer.Option("--store", help="The store's address, instead of sessions.store.")]


@command.command("migrate")
def migrate_tables(store: StoreOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Bring the store's tables to this version."""
    with waiting_for("migrating the store"):
        before, after = migrate(_address(store, config))
    print_json({"before": before, "after": after}) if json else tell(f"version {after}, was {before or 'none'}")


@command.command("check")
def check_records(store: StoreOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Read all of the store. Exit code 1 where something is damaged."""
    address = _address(store, config)
    _must_exist(address)
    with waiting_for("reading the store"):
        found = asyncio.run(_with(address, _checked))
    _report(found, json=json)
    _fail_where(found.damaged)


@command.command("export")
def export_records(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file; - is standard output.")] = STANDARD,
    store: StoreOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write all of the store to a file, readable by its owner alone. Exit code 1 where something is damaged."""
    address = _address(store, config)
    _must_exist(address)
    shown = nullcontext() if file == STANDARD else waiting_for("writing the records")
    with _target(file) as target, shown:
        found = asyncio.run(_with(address, lambda opened: _exported(opened, target)))
    if file != STANDARD:
        _report(found, json=json)
    _fail_where(found.damaged)


@command.command("import")
def import_records(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `store export` wrote; - is standard input.")
    ] = STANDARD,
    store: StoreOption = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Import into a store that has records; these stay as they are.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Read an export into an empty store. Exit code 1 where a record was there already with other content."""
    address = _address(store, config)
    with _source(file) as source, waiting_for("reading the records"):
        imported = asyncio.run(_with(address, lambda opened: _imported(opened, source, merge=merge)))
    kept = [f"{key.kind} {key.name}" for key in imported.kept]
    seen = {"added": imported.added, "same": imported.same, "kept": kept, "damaged_at_export": imported.damaged}
    words = f"{imported.added} records added, {imported.same} were there already"
    if kept:
        words += f"; {len(kept)} were there with other content, which stays: {', '.join(kept)}"
    if imported.damaged:
        words += f"; {imported.damaged} were damaged when the file was written, and are not in it"
    print_json(seen) if json else tell(words)
    _fail_where(kept or imported.damaged)


def _address(store: str | None, config: Path | None) -> str:
    return configure(config, sessions__store=store).config.sessions.store


def _must_exist(address: str) -> None:
    """A file that is not there would be made, and found to be empty."""
    if address != MEMORY and not store_name(address) and not Path(address).expanduser().is_file():
        folder = Path(address).expanduser().is_dir()
        what = f"{address} is a folder, and a store is a file" if folder else f"there is no store {address}"
        raise ConfigError(what, code="store_unusable", hint="--store ADDRESS names another.")


@contextmanager
def _target(file: Path) -> Iterator[Sink]:
    """A new file for its owner alone, never over another, or standard output."""
    if file == STANDARD:
        with output(None) as sink:
            yield sink
        return
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
            yield target
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", code="export_file", hint="Name a file that is not there yet."
        ) from error


@contextmanager
def _source(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as source:
            yield source
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", code="import_unreadable") from error


async def _with(address: str, work: Callable[[ListedStore], Awaitable[Result]]) -> Result:
    opened = store_at(address)
    try:
        if not isinstance(opened, ListedStore):
            raise ConfigError(f"the store {hidden_password(address)} cannot be listed", code="store_unusable")
        return await work(opened)
    finally:
        await opened.aclose()


async def _checked(opened: ListedStore) -> Found:
    found = Found()
    async for _ in records(opened, found):
        pass
    return found


async def _exported(opened: ListedStore, target: Sink) -> Found:
    found = Found()
    target.write(_ENCODER.encode(Head()) + b"\n")
    async for line in records(opened, found):
        target.write(_ENCODER.encode(line) + b"\n")
    target.write(_ENCODER.encode(End(found.records, len(found.damaged))) + b"\n")
    target.flush()
    return found


async def _imported(opened: ListedStore, source: BinaryIO, *, merge: bool) -> Imported:
    if not merge and not await is_empty(opened):
        hint = "--merge adds what is not there, and replaces nothing."
        raise ConfigError("the store is not empty", code="store_not_empty", hint=hint)
    return await import_lines(opened, source)


def _report(found: Found, *, json: bool) -> None:
    damaged = [f"{key.kind} {key.name}" if key else None for key in found.damaged]
    if json:
        print_json({"records": found.records, "entries": found.entries, "bytes": found.bytes, "damaged": damaged})
        return
    names = ", ".join(name or "(without a name)" for name in damaged)
    words = f"{found.records} records, {found.entries} entries, {found.bytes:,} bytes"
    tell(f"{words}; damaged: {names}" if names else words)


def _fail_where(wrong: object) -> None:
    if wrong:
        raise typer.Exit(1)
