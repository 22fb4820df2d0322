"""A store of another package: a file to which every write is appended as a line of JSON.

Its address is ``journal:PATH``. What the lines amount to is in memory; they are read again when the store is opened.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import msgspec

from antiphon.errors import ConfigError
from antiphon.store import Key, Record, Store, Write


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One write; a line has those of one transaction. ``record`` None deletes what is at ``key``."""

    key: Key
    record: Record | None = None
    entries: tuple[bytes, ...] = ()


class JournalStore:
    """Every call that returned is on disk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._records: dict[Key, tuple[Record, list[bytes]]] = {}
        file.seek(0)
        for line in file:
            self._apply(msgspec.json.decode(line, type=tuple[Change, ...]))

    async def put(self, key: Key, record: Record, *entries: bytes) -> None:
        self._write(Change(key, record, entries))

    async def put_all(self, *writes: Write) -> None:
        self._write(*(Change(write.key, write.record, tuple(write.entries)) for write in writes))

    async def get(self, key: Key) -> Record | None:
        return self._records[key][0] if key in self._records else None

    async def entries(self, key: Key) -> list[bytes]:
        return list(self._records[key][1]) if key in self._records else []

    async def delete(self, key: Key) -> bool:
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

    async def aclose(self) -> None:
        self._file.close()

    def _write(self, *changes: Change) -> None:
        self._file.write(msgspec.json.encode(changes) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(changes)

    def _apply(self, changes: tuple[Change, ...]) -> None:
        for change in changes:
            if change.record is None:
                self._records.pop(change.key, None)
                continue
            first, entries = self._records.get(change.key, (change.record, []))
            record = Record(change.record.value, first.created, change.record.expires)
            self._records[change.key] = (record, [*entries, *change.entries])


def open_journal(address: str) -> Store:
    """The store at ``journal:PATH``."""
    path = Path(address.partition(":")[2])
    try:
        return JournalStore(path.open("a+b"))
    except OSError as error:
        raise ConfigError(f"the journal {path} cannot be opened: {error.strerror}") from error
