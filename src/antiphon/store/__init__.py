"""Storage of conversations between requests: records and their entries, in SQLite or in memory."""

from .codec import pack, unpack
from .opening import MEMORY, StoreFactory, store_at, store_name
from .sessions import OpenSession, SessionLimits, Sessions
from .sqlite import SqliteStore
from .store import Key, MemoryStore, Record, Store, Write
from .turns import TurnLimits, UnfinishedTurns

__all__ = [
    "MEMORY",
    "Key",
    "MemoryStore",
    "OpenSession",
    "Record",
    "SessionLimits",
    "Sessions",
    "SqliteStore",
    "Store",
    "StoreFactory",
    "TurnLimits",
    "UnfinishedTurns",
    "Write",
    "pack",
    "store_at",
    "store_name",
    "unpack",
]
