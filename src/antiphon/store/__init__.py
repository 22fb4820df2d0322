"""Storage of conversations between requests: records and their entries, in SQLite or in memory."""

from .codec import pack, unpack
from .sessions import OpenSession, SessionLimits, Sessions
from .sqlite import SqliteStore
from .store import Key, MemoryStore, Record, Store

__all__ = [
    "Key",
    "MemoryStore",
    "OpenSession",
    "Record",
    "SessionLimits",
    "Sessions",
    "SqliteStore",
    "Store",
    "pack",
    "unpack",
]
