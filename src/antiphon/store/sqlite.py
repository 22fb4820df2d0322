"""The default store: one SQLite file in WAL mode, written by one thread, fsynced before a write returns.

Every record has a checksum of itself and its entries, so what was damaged on disk is an error and never an answer.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from antiphon.errors import ConfigError, StoreError

from . import sqlite_leases, sqlite_records
from .faults import PASSING, store_fault
from .sqlite_file import open_file
from .store import Key, Lease, Record, Write

SWEPT_AT_ONCE = 200
"""Records that one transaction of a sweep deletes; other calls come between two of them."""

LISTED_AT_ONCE = 1000
"""Keys that one transaction reads."""

Result = TypeVar("Result")
_Work = Callable[[sqlite3.Connection], Result]
_Transaction = Callable[[sqlite3.Connection], AbstractContextManager[None]]


class SqliteStore:
    """A file that processes of one machine may share. Raises `ConfigError` for another version, or if it cannot be
    opened.

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

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        await self.put_all(Write(key, record, entries, expected, lease))

    async def put_all(self, *writes: Write) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for write in writes:
                sqlite_leases.check(connection, write.lease)
                sqlite_records.check(connection, write.key, write.expected)
            for write in writes:
                sqlite_records.put(connection, write.key, write.record, write.entries)

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
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _read(self, work: _Work[Result]) -> Result:
        return await self._do(_reading, work)

    async def _write(self, work: _Work[Result]) -> Result:
        return await self._do(_writing, work)

    async def _lease(self, work: _Work[Result]) -> Result:
        return await self._do(_leasing, work)

    async def _do(self, transaction: _Transaction, work: _Work[Result]) -> Result:
        """Run ``work`` in the store's thread, shielded: a cancelled caller does not tear a write."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._run, transaction, work)
        return await asyncio.shield(future)

    def _run(self, transaction: _Transaction, work: _Work[Result]) -> Result:
        """After a fault the file is opened anew: what SQLite has of it in memory may be of another time."""
        try:
            if self._connection is None:
                self._connection = open_file(self._path, check=False)
            with transaction(self._connection):
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


@contextmanager
def _reading(connection: sqlite3.Connection) -> Iterator[None]:
    """What is read is of one moment, whatever other processes write."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.rollback()


@contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Waits for other processes before it reads anything."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def _leasing(connection: sqlite3.Connection) -> Iterator[None]:
    """Leases end with the machine, so the disk is not waited for; it is when something is written by their fences."""
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with _writing(connection):
            yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")
