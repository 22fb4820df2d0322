"""The default store: one SQLite file in WAL mode, written by one thread, fsynced before a write returns.

Every record has a checksum of itself and its entries, so what was damaged on disk is an error and never an answer.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from antiphon.errors import ConfigError, StoreError

from .checksum import NO_ENTRIES, chained, checksum, key_number
from .faults import PASSING, damaged, store_fault
from .sqlite_file import open_file
from .store import Key, Record, Write

_COLUMNS = "id, value, created, expires, entries, chain, checksum"
_AT = "kind = ? AND owner = ? AND name = ?"
_FIND = f"SELECT {_COLUMNS} FROM record WHERE {_AT}"  # noqa: S608 - constants, as below
_MARKED = "SELECT 1 FROM record INDEXED BY record_mark WHERE mark = ?"
_INSERT = """
INSERT INTO record (value, created, expires, entries, chain, checksum, kind, owner, name, mark)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = "UPDATE record SET value = ?, created = ?, expires = ?, entries = ?, chain = ?, checksum = ? WHERE id = ?"
_APPEND = "INSERT INTO entry (record, number, value) VALUES (?, ?, ?)"
_ENTRIES = "SELECT value FROM entry WHERE record = ? ORDER BY number"
_EXPIRED = "SELECT id FROM record WHERE expires <= ?"
_BY_ID = f"SELECT kind, owner, name, {_COLUMNS} FROM record WHERE id = ?"  # noqa: S608

SWEPT_AT_ONCE = 200
"""Records that one transaction of a sweep deletes; other calls come between two of them."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Row:
    """A record that fits its checksum, with its row's id and what its entries must amount to."""

    id: int
    record: Record
    count: int
    chain: bytes


class SqliteStore:
    """A file that several processes may share. Raises `ConfigError` for another version, or if it cannot be opened.

    Its calls raise `StoreError`, whose code names the cause; once the cause is gone they work again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._thread.submit(open_file, path, check=True).result()
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            raise ConfigError(f"the session store {path} cannot be opened: {error}", code="store_unusable") from error
        except ConfigError:
            self._thread.shutdown()
            raise

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        await self.put_all(Write(key, record, entries))

    async def put_all(self, *writes: Write) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for write in writes:
                    _put(connection, write.key, write.record, write.entries)

        await self._do(work)

    async def get(self, key: Key) -> Record | None:
        row = await self._do(lambda connection: _find(connection, key))
        return row.record if row else None

    async def entries(self, key: Key) -> list[bytes]:
        def work(connection: sqlite3.Connection) -> list[bytes]:
            row = _find(connection, key)
            return _entries(connection, row) if row else []

        return await self._do(work)

    async def delete(self, key: Key) -> bool:
        """Deletes a damaged record too; `StoreError` where that is not possible any more."""

        def work(connection: sqlite3.Connection) -> bool:
            with connection:
                deleted = connection.execute(f"DELETE FROM record WHERE {_AT}", _names(key)).rowcount  # noqa: S608
                if not deleted:
                    _must_be_absent(connection, key)
            return deleted > 0

        return await self._do(work)

    async def names(self, kind: str, owner: str) -> list[str]:
        query = f"SELECT name, {_COLUMNS} FROM record WHERE kind = ? AND owner = ? ORDER BY name"  # noqa: S608

        def work(connection: sqlite3.Connection) -> list[str]:
            keys = []
            for name, *columns in connection.execute(query, (kind, owner)):
                keys.append(_key(kind.encode(), owner.encode(), name))
                _checked(keys[-1], columns)
            return [key.name for key in keys]

        return await self._do(work)

    async def expire(self, now: float) -> int:
        """A record that is damaged stays: only a whole one says truly when it expires."""
        ids = await self._do(lambda connection: [id for (id,) in connection.execute(_EXPIRED, (now,))])
        batches = [ids[start : start + SWEPT_AT_ONCE] for start in range(0, len(ids), SWEPT_AT_ONCE)]
        return sum([await self._do(partial(_sweep, ids=batch, now=now)) for batch in batches])

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run ``work`` in the store's thread, shielded: a cancelled caller does not tear a write."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)
        return await asyncio.shield(future)

    def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """After a fault the file is opened anew: what SQLite has of it in memory may be of another time."""
        try:
            if self._connection is None:
                self._connection = open_file(self._path, check=False)
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            fault = store_fault(error)
            if fault.code not in PASSING:
                self._close()
            raise fault from error
        except StoreError:
            self._close()
            raise
        except ConfigError as error:
            raise StoreError("The store cannot be used now.", code="store_failed") from error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _names(key: Key) -> tuple[str, str, str]:
    return key.kind, key.owner, key.name


def _find(connection: sqlite3.Connection, key: Key) -> _Row | None:
    columns = connection.execute(_FIND, _names(key)).fetchone()
    if columns is not None:
        return _checked(key, columns)
    _must_be_absent(connection, key)
    return None


def _must_be_absent(connection: sqlite3.Connection, key: Key) -> None:
    """An index that lost a record must not pass for a record that never was."""
    if connection.execute(_MARKED, (key_number(key),)).fetchone() is not None:
        raise damaged()


def _checked(key: Key, columns: Sequence[object]) -> _Row:
    """Raises `StoreError` unless the columns are just what was written under ``key``."""
    match columns:
        case [int(id), bytes(value), float(created), float() | None as expires, int(count), bytes(chain), bytes(proof)]:
            record = Record(value, created, expires)
            if checksum(key, record, count, chain) == proof:
                return _Row(id, record, count, chain)
    raise damaged()


def _entries(connection: sqlite3.Connection, row: _Row) -> list[bytes]:
    entries = [value for (value,) in connection.execute(_ENTRIES, (row.id,))]
    whole = len(entries) == row.count and all(isinstance(entry, bytes) for entry in entries)
    if not whole or chained(NO_ENTRIES, entries) != row.chain:
        raise damaged()
    return entries


def _put(connection: sqlite3.Connection, key: Key, record: Record, entries: Sequence[bytes]) -> None:
    known = _find(connection, key)
    written = Record(
        record.value,
        known.record.created if known else float(record.created),
        None if record.expires is None else float(record.expires),
    )
    before, chain = (known.count, known.chain) if known else (0, NO_ENTRIES)
    count, chain = before + len(entries), chained(chain, entries)
    proof = checksum(key, written, count, chain)
    values = (written.value, written.created, written.expires, count, chain, proof)
    if known:
        connection.execute(_UPDATE, (*values, known.id))
    id = known.id if known else connection.execute(_INSERT, (*values, *_names(key), key_number(key))).lastrowid
    connection.executemany(_APPEND, [(id, before + number, entry) for number, entry in enumerate(entries, 1)])


def _sweep(connection: sqlite3.Connection, ids: Sequence[int], now: float) -> int:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        gone = [(id,) for id in ids if _expired(connection, id, now)]
        connection.executemany("DELETE FROM record WHERE id = ?", gone)
    return len(gone)


def _expired(connection: sqlite3.Connection, id: int, now: float) -> bool:
    try:
        found = connection.execute(_BY_ID, (id,)).fetchone()
        expires = _checked(_key(*found[:3]), found[3:]).record.expires if found else None
    except (StoreError, sqlite3.DatabaseError):
        return False
    return expires is not None and expires <= now


def _key(kind: bytes, owner: bytes, name: bytes) -> Key:
    """Raises `StoreError` for names that are no text any more."""
    try:
        return Key(kind.decode(), owner.decode(), name.decode())
    except (UnicodeDecodeError, AttributeError):
        raise damaged() from None
