"""The default store: one SQLite file in WAL mode, written by one thread, fsynced before a write returns.

Every record has a checksum of itself and its entries, so what was damaged on disk is an error and never an answer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from antiphon.errors import ConfigError, words_of

from . import sqlite_leases, sqlite_records
from .sqlite_file import Access, SqliteThread
from .store import Delete, Key, Lease, Record, Write

SWEPT_AT_ONCE = 200
"""Records that one transaction of a sweep deletes; other calls come between two of them."""

LISTED_AT_ONCE = 1000
"""Keys that one transaction reads."""

Result = TypeVar("Result")
_Work = Callable[[sqlite3.Connection], Result]


class SqliteStore:
    """A file that processes of one machine may share. Raises `ConfigError` for another version, or if it cannot be
    opened.

    Its calls raise `StoreError`, whose code names the cause; once the cause is gone they work again.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._thread = SqliteThread(path)
        except (sqlite3.Error, OSError) as error:
            raise ConfigError(
                f"the session store {path} cannot be opened: {words_of(error)}", code="store_unusable"
            ) from error

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        await self.put_all(Write(key, record, entries, expected, lease))

    async def put_all(self, *writes: Write | Delete) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for write in writes:
                if isinstance(write, Write):
                    sqlite_leases.check(connection, write.lease)
                    sqlite_records.check(connection, write.key, write.expected)
            for write in writes:
                if isinstance(write, Write):
                    sqlite_records.put(connection, write.key, write.record, write.entries)
                else:
                    sqlite_records.delete(connection, write.key, write.value)

        await self._write(work)

    async def get(self, key: Key) -> Record | None:
        row = await self._read(lambda connection: sqlite_records.find(connection, key))
        return row.stored.record if row else None

    async def entries(self, key: Key, *, after: int = 0) -> list[bytes]:
        def work(connection: sqlite3.Connection) -> list[bytes]:
            row = sqlite_records.find(connection, key)
            return sqlite_records.entries_of(connection, row, after) if row else []

        return await self._read(work)

    async def delete(self, key: Key, *, lease: Lease | None = None) -> bool:
        """Deletes a damaged record too; `StoreError` where that is not possible any more."""

        def work(connection: sqlite3.Connection) -> bool:
            sqlite_leases.check(connection, lease)
            return sqlite_records.delete(connection, key)

        return await self._write(work)

    async def names(self, kind: str, owner: str) -> list[str]:
        return await self._read(lambda connection: sqlite_records.names(connection, kind, owner))

    async def keys(self) -> AsyncIterator[Key | None]:
        after = 0
        while page := await self._read(partial(sqlite_records.keys, after=after, limit=LISTED_AT_ONCE)):
            for after, key in page:  # noqa: B007 - where the next page begins
                yield key

    async def expire(self, now: float) -> int:
        """A record that is damaged stays: only a whole one says truly when it expires."""
        ids = await self._read(lambda connection: sqlite_records.expired(connection, now))
        batches = [ids[start : start + SWEPT_AT_ONCE] for start in range(0, len(ids), SWEPT_AT_ONCE)]
        return sum([await self._write(partial(sqlite_records.sweep, ids=batch, now=now)) for batch in batches])

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        return await self._lease(lambda connection: sqlite_leases.claim(connection, key, holder, seconds))

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        return await self._lease(lambda connection: sqlite_leases.renew(connection, leases, seconds))

    async def release(self, lease: Lease) -> None:
        await self._lease(lambda connection: sqlite_leases.release(connection, lease))

    async def lease(self, key: Key) -> Lease | None:
        return await self._read(lambda connection: sqlite_leases.find(connection, key))

    async def signal(self, key: Key, signal: str) -> bool:
        return await self._lease(lambda connection: sqlite_leases.signal(connection, key, signal))

    async def abandoned(self, kind: str, *, limit: int = 100) -> list[Key]:
        return await self._read(lambda connection: sqlite_leases.abandoned(connection, kind, limit))

    async def aclose(self) -> None:
        await self._thread.aclose()

    async def _read(self, work: _Work[Result]) -> Result:
        return await self._thread.call(Access.READ, work)

    async def _write(self, work: _Work[Result]) -> Result:
        return await self._thread.call(Access.WRITE, work)

    async def _lease(self, work: _Work[Result]) -> Result:
        return await self._thread.call(Access.LEASE, work)
