"""What went wrong in PostgreSQL, as an error that names the cause. Its words name no server: clients read them."""

from __future__ import annotations

import logging

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout, TooManyRequests

from antiphon.errors import StoreError

from .faults import HINTS, MEANINGS

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
"""Of a connection that is well: another would say the same."""


def postgres_fault(error: psycopg.Error | TimeoutError | OSError) -> StoreError:
    """The error that clients are told of; what PostgreSQL said is in the log."""
    kind = next(kind for kind in CAUSES if isinstance(error, kind))
    code = CAUSES[kind]
    state = getattr(error, "sqlstate", None) or type(error).__name__
    log.error("%s: %s (%s)", code, str(error).strip(), state)
    return StoreError(MEANINGS[code], code=code, hint=HINTS[code])
