"""The file of the SQLite store: how it is opened and checked, and its tables."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

from antiphon.errors import ConfigError

from .checksum import NO_ENTRIES, chained, checksum, key_number
from .store import Key, Record

log = logging.getLogger("antiphon.store")

VERSION = 3
CHECK_SECONDS = 2.0
"""How long the pages may be checked when the file is opened; a larger file is checked as far as that goes."""
WAITED = 30.0
"""Seconds for which another process may have the file for itself."""
_PAUSE = 0.01
_STEPS = 10_000
"""Of SQLite's virtual machine, between two looks at the time."""
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
"""What version 2 adds. ``mark`` is `key_number`, ``chain`` and ``entries`` are of the record's entries."""
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
"""What version 3 adds. An entry's ``chain`` is that of the entries up to it, NULL for those of earlier versions; the
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
            _add_checksums(connection)
        for statement in _CLAIMS:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _add_checksums(connection: sqlite3.Connection) -> None:
    for statement in (*_TABLES, *_CHECKSUMS):
        connection.execute(statement)
    for (id,) in connection.execute("SELECT id FROM record").fetchall():
        _add_checksum(connection, id)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _add_checksum(connection: sqlite3.Connection, id: int) -> None:
    """Of a record that has none yet; it is believed as it is."""
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
