"""Storage of conversations between requests: records and their entries, in SQLite, in PostgreSQL or in
memory."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .address import MEMORY, store_name
    from .codec import pack, unpack
    from .leases import Leases
    from .memory import MemoryLeases, MemoryStore
    from .opening import StoreFactory, store_at
    from .postgres_address import hidden_password
    from .runs import RunLimits, StoredRuns
    from .sessions import OpenSession, SessionLimits, Sessions, Together, TurnLimits, UnfinishedTurns
    from .sqlite import SqliteStore
    from .store import Delete, Key, Lease, Record, Store, Write
else:
    __getattr__ = exports(
        __name__,
        {
            "address": "MEMORY store_name",
            "codec": "pack unpack",
            "leases": "Leases",
            "memory": "MemoryLeases MemoryStore",
            "opening": "StoreFactory store_at",
            "postgres_address": "hidden_password",
            "runs": "RunLimits StoredRuns",
            "sessions": "OpenSession SessionLimits Sessions Together TurnLimits UnfinishedTurns",
            "sqlite": "SqliteStore",
            "store": "Delete Key Lease Record Store Write",
        },
    )

__all__ = [
    "MEMORY",
    "Delete",
    "Key",
    "Lease",
    "Leases",
    "MemoryLeases",
    "MemoryStore",
    "OpenSession",
    "Record",
    "RunLimits",
    "SessionLimits",
    "Sessions",
    "SqliteStore",
    "Store",
    "StoreFactory",
    "StoredRuns",
    "Together",
    "TurnLimits",
    "UnfinishedTurns",
    "Write",
    "hidden_password",
    "pack",
    "store_at",
    "store_name",
    "unpack",
]
