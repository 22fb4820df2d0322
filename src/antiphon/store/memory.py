"""A store that ends with the process: for tests, and for servers that want no history on disk."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .store import Delete, Key, Lease, Record, Write, check_version, lease_lost, new_version, total


@dataclass(slots=True)
class MemoryLeases:
    """Leases of one process, for stores that no other process shares. ``clock``: seconds that nobody can set."""

    clock: Callable[[], float] = time.monotonic
    _fences: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _held: dict[Key, tuple[Lease, float]] = field(default_factory=dict)
    """Each with its end."""

    def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        if self.lease(key) is not None:
            return None
        lease = Lease(key, holder, next(self._fences))
        self._held[key] = lease, self.clock() + seconds
        return lease

    def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        known = [self._held[lease.key][0] for lease in leases if self._valid(lease)]
        self._held |= {lease.key: (lease, self.clock() + seconds) for lease in known}
        return known

    def release(self, lease: Lease) -> None:
        if self._valid(lease):
            del self._held[lease.key]

    def lease(self, key: Key) -> Lease | None:
        lease, end = self._held.get(key, (None, 0.0))
        return lease if end > self.clock() else None

    def signal(self, key: Key, signal: str) -> bool:
        lease = self.lease(key)
        if lease is not None:
            self._held[key] = replace(lease, signal=signal), self._held[key][1]
        return lease is not None

    def abandoned(self, kind: str, limit: int) -> list[Key]:
        now = self.clock()
        return [key for key, (_, end) in self._held.items() if key.kind == kind and end <= now][:limit]

    def check(self, lease: Lease | None) -> None:
        """Raises `ConflictError` for a lease that was released, or whose key another has claimed since."""
        if lease is not None and not self._valid(lease):
            raise lease_lost()

    def _valid(self, lease: Lease) -> bool:
        return lease.key in self._held and self._held[lease.key][0].fence == lease.fence


@dataclass(slots=True)
class MemoryStore:
    """Above ``limit`` bytes it evicts the records that were written longest ago."""

    limit: int = 256 << 20
    leases: MemoryLeases = field(default_factory=MemoryLeases)
    _size: int = 0
    _records: dict[Key, tuple[Record, list[bytes]]] = field(default_factory=dict)

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        await self.put_all(Write(key, record, entries, expected, lease))

    async def put_all(self, *writes: Write | Delete) -> None:
        for write in writes:
            if isinstance(write, Write):
                self.leases.check(write.lease)
                check_version(self._version(write.key), write.expected)
        for write in writes:
            if isinstance(write, Write):
                self._put(write.key, write.record, write.entries)
            elif write.value in (None, self._value(write.key)):
                self._take(write.key)

    def _put(self, key: Key, record: Record, entries: Sequence[bytes]) -> None:
        known = self._take(key)
        created = known[0].created if known else record.created
        self._records[key] = (
            replace(record, created=created, version=new_version()),
            [*(known[1] if known else []), *entries],
        )
        self._size += _bytes(self._records[key])
        while self._size > self.limit and len(self._records) > 1:
            self._take(next(iter(self._records)))

    async def get(self, key: Key) -> Record | None:
        known = self._records.get(key)
        return known[0] if known else None

    async def entries(self, key: Key, *, after: int = 0) -> list[bytes]:
        known = self._records.get(key)
        return known[1][after:] if known else []

    async def delete(self, key: Key, *, lease: Lease | None = None) -> bool:
        self.leases.check(lease)
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

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        return self.leases.claim(key, holder, seconds)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        return self.leases.renew(leases, seconds)

    async def release(self, lease: Lease) -> None:
        self.leases.release(lease)

    async def lease(self, key: Key) -> Lease | None:
        return self.leases.lease(key)

    async def signal(self, key: Key, signal: str) -> bool:
        return self.leases.signal(key, signal)

    async def abandoned(self, kind: str, *, limit: int = 100) -> list[Key]:
        return self.leases.abandoned(kind, limit)

    async def aclose(self) -> None:
        self._records.clear()
        self._size = 0

    def _version(self, key: Key) -> int:
        known = self._records.get(key)
        return known[0].version if known else 0

    def _value(self, key: Key) -> bytes | None:
        known = self._records.get(key)
        return known[0].value if known else None

    def _take(self, key: Key) -> tuple[Record, list[bytes]] | None:
        known = self._records.pop(key, None)
        if known is not None:
            self._size -= _bytes(known)
        return known


def _bytes(stored: tuple[Record, list[bytes]]) -> int:
    return len(stored[0].value) + total(stored[1])
