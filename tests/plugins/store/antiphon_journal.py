"""A store of another package: a file to which every write is appended as a line of JSON.

Its address is ``journal:PATH``. What the lines amount to is in memory; they are read again when the store is opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from antiphon.errors import ConfigError
from antiphon.store import Delete, Key, Lease, MemoryLeases, Record, Store, Write
from antiphon.store.store import check_version, new_version


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One write; a line has those of one transaction.

    ``record`` None deletes what is at ``key``; where there is a ``value``, only if it still has this one.
    """

    key: Key
    record: Record | None = None
    entries: tuple[bytes, ...] = ()
    value: bytes | None = None


class JournalStore:
    """Every call that returned is on disk. One process has the file, so its leases are in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._records: dict[Key, tuple[Record, list[bytes]]] = {}
        self._leases = MemoryLeases()
        file.seek(0)
        for line in file:
            self._apply(msgspec.json.decode(line, type=tuple[Change, ...]))

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        await self.put_all(Write(key, record, entries, expected, lease))

    async def put_all(self, *writes: Write | Delete) -> None:
        for write in writes:
            if isinstance(write, Write):
                self._leases.check(write.lease)
                known = self._records.get(write.key)
                check_version(known[0].version if known else 0, write.expected)
        self._write(*map(_change, writes))

    async def get(self, key: Key) -> Record | None:
        return self._records[key][0] if key in self._records else None

    async def entries(self, key: Key, *, after: int = 0) -> list[bytes]:
        return self._records[key][1][after:] if key in self._records else []

    async def delete(self, key: Key, *, lease: Lease | None = None) -> bool:
        self._leases.check(lease)
        known = key in self._records
        self._write(Change(key))
        return known

    async def names(self, kind: str, owner: str) -> list[str]:
        return sorted(key.name for key in self._records if (key.kind, key.owner) == (kind, owner))

    async def expire(self, now: float) -> int:
        expired = [
            key for key, (record, _) in self._records.items() if record.expires is not None and record.expires <= now
        ]
        for key in expired:
            self._write(Change(key))
        return len(expired)

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        return self._leases.claim(key, holder, seconds)

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        return self._leases.renew(leases, seconds)

    async def release(self, lease: Lease) -> None:
        self._leases.release(lease)

    async def lease(self, key: Key) -> Lease | None:
        return self._leases.lease(key)

    async def signal(self, key: Key, signal: str) -> bool:
        return self._leases.signal(key, signal)

    async def abandoned(self, kind: str, *, limit: int = 100) -> list[Key]:
        return self._leases.abandoned(kind, limit)

    async def aclose(self) -> None:
        self._file.close()

    def _write(self, *changes: Change) -> None:
        self._file.write(msgspec.json.encode(changes) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(changes)

    def _apply(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            known = self._records.get(change.key)
            if change.record is not None:
                first, entries = known or (change.record, [])
                record = replace(change.record, created=first.created)
                self._records[change.key] = (record, [*entries, *change.entries])
            elif known is not None and change.value in (None, known[0].value):
                del self._records[change.key]


def _change(write: Write | Delete) -> Change:
    if isinstance(write, Write):
        return Change(write.key, replace(write.record, version=new_version()), tuple(write.entries))
    return Change(write.key, value=write.value)


def open_journal(address: str) -> Store:
    """The store at ``journal:PATH``."""
    path = Path(address.partition(":")[2])
    try:
        return JournalStore(path.open("a+b"))
    except OSError as error:
        raise ConfigError(f"the journal {path} cannot be opened: {error.strerror}") from error
