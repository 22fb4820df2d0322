"""Whole stores: what is in one, record by record, checked, written to a file and read from it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from antiphon.errors import ConfigError, ConflictError, StoreError, words_of
from antiphon.structs import ready

from .address import MEMORY, store_name
from .faults import damaged
from .opening import needs_extra
from .postgres_address import SCHEMES
from .sqlite_file import VERSION, open_file
from .store import Key, Record, Store, total

# Versions of stores: an older one is brought to this program's.


def migrate(address: str) -> tuple[int, int]:
    """Brings the store at an address to this version: the one before, 0 for none, and the one now.

    Raises `ConfigError` where it cannot be opened, is of a later version, or has none.
    """
    name = store_name(address)
    if name in SCHEMES:
        with needs_extra():
            from .postgres import VERSION as LATEST
            from .postgres import open_tables
        return open_tables(address, migrate=True), LATEST
    if name or address == MEMORY:
        raise ConfigError("this store has no versions", code="store_unusable", hint="Its own package knows about it.")
    path = Path(address).expanduser()
    try:
        before = _version(path) if path.is_file() else 0
        open_file(path, check=True).close()
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(
            f"the session store {path} cannot be opened: {words_of(error)}", code="store_unusable"
        ) from error
    return before, VERSION


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


FORMAT = 1


@runtime_checkable
class ListedStore(Store, Protocol):
    """A store that can say what it has."""

    def keys(self) -> AsyncIterator[Key | None]:
        """The keys of all records, in any order; None for a damaged one. What comes meanwhile may be left out."""


class Head(msgspec.Struct, frozen=True, tag_field="type", tag="antiphon_store"):
    """The first line of a file."""

    format: int = FORMAT


class Line(msgspec.Struct, frozen=True, tag_field="type", tag="record", forbid_unknown_fields=True):
    """One record with its entries. ``created`` and ``expires`` as in `Record`; bytes are base64."""

    kind: str
    owner: str
    name: str
    value: bytes
    created: float
    expires: float | None
    entries: list[bytes]

    @property
    def key(self) -> Key:
        return Key(self.kind, self.owner, self.name)


class End(msgspec.Struct, frozen=True, tag_field="type", tag="end"):
    """The last line: how many records were written, and how many could not be, because they were damaged."""

    records: int
    damaged: int


_DECODER: msgspec.json.Decoder[Head | Line | End] = msgspec.json.Decoder(ready(Head | Line | End))


@dataclass(slots=True)
class Found:
    """Counts of `records` so far. ``damaged`` are the keys of records that cannot be read, None for unreadable keys."""

    records: int = 0
    entries: int = 0
    bytes: int = 0
    damaged: list[Key | None] = field(default_factory=list)


@dataclass(slots=True)
class Imported:
    """``added`` were not there, ``same`` were there just so; ``kept`` were there with other content, and still are.

    ``damaged``: of the store that was exported, not in the file.
    """

    added: int = 0
    same: int = 0
    kept: list[Key] = field(default_factory=list)
    damaged: int = 0


async def records(store: ListedStore, found: Found) -> AsyncIterator[Line]:
    """Every record that is whole, each as it was at one moment; ``found`` is counted up."""
    async for key in store.keys():
        try:
            if key is None:
                raise damaged()
            line = await _line(store, key)
        except StoreError as error:
            if error.code != "store_corrupt":
                raise
            found.damaged.append(key)
            continue
        if line is not None:
            found.records += 1
            found.entries += len(line.entries)
            found.bytes += len(line.value) + total(line.entries)
            yield line


async def _line(store: Store, key: Key) -> Line | None:
    """The record of one moment; None where it was deleted meanwhile."""
    known = await store.get(key)
    while known is not None:
        entries = await store.entries(key)
        now = await store.get(key)
        if now is not None and now.version == known.version:
            return Line(key.kind, key.owner, key.name, known.value, known.created, known.expires, entries)
        known = now
    return None


async def is_empty(store: ListedStore) -> bool:
    """Whether it has no record."""
    async for _ in store.keys():
        return False
    return True


async def import_lines(store: Store, lines: Iterable[bytes]) -> Imported:
    """Adds the records of a file; what is there already stays as it is, and is counted.

    Raises `ConfigError`, code ``import_unreadable``, for a line that is none of an export, and for a file that ends
    before its end; what was before that line is in the store then.
    """
    imported, last = Imported(), 0
    for number, text in enumerate(lines, 1):
        last = number
        match _decoded(text, number):
            case Head() if number == 1:
                continue
            case Line() as line if number > 1:
                await _add(store, line, imported)
            case End(count, lost) if count == number - 2:
                imported.damaged = lost
                return imported
            case _:
                raise _unreadable(number)
    raise _unreadable(last + 1)


async def _add(store: Store, line: Line, imported: Imported) -> None:
    record = Record(line.value, line.created, line.expires)
    try:
        await store.put(line.key, record, *line.entries, expected=0)
        imported.added += 1
    except ConflictError:
        if await store.get(line.key) == record and await store.entries(line.key) == line.entries:
            imported.same += 1
        else:
            imported.kept.append(line.key)


def _decoded(text: bytes, number: int) -> Head | Line | End:
    try:
        line = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _unreadable(number) from error
    if isinstance(line, Head) and line.format != FORMAT:
        raise _unreadable(number)
    return line


def _unreadable(number: int) -> ConfigError:
    return ConfigError(
        f"line {number} is not what an export has there",
        code="import_unreadable",
        hint="A file that antiphon store export wrote to its end is read.",
    )
