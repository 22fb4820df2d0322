"""Records and their entries as rows of the SQLite store. Each function is called within one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from antiphon.errors import StoreError

from .faults import damaged
from .rows import NO_ENTRIES, Stored, change, key_number, stored, whole
from .store import Key, Record, check_version

_COLUMNS = "id, value, created, expires, version, entries, chain, checksum"
_AT = "kind = ? AND owner = ? AND name = ?"
_FIND = f"SELECT {_COLUMNS} FROM record WHERE {_AT}"  # noqa: S608 - constants, as below
_DELETE = f"DELETE FROM record WHERE {_AT}"  # noqa: S608
_DELETE_VALUE = f"{_DELETE} AND value = ?"
_VERSION = f"SELECT version FROM record WHERE {_AT}"  # noqa: S608
_NAMES = f"SELECT name, {_COLUMNS} FROM record WHERE kind = ? AND owner = ? ORDER BY name"  # noqa: S608
_MARKED = "SELECT 1 FROM record INDEXED BY record_mark WHERE mark = ?"
_INSERT = """
INSERT INTO record (value, created, expires, version, entries, chain, checksum, kind, owner, name, mark)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE ?
"""
_UPDATE = """
UPDATE record SET value = ?, created = ?, expires = ?, version = ?, entries = ?, chain = ?, checksum = ? WHERE id = ?
"""
_APPEND = "INSERT INTO entry (record, number, value, chain) SELECT ?, ?, ?, ? WHERE ?"
_VALUES = {_INSERT: 12, _UPDATE: 8, _APPEND: 5}
"""The statements with values of any size, and how many parameters each has; with NULL as the last it does nothing."""
LARGE = 1 << 16
"""Bytes that a prepared statement may keep of what was written with it last."""
_ENTRIES = "SELECT value FROM entry WHERE record = ? AND number > ? ORDER BY number"
_CHAIN = "SELECT chain FROM entry WHERE record = ? AND number = ?"
_PAGE = "SELECT id, kind, owner, name FROM record NOT INDEXED WHERE id > ? ORDER BY id LIMIT ?"
_EXPIRED = "SELECT id FROM record WHERE expires <= ?"
_BY_ID = f"SELECT kind, owner, name, {_COLUMNS} FROM record WHERE id = ?"  # noqa: S608


class Row(msgspec.Struct, frozen=True):
    """A record that is whole, and its row's id."""

    id: int
    stored: Stored


def names_of(key: Key) -> tuple[str, str, str]:
    """The columns by which a row is found."""
    return key.kind, key.owner, key.name


def find(connection: sqlite3.Connection, key: Key) -> Row | None:
    """The record's row. Raises `StoreError` where it is damaged."""
    columns = connection.execute(_FIND, names_of(key)).fetchone()
    if columns is not None:
        return _checked(key, columns)
    _must_be_absent(connection, key)
    return None


def entries_of(connection: sqlite3.Connection, row: Row, after: int) -> list[bytes]:
    """The entries after the first so many, which with the chain of those must amount to what the record says."""
    if after >= row.stored.count:
        return []
    before = _chain(connection, row, after)
    if before is None:
        return entries_of(connection, row, 0)[after:]
    entries = [value for (value,) in connection.execute(_ENTRIES, (row.id, after))]
    return whole(row.stored, entries, after, before)


def put(connection: sqlite3.Connection, key: Key, record: Record, entries: Sequence[bytes]) -> None:
    """Create or replace the record, and append to it. Raises `StoreError` where what is there is damaged."""
    known = find(connection, key)
    done = change(key, known.stored if known else None, record, entries)
    if known:
        connection.execute(_UPDATE, (*done.columns, known.id))
    new = (*done.columns, *names_of(key), key_number(key), True)
    id = known.id if known else connection.execute(_INSERT, new).lastrowid
    connection.executemany(_APPEND, [(id, *entry, True) for entry in done.appended])
    if max(map(len, (record.value, *entries))) > LARGE:
        _forget_values(connection)


def _forget_values(connection: sqlite3.Connection) -> None:
    """SQLite keeps the values that were last bound to a prepared statement, until others are."""
    for statement, parameters in _VALUES.items():
        connection.execute(statement, [None] * parameters)


def check(connection: sqlite3.Connection, key: Key, expected: int | None) -> None:
    """Raises `ConflictError` where the record has not the version that is expected of it."""
    if expected is None:
        return
    found = connection.execute(_VERSION, names_of(key)).fetchone()
    if found is None:
        _must_be_absent(connection, key)
    check_version(found[0] if found else 0, expected)


def delete(connection: sqlite3.Connection, key: Key, value: bytes | None = None) -> bool:
    """Deletes a damaged record too; `StoreError` where that is not possible any more. ``value``: see `Delete`."""
    if value is not None:
        return connection.execute(_DELETE_VALUE, (*names_of(key), value)).rowcount > 0
    deleted = connection.execute(_DELETE, names_of(key)).rowcount > 0
    if not deleted:
        _must_be_absent(connection, key)
    return deleted


def names(connection: sqlite3.Connection, kind: str, owner: str) -> list[str]:
    """Sorted. Raises `StoreError` where one of the records is damaged."""
    keys = []
    for name, *columns in connection.execute(_NAMES, (kind, owner)):
        keys.append(key_of(kind.encode(), owner.encode(), name))
        _checked(keys[-1], columns)
    return [key.name for key in keys]


def keys(connection: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, Key | None]]:
    """The next rows by their ids, in no index but the table's own, with their keys; None for one that is damaged."""
    return [(id, _key(*names)) for id, *names in connection.execute(_PAGE, (after, limit))]


def expired(connection: sqlite3.Connection, now: float) -> list[int]:
    """The ids of rows that say that they expired."""
    return [id for (id,) in connection.execute(_EXPIRED, (now,))]


def sweep(connection: sqlite3.Connection, ids: Sequence[int], now: float) -> int:
    """Deletes those that are whole and expired, and returns how many."""
    gone = [(id,) for id in ids if _expired(connection, id, now)]
    connection.executemany("DELETE FROM record WHERE id = ?", gone)
    return len(gone)


def key_of(kind: object, owner: object, name: object) -> Key:
    """Raises `StoreError` for names that are no text any more."""
    try:
        return Key(text(kind), text(owner), text(name))
    except UnicodeDecodeError:
        raise damaged() from None


def _key(kind: object, owner: object, name: object) -> Key | None:
    try:
        return key_of(kind, owner, name)
    except StoreError:
        return None


def text(column: object) -> str:
    """The text of a column. Raises `StoreError` for one that has none, `UnicodeDecodeError` where it is damaged."""
    if not isinstance(column, bytes):
        raise damaged()
    return column.decode()


def _must_be_absent(connection: sqlite3.Connection, key: Key) -> None:
    """An index that lost a record must not pass for a record that never was."""
    if connection.execute(_MARKED, (key_number(key),)).fetchone() is not None:
        raise damaged()


def _checked(key: Key, columns: Sequence[object]) -> Row:
    """Raises `StoreError` unless the columns are just what was written under ``key``."""
    match columns:
        case [int(id), *others]:
            return Row(id, stored(key, others))
    raise damaged()


def _chain(connection: sqlite3.Connection, row: Row, number: int) -> bytes | None:
    """That of the entries up to this number; None for one that an earlier version of the store wrote."""
    if not number:
        return NO_ENTRIES
    found = connection.execute(_CHAIN, (row.id, number)).fetchone()
    return found[0] if found and isinstance(found[0], bytes) else None


def _expired(connection: sqlite3.Connection, id: int, now: float) -> bool:
    try:
        found = connection.execute(_BY_ID, (id,)).fetchone()
        expires = _checked(key_of(*found[:3]), found[3:]).stored.record.expires if found else None
    except (StoreError, sqlite3.DatabaseError):
        return False
    return expires is not None and expires <= now
