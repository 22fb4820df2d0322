"""Storage between requests: named records, and the entries that were appended to each, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Key:
    """A record's kind ("session", …), its owner (tenant) and its name. One owner never sees the records of another."""

    kind: str
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """``created`` and ``expires`` are Unix times in seconds; ``expires`` None: never."""

    value: bytes
    created: float
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A record to create or replace, and entries to append to it."""

    key: Key
    record: Record
    entries: Sequence[bytes] = ()


class Store(Protocol):
    """A durable store: once a call returned, what it wrote survives a crash of the process (memory stores aside)."""

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        """Create or replace the record and append ``entries`` to it, in one transaction."""

    async def put_all(self, *writes: Write) -> None:
        """Do all of the writes, in order, in one transaction: all are there afterwards, or none."""

    async def get(self, key: Key) -> Record | None: ...

    async def entries(self, key: Key) -> list[bytes]:
        """The entries of the record, in the order in which they were appended; none where there is no record."""

    async def delete(self, key: Key) -> bool:
        """Delete the record with its entries. False: there was none."""

    async def names(self, kind: str, owner: str) -> list[str]: ...

    async def expire(self, now: float) -> int:
        """Delete the records that expired by ``now`` (Unix time in seconds), and return how many."""

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class MemoryStore:
    """A store that ends with the process: for tests, and for servers that want no history on disk.

    Above ``limit`` bytes it evicts the records that were written longest ago.
    """

    limit: int = 256 << 20
    _size: int = 0
    _records: dict[Key, tuple[Record, list[bytes]]] = field(default_factory=dict)

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        self._put(key, record, entries)

    async def put_all(self, *writes: Write) -> None:
        for write in writes:
            self._put(write.key, write.record, write.entries)

    def _put(self, key: Key, record: Record, entries: Sequence[bytes]) -> None:
        known = self._take(key)
        created = known[0].created if known else record.created
        self._records[key] = (replace(record, created=created), [*(known[1] if known else []), *entries])
        self._size += _bytes(self._records[key])
        while self._size > self.limit and len(self._records) > 1:
            self._take(next(iter(self._records)))

    async def get(self, key: Key) -> Record | None:
        known = self._records.get(key)
        return known[0] if known else None

    async def entries(self, key: Key) -> list[bytes]:
        known = self._records.get(key)
        return list(known[1]) if known else []

    async def delete(self, key: Key) -> bool:
        return self._take(key) is not None

    async def names(self, kind: str, owner: str) -> list[str]:
        return sorted(key.name for key in self._records if (key.kind, key.owner) == (kind, owner))

    async def expire(self, now: float) -> int:
        gone = [
            key for key, (record, _) in self._records.items() if record.expires is not None and record.expires <= now
        ]
        for key in gone:
            self._take(key)
        return len(gone)

    async def aclose(self) -> None:
        self._records.clear()
        self._size = 0

    def _take(self, key: Key) -> tuple[Record, list[bytes]] | None:
        known = self._records.pop(key, None)
        if known is not None:
            self._size -= _bytes(known)
        return known


def _bytes(stored: tuple[Record, list[bytes]]) -> int:
    return len(stored[0].value) + total(stored[1])


def total(entries: Sequence[bytes]) -> int:
    """The size of the entries in bytes."""
    return sum(map(len, entries))
