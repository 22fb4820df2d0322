"""Faults of SQLite, as errors that name the cause. Their words never name a file: clients read them."""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from pathlib import Path

from antiphon.errors import StoreError

log = logging.getLogger("antiphon.store")

FAULTS: dict[int, str] = {
    sqlite3.SQLITE_BUSY: "store_busy",
    sqlite3.SQLITE_LOCKED: "store_busy",
    sqlite3.SQLITE_READONLY: "store_readonly",
    sqlite3.SQLITE_FULL: "store_full",
    sqlite3.SQLITE_IOERR_WRITE: "store_full",
    sqlite3.SQLITE_IOERR_SHMSIZE: "store_full",
    sqlite3.SQLITE_CORRUPT: "store_corrupt",
    sqlite3.SQLITE_NOTADB: "store_corrupt",
    sqlite3.SQLITE_IOERR_SHORT_READ: "store_corrupt",
    sqlite3.SQLITE_CONSTRAINT: "store_corrupt",
    sqlite3.SQLITE_MISMATCH: "store_corrupt",
    sqlite3.SQLITE_ERROR: "store_failed",
}
"""By SQLite's result, extended or primary. A write that fails without ENOSPC met a quota or a limit of file sizes, or a
broken disk; our statements violate no constraint in a store that is whole."""

OF_SYSTEM: dict[int, int] = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EFBIG: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_READONLY,
    errno.EPERM: sqlite3.SQLITE_READONLY,
}
"""SQLite's results by the errors of the system that mean the same."""

HINTS = {
    "store_full": "For the server's owner: make room where the store is. Requests that store nothing are answered.",
    "store_readonly": "For the server's owner: let the server write where the store is.",
    "store_busy": "Try again; another process works on the store.",
    "store_corrupt": "Begin anew under another name, or delete this one. For the server's owner: check the disk, and "
    "bring the store back from a copy.",
    "store_failed": "Try again. The server's log has the cause.",
}
PASSING = frozenset({"store_full", "store_busy"})
"""Faults that leave an open file as it was; after the others it is opened anew."""
_OF_FILES = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
"""The primary results of operations on files, which fail where a file system takes no writes any more."""
MEANINGS = {
    "store_full": "There is no room left to store this.",
    "store_readonly": "The store cannot be written.",
    "store_busy": "The store is locked.",
    "store_corrupt": "What is stored here was damaged.",
    "store_failed": "The store cannot be used now.",
}


def store_fault(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """The error for clients; that of SQLite or the system is in the log."""
    result = getattr(error, "sqlite_errorcode", OF_SYSTEM.get(getattr(error, "errno", 0) or 0, sqlite3.SQLITE_ERROR))
    found = next((one for one in (result, result & 0xFF) if one in FAULTS), sqlite3.SQLITE_ERROR)
    code = FAULTS[found]
    if result & 0xFF in _OF_FILES and code in ("store_full", "store_failed") and _mounted_readonly(path):
        code = "store_readonly"
    log.error("%s: %s (%s)", code, error, getattr(error, "sqlite_errorname", type(error).__name__))
    return StoreError(MEANINGS[code], code=code, hint=HINTS[code])


def _mounted_readonly(path: Path) -> bool:
    """SQLite reports a write that failed, and not that the file system takes none any more."""
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def damaged() -> StoreError:
    """The error of a record that is not read as it was written."""
    return StoreError(MEANINGS["store_corrupt"], code="store_corrupt", hint=HINTS["store_corrupt"])
