"""Leases as rows of the SQLite store. Each function is called within one transaction, and reads the clock in it.

Their times are seconds since the system started, which all processes of one machine share and nobody can set: rows of
before a restart are over, and so are those of processes that are gone. A fence is a row's id, which SQLite never gives
again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from .clock import boot, steady_time
from .faults import damaged
from .leases import is_gone
from .sqlite_records import key_of, names_of, text
from .store import Key, Lease, lease_lost

_AT = "kind = ? AND owner = ? AND name = ?"
_FIND = f"SELECT fence, holder, signal, boot, since, ends FROM lease WHERE {_AT}"  # noqa: S608 - constants, as below
_HELD = f"SELECT signal FROM lease WHERE fence = ? AND {_AT}"  # noqa: S608
_DELETE = f"DELETE FROM lease WHERE {_AT}"  # noqa: S608
_RELEASE = f"DELETE FROM lease WHERE fence = ? AND {_AT}"  # noqa: S608
_INSERT = "INSERT INTO lease (kind, owner, name, holder, boot, since, ends) VALUES (?, ?, ?, ?, ?, ?, ?)"
_RENEW = "UPDATE lease SET boot = ?, since = ?, ends = ? WHERE fence = ?"
_SIGNAL = "UPDATE lease SET signal = ? WHERE fence = ?"
_ALL = """
SELECT kind, owner, name, holder, boot = ? AND since <= ? AND ends > ? FROM lease WHERE kind = ? ORDER BY fence
"""


def claim(connection: sqlite3.Connection, key: Key, holder: str, seconds: float) -> Lease | None:
    """See `Store.claim`."""
    if find(connection, key) is not None:
        return None
    connection.execute(_DELETE, names_of(key))
    now = steady_time()
    fence = connection.execute(_INSERT, (*names_of(key), holder, boot(), now, now + seconds)).lastrowid
    assert fence is not None, "a row was inserted"
    return Lease(key, holder, fence)


def renew(connection: sqlite3.Connection, leases: Sequence[Lease], seconds: float) -> list[Lease]:
    """See `Store.renew`."""
    signals = [connection.execute(_HELD, (lease.fence, *names_of(lease.key))).fetchone() for lease in leases]
    known = [replace(lease, signal=_text(found[0])) for lease, found in zip(leases, signals, strict=True) if found]
    now = steady_time()
    connection.executemany(_RENEW, [(boot(), now, now + seconds, lease.fence) for lease in known])
    return known


def release(connection: sqlite3.Connection, lease: Lease) -> None:
    """See `Store.release`."""
    connection.execute(_RELEASE, (lease.fence, *names_of(lease.key)))


def find(connection: sqlite3.Connection, key: Key) -> Lease | None:
    """The lease of the key, while it lasts."""
    found = connection.execute(_FIND, names_of(key)).fetchone()
    if found is None:
        return None
    fence, holder, signal, started, since, ends = found
    if _text(started) != boot() or not since <= steady_time() < ends or is_gone(_text(holder)):
        return None
    return Lease(key, _text(holder), fence, _text(signal))


def signal(connection: sqlite3.Connection, key: Key, word: str) -> bool:
    """See `Store.signal`."""
    lease = find(connection, key)
    if lease is not None:
        connection.execute(_SIGNAL, (word, lease.fence))
    return lease is not None


def abandoned(connection: sqlite3.Connection, kind: str, limit: int) -> list[Key]:
    """See `Store.abandoned`."""
    now, gone = steady_time(), lru_cache(is_gone)
    rows = connection.execute(_ALL, (boot(), now, now, kind))
    over = (key_of(*names) for *names, holder, lasts in rows if not lasts or gone(_text(holder)))
    return list(islice(over, limit))


def check(connection: sqlite3.Connection, lease: Lease | None) -> None:
    """Raises `ConflictError` for a lease that was released, or whose key another has claimed since."""
    if lease is None:
        return
    if connection.execute(_HELD, (lease.fence, *names_of(lease.key))).fetchone() is None:
        raise lease_lost()


def _text(column: object) -> str:
    try:
        return text(column)
    except UnicodeDecodeError:
        raise damaged() from None
