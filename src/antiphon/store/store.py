"""Where conversations are kept between requests: named records, and what was appended to them, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Key:
    """What kind of thing it is, whose, and its name. Another owner's things do not exist for you."""

    kind: str
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """``created`` and ``expires`` are Unix times in seconds; ``expires`` None: never."""

    value: bytes
    created: float
    expires: float | None = None


class Store(Protocol):
    """Every call that returned survives a crash of the process (where the store is one that keeps at all)."""

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        """Writes the record, new or not, and appends ``entries`` to it, both or neither."""

    async def get(self, key: Key) -> Record | None: ...

    async def entries(self, key: Key) -> list[bytes]:
        """What was appended, in order."""

    async def delete(self, key: Key) -> bool:
        """Whether there was such a record; its entries go with it."""

    async def names(self, kind: str, owner: str) -> list[str]: ...

    async def expire(self, now: float) -> int:
        """Deletes what expired; how many records."""

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class MemoryStore:
    """Keeps nothing beyond the process: for tests, and for servers that want no history on disk.

    ``limit`` bytes at most: what was written longest ago goes first.
    """

    limit: int = 256 << 20
    _size: int = 0
    _records: dict[Key, tuple[Record, list[bytes]]] = field(default_factory=dict)

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
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


def _bytes(kept: tuple[Record, list[bytes]]) -> int:
    return len(kept[0].value) + total(kept[1])


def total(entries: Sequence[bytes]) -> int:
    """Bytes of what was appended."""
    return sum(map(len, entries))
