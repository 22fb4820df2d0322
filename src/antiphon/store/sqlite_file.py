"""The file of the SQLite store: how it is opened and checked, and its tables."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from enum import IntEnum, auto
from pathlib import Path
from typing import Any, Generic, TypeVar

from antiphon.errors import ConfigError, StoreError

from .faults import PASSING, store_fault
from .rows import NO_ENTRIES, chained, checksum, key_number
from .store import Key, Record

log = logging.getLogger("antiphon.store")

VERSION = 3
CHECK_SECONDS = 2.0
"""How long the pages may be checked when the file is opened; a larger file is checked as far as that goes."""
WAITED = 30.0
"""Seconds for which another process may have the file for itself."""
_PAUSE = 0.01
_STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the time."""
_PRAGMAS = ("synchronous = FULL", "foreign_keys = ON", "cell_size_check = ON")

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS record (
        id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
        value BLOB NOT NULL, created REAL NOT NULL, expires REAL, UNIQUE (kind, owner, name)
    )
    """,
    "CREATE INDEX IF NOT EXISTS record_expires ON record (expires) WHERE expires IS NOT NULL",
    """
    CREATE TABLE IF NOT EXISTS entry (
        record INTEGER NOT NULL REFERENCES record ON DELETE CASCADE, number INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (record, number)
    ) WITHOUT ROWID
    """,
)
_CHECKSUMS = (
    "ALTER TABLE record ADD COLUMN entries INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE record ADD COLUMN chain BLOB NOT NULL DEFAULT x''",
    "ALTER TABLE record ADD COLUMN checksum BLOB NOT NULL DEFAULT x''",
    "ALTER TABLE record ADD COLUMN mark INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX record_mark ON record (mark)",
)
"""Changes of version 2. ``mark`` is `key_number`, ``chain`` and ``entries`` are of the record's entries."""
_CLAIMS = (
    "ALTER TABLE record ADD COLUMN version INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE entry ADD COLUMN chain BLOB",
    """
    CREATE TABLE lease (
        fence INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL,
        holder TEXT NOT NULL, signal TEXT NOT NULL DEFAULT '', boot TEXT NOT NULL, since REAL NOT NULL,
        ends REAL NOT NULL, UNIQUE (kind, owner, name)
    )
    """,
)
"""Changes of version 3. An entry's ``chain`` is that of the entries up to it, NULL for those of earlier versions; the
times of a lease are seconds since the start of the system that ``boot`` names."""


def open_file(path: Path, *, check: bool) -> sqlite3.Connection:
    """Open or create the file, readable by its owner alone, because it contains conversations.

    ``check`` looks at its pages and tells the log of damage. A store of an earlier version is brought to this one,
    whole or not at all. Raises `ConfigError` for one of a later version, `sqlite3.Error` or
    `OSError` where the file cannot be used.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=WAITED, check_same_thread=False)
    try:
        connection.text_factory = bytes  # A damaged text must not raise before its checksum is seen.
        _use_wal(connection)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _prepare(connection, path)
        if check:
            _check_pages(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """The journal of a new file, which several processes may open at once: SQLite does not wait for this lock."""
    end = time.monotonic() + WAITED
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection) == VERSION:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection)  # Another process may have been faster.
        if version == VERSION:
            return
        if not 0 <= version < VERSION:
            raise ConfigError(
                f"{path} is a store of version {version}; this program knows {VERSION}", code="store_unusable"
            )
        if version < 2:
            for statement in (*_TABLES, *_CHECKSUMS):
                connection.execute(statement)
            for (id,) in connection.execute("SELECT id FROM record").fetchall():
                _add_checksum(connection, id)
        for statement in _CLAIMS:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _add_checksum(connection: sqlite3.Connection, id: int) -> None:
    """Adds the checksum of a record that has none yet; the record is believed as it is."""
    *names, value, created, expires = connection.execute(
        "SELECT kind, owner, name, value, created, expires FROM record WHERE id = ?", (id,)
    ).fetchone()
    key = Key(*(name.decode() for name in names))
    entries = connection.execute("SELECT value FROM entry WHERE record = ? ORDER BY number", (id,)).fetchall()
    chain = chained(NO_ENTRIES, (entry for (entry,) in entries))
    proof = checksum(key, Record(value, created, expires), len(entries), chain)
    connection.execute(
        "UPDATE record SET entries = ?, chain = ?, checksum = ?, mark = ? WHERE id = ?",
        (len(entries), chain, proof, key_number(key), id),
    )


def _check_pages(connection: sqlite3.Connection) -> None:
    """Tells the log of damaged pages. The store is used all the same: each record is checked when it is read."""
    end = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    try:
        found = [row[0] for row in connection.execute("PRAGMA quick_check(5)")]
    except sqlite3.OperationalError:  # The time is over.
        return
    except sqlite3.DatabaseError as error:
        found = [str(error)]
    finally:
        connection.set_progress_handler(None, 0)
    if found != [b"ok"]:
        log.error("the store is damaged, and what is lost is answered with store_corrupt; bring it back from a copy")


# The thread that has the SQLite store's file, and makes the calls that wait for it together.
#
# Writes that came while the thread was at work are one transaction, so that many wait for the disk once. Each is a
# savepoint in it: one that is refused changes nothing, and the others go on.

TOGETHER = 64
"""Calls that one transaction has at most; other processes, and calls that come later, wait for no more than these."""

Result = TypeVar("Result")


class Access(IntEnum):
    """The access of a call to the file. Calls that are made together are made as the highest of them needs it."""

    READ = 0
    LEASE = auto()
    """Leases end with the machine, so the disk is not waited for; it is when something is written by their fences."""
    WRITE = auto()


@dataclass(slots=True)
class _Call(Generic[Result]):
    access: Access
    work: Callable[[sqlite3.Connection], Result]
    future: asyncio.Future[Result]
    result: Result | None = None
    error: Exception | None = None

    def make(self, connection: sqlite3.Connection) -> None:
        """Within a transaction. Raises what is wrong with the file; other errors are the caller's alone."""
        self.result = self.error = None
        try:
            self.result = self.work(connection)
        except Exception as error:
            self.error = error
            if isinstance(error, sqlite3.Error | OSError | StoreError):
                raise

    def answer(self) -> None:
        """In the event loop of the caller, who may have gone away."""
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # None is a result, too


class SqliteThread:
    """Raises `sqlite3.Error`, `OSError` or `ConfigError` where the file cannot be opened: see `open_file`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sqlite")
        self._lock = threading.Lock()
        self._waiting: deque[_Call[Any]] = deque()
        self._working = False
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._executor.submit(open_file, path, check=True).result()
        except BaseException:
            self._executor.shutdown()
            raise

    async def call(self, access: Access, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Returns or raises what ``work`` does, once its transaction is over. It sees what earlier calls wrote.

        It is done as a whole even where the caller is cancelled. Where the file has a fault this raises `StoreError`,
        and ``work`` may have been done twice, the first time undone.
        """
        call: _Call[Result] = _Call(access, work, asyncio.get_running_loop().create_future())
        with self._lock:
            if not self._working:
                self._executor.submit(self._make_waiting)
                self._working = True
            self._waiting.append(call)
        return await call.future

    async def aclose(self) -> None:
        """Closes the file after the calls that wait."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown()

    def _make_waiting(self) -> None:
        while calls := self._next():
            for together in _in_order(calls):
                self._make(together)

    def _next(self) -> list[_Call[Any]]:
        with self._lock:
            calls = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER))]
            self._working = bool(calls)
        return calls

    def _make(self, calls: Sequence[_Call[Any]]) -> None:
        """In one transaction; where the file has a fault in one of several calls, each in its own.

        After a fault the file is opened anew: what SQLite has of it in memory may be of another time.
        """
        try:
            if self._connection is None:
                self._connection = open_file(self._path, check=False)
            _TRANSACTIONS[max(call.access for call in calls)](self._connection, calls)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            if len(calls) > 1 and any(call.error is error for call in calls):
                self._close()
                for call in calls:
                    self._make([call])
                return
            self._fail(calls, error)
        _answer(calls)

    def _fail(self, calls: Sequence[_Call[Any]], error: Exception) -> None:
        if isinstance(error, sqlite3.Error | OSError):
            fault = store_fault(error, self._path)
        elif isinstance(error, StoreError):
            fault = error
        else:
            fault = StoreError("The store cannot be used now.", code="store_failed")
        if fault is error or fault.code not in PASSING:
            self._close()
        for call in calls:
            call.error = copy(fault)  # Each is raised in a task of its own.
            call.error.__cause__ = error

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


def _in_order(calls: list[_Call[Any]]) -> Iterator[list[_Call[Any]]]:
    """The reads that came before the first write, the writes, and the reads that may have to see them."""
    first = next((number for number, call in enumerate(calls) if call.access), len(calls))
    writes = [call for call in calls[first:] if call.access]
    reads = [call for call in calls[first:] if not call.access]
    return filter(None, (calls[:first], writes, reads))


def _answer(calls: Sequence[_Call[Any]]) -> None:
    """Each event loop is woken once."""
    for loop in {call.future.get_loop() for call in calls}:
        with suppress(RuntimeError):  # It was closed, and nobody waits there.
            loop.call_soon_threadsafe(_answer_all, [call for call in calls if call.future.get_loop() is loop])


def _answer_all(calls: Sequence[_Call[Any]]) -> None:
    for call in calls:
        call.answer()


def _read(connection: sqlite3.Connection, calls: Sequence[_Call[Any]]) -> None:
    """Makes the calls in one transaction: they read one moment, whatever other processes write."""
    connection.execute("BEGIN")
    try:
        for call in calls:
            call.make(connection)
    finally:
        with suppress(sqlite3.Error):
            connection.rollback()


def _write(connection: sqlite3.Connection, calls: Sequence[_Call[Any]]) -> None:
    """Waits for other processes before it reads anything."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for call in calls:
            connection.execute("SAVEPOINT call")
            call.make(connection)
            if call.error is not None:
                connection.execute("ROLLBACK TO call")
            connection.execute("RELEASE call")


def _lease(connection: sqlite3.Connection, calls: Sequence[_Call[Any]]) -> None:
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        _write(connection, calls)
    finally:
        connection.execute("PRAGMA synchronous = FULL")


_TRANSACTIONS = {Access.READ: _read, Access.LEASE: _lease, Access.WRITE: _write}
