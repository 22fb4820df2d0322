"""Records and their entries as rows of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg

from antiphon.errors import StoreError

from .faults import damaged
from .rows import NO_ENTRIES, Change, Stored, key_id, stored, whole
from .store import Key

Connection = psycopg.AsyncConnection[Any]

_COLUMNS = "value, created, expires, version, entries, chain, checksum"
_ROW = f"kind, owner, name, {_COLUMNS}"
_FIND = f"SELECT {_ROW} FROM antiphon.record WHERE id = %s"  # noqa: S608 - constants, as below
_LOCK = f"{_FIND} FOR UPDATE"
_ENTRIES = f"""
SELECT {_ROW},
    (SELECT chain FROM antiphon.entry WHERE record = id AND number = %s),
    ARRAY(SELECT entry.value FROM antiphon.entry WHERE record = id AND number > %s ORDER BY number)
FROM antiphon.record WHERE id = %s
"""  # noqa: S608
_INSERT = f"""
INSERT INTO antiphon.record ({_COLUMNS}, id, kind, owner, name)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""  # noqa: S608
_UPDATE = """
UPDATE antiphon.record
SET value = %s, created = %s, expires = %s, version = %s, entries = %s, chain = %s, checksum = %s WHERE id = %s
"""
_APPEND = """
INSERT INTO antiphon.entry (record, number, value, chain)
SELECT %s, * FROM unnest(%s::bigint[], %s::bytea[], %s::bytea[])
"""
_NAMES = "SELECT name FROM antiphon.record WHERE kind = %s AND owner = %s ORDER BY name"
_PAGE = "SELECT id, kind, owner, name FROM antiphon.record WHERE id > %s ORDER BY id LIMIT %s"
_EXPIRED = f"""
SELECT expires, id, {_ROW} FROM antiphon.record
WHERE expires <= %s AND (expires, id) > (%s, %s) ORDER BY expires, id LIMIT %s FOR UPDATE SKIP LOCKED
"""  # noqa: S608
_SWEPT_AT_ONCE = 100
"""Records that one transaction of a sweep deletes."""

Mark = tuple[float, UUID]
"""The place of a sweep: when the last record that it saw expired, and that record's id."""
START: Mark = (float("-inf"), UUID(int=0))


async def find(connection: Connection, key: Key) -> Stored | None:
    """The record. Raises `StoreError` where it is damaged."""
    found = await (await connection.execute(_FIND, [key_id(key)], binary=True)).fetchone()
    return _stored(key, found) if found else None


async def lock(connection: Connection, keys: Sequence[Key]) -> dict[Key, Stored | None]:
    """The records, which no other transaction changes until this one ends. All lock in the same order."""
    found: dict[Key, Stored | None] = {}
    for key in sorted(set(keys), key=key_id):
        row = await (await connection.execute(_LOCK, [key_id(key)], binary=True)).fetchone()
        found[key] = _stored(key, row) if row else None
    return found


async def entries_of(connection: Connection, key: Key, after: int) -> list[bytes]:
    """The entries after the first so many; one statement reads them and the record, so that they fit."""
    cursor = await connection.execute(_ENTRIES, [after, after, key_id(key)], binary=True)
    found = await cursor.fetchone()
    if found is None:
        return []
    *columns, before, entries = found
    row = _stored(key, columns)
    if after >= row.count:
        return []
    if after and not isinstance(before, bytes):
        raise damaged()
    return whole(row, entries, after, before if after else NO_ENTRIES)


async def put(connection: Connection, key: Key, change: Change, *, new: bool) -> None:
    """``new``: there is no such record. Raises `psycopg.errors.UniqueViolation` where one came meanwhile."""
    id = key_id(key)
    if new:
        names = (id, key.kind, key.owner.encode(), key.name.encode())
        await connection.execute(_INSERT, (*change.columns, *names))
    else:
        await connection.execute(_UPDATE, (*change.columns, id))
    if change.appended:
        numbers, values, chains = map(list, zip(*change.appended, strict=True))
        await connection.execute(_APPEND, [id, numbers, values, chains])


async def delete(connection: Connection, key: Key) -> bool:
    """Deletes a damaged record too. The row is locked before its entries are looked for: none comes after that."""
    locked = await connection.execute("SELECT 1 FROM antiphon.record WHERE id = %s FOR UPDATE", [key_id(key)])
    if await locked.fetchone() is None:
        return False
    await _delete(connection, [key_id(key)])
    return True


async def names(connection: Connection, kind: str, owner: str) -> list[str]:
    """Sorted."""
    cursor = await connection.execute(_NAMES, [kind, owner.encode()], binary=True)
    return [_text(name) for (name,) in await cursor.fetchall()]


async def keys(connection: Connection, after: UUID, limit: int) -> list[tuple[UUID, Key | None]]:
    """The next rows by their ids, with their keys; None for one that is damaged."""
    cursor = await connection.execute(_PAGE, [after, limit], binary=True)
    return [(id, _key(id, *names)) for id, *names in await cursor.fetchall()]


async def sweep(connection: Connection, now: float, after: Mark) -> tuple[int, Mark | None]:
    """Deletes the next records that expired and are whole: how many, and where to go on, None at the end.

    What another process sweeps or writes at the moment is left to it.
    """
    cursor = await connection.execute(_EXPIRED, [now, *after, _SWEPT_AT_ONCE], binary=True)
    rows = await cursor.fetchall()
    gone = [id for _, id, *others in rows if _is_whole(id, others)]
    await _delete(connection, gone)
    return len(gone), (rows[-1][0], rows[-1][1]) if len(rows) == _SWEPT_AT_ONCE else None


async def _delete(connection: Connection, ids: Sequence[UUID]) -> None:
    if ids:
        await connection.execute("DELETE FROM antiphon.entry WHERE record = ANY(%s)", [list(ids)])
        await connection.execute("DELETE FROM antiphon.record WHERE id = ANY(%s)", [list(ids)])


def _stored(key: Key, columns: Sequence[object]) -> Stored:
    """Raises `StoreError` where the row is another's, or was damaged."""
    if tuple(columns[:3]) != (key.kind, key.owner.encode(), key.name.encode()):
        raise damaged()
    return stored(key, columns[3:])


def _is_whole(id: UUID, columns: Sequence[Any]) -> bool:
    key = _key(id, *columns[:3])
    try:
        return key is not None and _stored(key, columns) is not None
    except StoreError:
        return False


def _key(id: UUID, kind: str, owner: bytes, name: bytes) -> Key | None:
    """The row's key, or None where its id does not match."""
    try:
        key = Key(kind, _text(owner), _text(name))
    except StoreError:
        return None
    return key if key_id(key) == id else None


def _text(column: bytes) -> str:
    try:
        return column.decode()
    except UnicodeDecodeError:
        raise damaged() from None
