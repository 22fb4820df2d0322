"""Storage of conversations between requests: records and their entries, in SQLite, in PostgreSQL or in
memory."""

from .codec import pack, unpack
from .leases import Leases
from .memory import MemoryLeases, MemoryStore
from .opening import MEMORY, StoreFactory, store_at, store_name
from .postgres_address import hidden_password
from .runs import RunLimits, StoredRuns
from .sessions import OpenSession, SessionLimits, Sessions
from .sqlite import SqliteStore
from .store import Key, Lease, Record, Store, Write
from .turns import TurnLimits, UnfinishedTurns

__all__ = [
    "MEMORY",
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
    "TurnLimits",
    "UnfinishedTurns",
    "Write",
    "hidden_password",
    "pack",
    "store_at",
    "store_name",
    "unpack",
]
