"""The default store: one SQLite file in WAL mode, written by one thread, fsynced before a write returns."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from antiphon.errors import ConfigError

from .store import Key, Record

VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
    value BLOB NOT NULL, created REAL NOT NULL, expires REAL, UNIQUE (kind, owner, name)
);
CREATE INDEX IF NOT EXISTS record_expires ON record (expires) WHERE expires IS NOT NULL;
CREATE TABLE IF NOT EXISTS entry (
    record INTEGER NOT NULL REFERENCES record ON DELETE CASCADE, number INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (record, number)
) WITHOUT ROWID;
"""
_PUT = """
INSERT INTO record (kind, owner, name, value, created, expires) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, owner, name) DO UPDATE SET value = excluded.value, expires = excluded.expires RETURNING id
"""
_APPEND = """
INSERT INTO entry (record, number, value)
VALUES (?, (SELECT coalesce(max(number), 0) + 1 FROM entry WHERE record = ?), ?)
"""
_ENTRIES = """
SELECT entry.value FROM entry JOIN record ON entry.record = record.id
WHERE kind = ? AND owner = ? AND name = ? ORDER BY number
"""
_WHERE = "WHERE kind = ? AND owner = ? AND name = ?"

Result = TypeVar("Result")


class SqliteStore:
    """A file that several processes may share. Raises `ConfigError` for another version, or if it cannot be opened."""

    def __init__(self, path: Path) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        try:
            self._connection = self._thread.submit(_open, path).result()
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown()
            raise ConfigError(f"the session store {path} cannot be opened: {error}", code="store_unusable") from error
        except ConfigError:
            self._thread.shutdown()
            raise

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                values = (key.kind, key.owner, key.name, record.value, record.created, record.expires)
                (id,) = connection.execute(_PUT, values).fetchone()
                connection.executemany(_APPEND, [(id, id, entry) for entry in entries])

        await self._do(work)

    async def get(self, key: Key) -> Record | None:
        query = f"SELECT value, created, expires FROM record {_WHERE}"  # noqa: S608 - a constant
        row = await self._do(lambda connection: connection.execute(query, _names(key)).fetchone())
        return Record(*row) if row else None

    async def entries(self, key: Key) -> list[bytes]:
        rows = await self._do(lambda connection: connection.execute(_ENTRIES, _names(key)).fetchall())
        return [value for (value,) in rows]

    async def delete(self, key: Key) -> bool:
        def work(connection: sqlite3.Connection) -> int:
            with connection:
                return connection.execute(f"DELETE FROM record {_WHERE}", _names(key)).rowcount  # noqa: S608

        return await self._do(work) > 0

    async def names(self, kind: str, owner: str) -> list[str]:
        query = "SELECT name FROM record WHERE kind = ? AND owner = ? ORDER BY name"
        rows = await self._do(lambda connection: connection.execute(query, (kind, owner)).fetchall())
        return [name for (name,) in rows]

    async def expire(self, now: float) -> int:
        def work(connection: sqlite3.Connection) -> int:
            with connection:
                return connection.execute("DELETE FROM record WHERE expires <= ?", (now,)).rowcount

        return await self._do(work)

    async def aclose(self) -> None:
        await self._do(lambda connection: connection.close())
        self._thread.shutdown()

    async def _do(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run ``work`` in the store's thread, shielded: a cancelled caller does not tear a write."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work, self._connection)
        return await asyncio.shield(future)


def _names(key: Key) -> tuple[str, str, str]:
    return key.kind, key.owner, key.name


def _open(path: Path) -> sqlite3.Connection:
    """Open or create the file, readable by its owner alone, because it contains conversations."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=30.0, check_same_thread=False)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        connection.close()
        raise ConfigError(
            f"{path} is a store of version {version}; this program knows {VERSION}", code="store_unusable"
        )
    connection.executescript(_SCHEMA)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    return connection
