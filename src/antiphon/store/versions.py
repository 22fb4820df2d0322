"""Versions of stores: an older one is brought to this program's."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.errors import ConfigError

from .address import MEMORY, store_name
from .opening import needs_extra
from .postgres_address import SCHEMES
from .sqlite_file import VERSION, open_file


def migrate(address: str) -> tuple[int, int]:
    """Brings the store at an address to this version: the one before, 0 for none, and the one now.

    Raises `ConfigError` where it cannot be opened, is of a later version, or has none.
    """
    name = store_name(address)
    if name in SCHEMES:
        return _migrate_postgres(address)
    if name or address == MEMORY:
        raise ConfigError("this store has no versions", code="store_unusable", hint="Its own package knows about it.")
    return _migrate_sqlite(Path(address).expanduser())


def _migrate_sqlite(path: Path) -> tuple[int, int]:
    try:
        before = _version(path) if path.is_file() else 0
        open_file(path, check=True).close()
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"the session store {path} cannot be opened: {error}", code="store_unusable") from error
    return before, VERSION


def _version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _migrate_postgres(address: str) -> tuple[int, int]:
    with needs_extra():
        from .postgres import open_tables
        from .postgres_schema import VERSION as LATEST
    return open_tables(address, migrate=True), LATEST
