"""A store in PostgreSQL, for servers on several machines. It needs the extra ``antiphon[postgres]``.

A call is one statement or one transaction, and nothing outlives it: pgbouncer may be between, in transaction mode.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from antiphon.errors import ConfigError, StoreError

from . import postgres_leases, postgres_records
from .faults import HINTS, MEANINGS
from .postgres_address import hidden_password, parse_address
from .postgres_records import Connection
from .rows import Stored, change, key_id
from .store import Delete, Key, Lease, Record, Write, check_version, total

# The tables of the PostgreSQL store: in the schema ``antiphon``, with the version that they have.

VERSION = 1
_LOCK = 0x616E746970686F6E
"""The advisory lock under which the tables are made or changed; it ends with the transaction."""
_IS_THERE = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'antiphon' AND tablename = 'schema_version'"

_CHANGES: tuple[tuple[LiteralString, ...], ...] = (
    (
        "CREATE SCHEMA IF NOT EXISTS antiphon",
        "CREATE TABLE antiphon.schema_version (version integer NOT NULL)",
        "INSERT INTO antiphon.schema_version VALUES (0)",
        """
        CREATE TABLE antiphon.record (
            id uuid PRIMARY KEY, kind text COLLATE "C" NOT NULL, owner bytea NOT NULL, name bytea NOT NULL,
            value bytea NOT NULL, created double precision NOT NULL, expires double precision,
            version bigint NOT NULL, entries bigint NOT NULL, chain bytea NOT NULL, checksum bytea NOT NULL
        )
        """,
        "CREATE INDEX record_name ON antiphon.record (kind, owner, name)",
        "CREATE INDEX record_expires ON antiphon.record (expires, id) WHERE expires IS NOT NULL",
        """
        CREATE TABLE antiphon.entry (
            record uuid NOT NULL, number bigint NOT NULL, value bytea NOT NULL, chain bytea NOT NULL,
            PRIMARY KEY (record, number)
        )
        """,
        """
        CREATE TABLE antiphon.lease (
            kind text COLLATE "C" NOT NULL, owner bytea NOT NULL, name bytea NOT NULL,
            fence bigint NOT NULL, holder text NOT NULL, signal bytea NOT NULL, ends timestamptz NOT NULL,
            PRIMARY KEY (kind, owner, name)
        ) WITH (fillfactor = 50)
        """,
        "CREATE SEQUENCE antiphon.fence",
    ),
)
"""Changes of each version. ``id`` is `key_id` of the other three, which are bytes because a text of PostgreSQL has no
zero; ``entries`` and ``chain`` are of the record's entries, an entry's ``chain`` of those up to it."""


def version_of(connection: psycopg.Connection) -> int:
    """The version of the tables, 0 where there are none."""
    if connection.execute(_IS_THERE).fetchone() is None:
        return 0
    found = connection.execute("SELECT version FROM antiphon.schema_version").fetchone()
    return int(found[0]) if found else 0


def prepare(connection: psycopg.Connection, *, migrate: bool = False) -> int:
    """Makes the tables where there are none; with ``migrate`` brings older ones to this version. The version before.

    Raises `ConfigError` for tables of another version, `psycopg.Error` where the server refuses.
    """
    with connection.transaction():
        version = version_of(connection)
        if version == VERSION:
            return version
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = version_of(connection)  # Another process may have been faster.
        if version > VERSION or (version and version < VERSION and not migrate):
            raise ConfigError(
                f"the session store has tables of version {version}; this program knows {VERSION}",
                code="store_unusable",
                hint="antiphon store migrate brings older ones to this version, when no older server uses them.",
            )
        for statements in _CHANGES[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute("UPDATE antiphon.schema_version SET version = %s", [VERSION])
        return version


# What went wrong in PostgreSQL, as an error that names the cause. Its words name no server: clients read them.

log = logging.getLogger("antiphon.store")

CAUSES: dict[type[Exception], str] = {
    errors.DiskFull: "store_full",
    errors.ReadOnlySqlTransaction: "store_readonly",
    errors.InsufficientPrivilege: "store_readonly",
    errors.TooManyConnections: "store_busy",
    errors.DeadlockDetected: "store_busy",
    errors.SerializationFailure: "store_busy",
    errors.UniqueViolation: "store_busy",
    errors.LockNotAvailable: "store_busy",
    errors.QueryCanceled: "store_busy",
    TooManyRequests: "store_busy",
    PoolTimeout: "store_failed",
    TimeoutError: "store_busy",
    errors.DataCorrupted: "store_corrupt",
    errors.IndexCorrupted: "store_corrupt",
    Exception: "store_failed",
}
"""The first that an error is one of counts."""
AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""After these nothing was done, and the same may be tried again."""
PASSING = (PoolTimeout, TooManyRequests, errors.QueryCanceled, errors.LockNotAvailable, errors.DiskFull)
"""Faults of a connection that works: another one would have them too."""


def postgres_fault(error: psycopg.Error | TimeoutError | OSError) -> StoreError:
    """The error for clients; that of PostgreSQL is in the log."""
    kind = next(kind for kind in CAUSES if isinstance(error, kind))
    code = CAUSES[kind]
    state = getattr(error, "sqlstate", None) or type(error).__name__
    log.error("%s: %s (%s)", code, str(error).strip(), state)
    return StoreError(MEANINGS[code], code=code, hint=HINTS[code])


LARGEST = 256 << 20
"""Bytes of one record's value, or of the entries that one write appends; PostgreSQL's own limit is 1 GB."""
LISTED_AT_ONCE = 1000
"""Keys that one statement reads."""
_TRIES = 12
"""Tries of a transaction that another one was in the way of, or whose connection was lost."""
_PAUSED_MILLISECONDS = 5000
"""Milliseconds after which the database ends the transaction of an idle process: others wait for it."""
_RECONNECT_SECONDS = 5.0
"""Seconds for which the pool tries by itself, less and less often; after that each call tries anew."""
_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": None,  # pgbouncer gives another connection to each transaction.
    "connect_timeout": 10,
    "application_name": "antiphon",
    "client_encoding": "UTF8",
}
_KEPT_ALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 30_000}

Result = TypeVar("Result")
_Work = Callable[[Connection], Awaitable[Result]]
_Pool = AsyncConnectionPool[Connection]


class PostgresStore:
    """The database at ``postgresql://…`` (see `parse_address`), in whose schema ``antiphon`` the tables are.

    Raises `ConfigError` where it cannot be reached or has another version. Its calls raise `StoreError`, whose code
    names the cause; once the cause is gone they work again.
    """

    def __init__(self, address: str) -> None:
        self._address = parse_address(address)
        timeout = int(self._address.pool_timeout * 1000)
        self._begin = (
            f"BEGIN; SET LOCAL statement_timeout = {timeout};"
            f" SET LOCAL idle_in_transaction_session_timeout = {min(timeout, _PAUSED_MILLISECONDS)}"
        )
        self._pool: _Pool | None = None
        self._running: set[asyncio.Future[Any]] = set()
        open_tables(address)

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        await self.put_all(Write(key, record, entries, expected, lease))

    async def put_all(self, *writes: Write | Delete) -> None:
        sizes = [max(len(one.record.value), total(one.entries)) for one in writes if isinstance(one, Write)]
        if max(sizes, default=0) > LARGEST:
            raise StoreError(MEANINGS["store_full"], code="store_full", hint="Store less at once.")
        await self._write(partial(_put_all, writes=writes))

    async def get(self, key: Key) -> Record | None:
        stored = await self._read(lambda connection: postgres_records.find(connection, key))
        return stored.record if stored else None

    async def entries(self, key: Key, *, after: int = 0) -> list[bytes]:
        return await self._read(lambda connection: postgres_records.entries_of(connection, key, after))

    async def delete(self, key: Key, *, lease: Lease | None = None) -> bool:
        """Deletes a damaged record too."""

        async def work(connection: Connection) -> bool:
            await postgres_leases.check(connection, lease)
            return await postgres_records.delete(connection, key)

        return await self._write(work)

    async def names(self, kind: str, owner: str) -> list[str]:
        return await self._read(lambda connection: postgres_records.names(connection, kind, owner))

    async def keys(self) -> AsyncIterator[Key | None]:
        after = UUID(int=0)
        while page := await self._read(partial(postgres_records.keys, after=after, limit=LISTED_AT_ONCE)):
            for after, key in page:  # noqa: B007 - where the next page begins
                yield key

    async def expire(self, now: float) -> int:
        """A record that is damaged stays: only a whole one says truly when it expires."""
        count, mark = 0, postgres_records.START
        while True:
            swept, after = await self._write(partial(postgres_records.sweep, now=now, after=mark))
            count += swept
            if after is None:
                return count
            mark = after

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        return await self._write(lambda connection: postgres_leases.claim(connection, key, holder, seconds))

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        return await self._read(lambda connection: postgres_leases.renew(connection, leases, seconds))

    async def release(self, lease: Lease) -> None:
        await self._read(lambda connection: postgres_leases.release(connection, lease))

    async def lease(self, key: Key) -> Lease | None:
        return await self._read(lambda connection: postgres_leases.find(connection, key))

    async def signal(self, key: Key, signal: str) -> bool:
        return await self._read(lambda connection: postgres_leases.signal(connection, key, signal))

    async def abandoned(self, kind: str, *, limit: int = 100) -> list[Key]:
        return await self._read(lambda connection: postgres_leases.abandoned(connection, kind, limit))

    async def aclose(self) -> None:
        while self._running:
            await asyncio.wait(self._running)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def _read(self, work: _Work[Result]) -> Result:
        """One statement, which may be done twice."""
        return await self._shielded(self._run(work, begin=False))

    async def _write(self, work: _Work[Result]) -> Result:
        """One transaction."""
        return await self._shielded(self._run(work, begin=True))

    async def _shielded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """A caller who goes away does not tear a write, nor cost a connection."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Future[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # Nobody may be there to take it.

    async def _run(self, work: _Work[Result], *, begin: bool) -> Result:
        try:
            pool = await self._opened()
            for _ in range(_TRIES):
                with suppress(_AgainError):
                    return await self._attempt(pool, work, begin=begin)
            return await self._attempt(pool, work, begin=begin)
        except _AgainError as error:
            raise postgres_fault(error.cause) from error
        except (psycopg.Error, TimeoutError, OSError) as error:
            raise postgres_fault(error) from error

    async def _attempt(self, pool: _Pool, work: _Work[Result], *, begin: bool) -> Result:
        """Raises `_AgainError` where nothing was done: another transaction was in the way, or the server is another
        one since the connection was made. Where a transaction may have been done, it is not tried again."""
        begun = False
        try:
            async with pool.connection() as connection, asyncio.timeout(self._address.pool_timeout):
                if begin:
                    await connection.execute(self._begin)
                    begun = True
                return await work(connection)
        except AGAIN as error:
            raise _AgainError(error) from error
        except PASSING:
            raise
        except psycopg.OperationalError as error:
            if begun:
                raise
            await pool.check()
            raise _AgainError(error) from error

    async def _opened(self) -> _Pool:
        """The pool is of the event loop that first calls the store."""
        if self._pool is None:
            self._pool = AsyncConnectionPool(
                self._address.conninfo,
                connection_class=psycopg.AsyncConnection[Any],
                kwargs={**_CONNECTION, **_KEPT_ALIVE},
                min_size=1,
                max_size=self._address.connection_limit,
                timeout=self._address.pool_timeout,
                reconnect_timeout=_RECONNECT_SECONDS,
                open=False,
            )
            await self._pool.open()
        return self._pool


class _AgainError(Exception):
    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__()
        self.cause = cause


def open_tables(address: str, *, migrate: bool = False) -> int:
    """See `prepare`. Raises `ConfigError` where the database cannot be reached or used, without the password."""
    try:
        with psycopg.connect(parse_address(address).conninfo, **_CONNECTION) as connection:
            return prepare(connection, migrate=migrate)
    except psycopg.Error as error:
        raise ConfigError(
            f"the session store {hidden_password(address)} cannot be opened: {str(error).strip()}",
            code="store_unusable",
        ) from error


async def _put_all(connection: Connection, writes: Sequence[Write | Delete]) -> None:
    conditional = [write for write in writes if isinstance(write, Write)]
    for lease in sorted({write.lease for write in conditional if write.lease}, key=lambda lease: lease.fence):
        await postgres_leases.check(connection, lease)
    known = await postgres_records.lock(connection, [write.key for write in writes])
    for write in conditional:
        there = known[write.key]
        check_version(there.record.version if there else 0, write.expected)
    for one in sorted(writes, key=lambda write: key_id(write.key)):  # New rows too are locked in one order.
        known[one.key] = await _apply(connection, one, known[one.key])


async def _apply(connection: Connection, write: Write | Delete, there: Stored | None) -> Stored | None:
    """Applies a write; returns the row that is there afterwards."""
    if isinstance(write, Write):
        done = change(write.key, there, write.record, write.entries)
        await postgres_records.put(connection, write.key, done, new=there is None)
        return done.row
    if there is not None and write.value in (None, there.record.value):
        await postgres_records.delete(connection, write.key)
        return None
    return there
