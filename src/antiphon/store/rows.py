"""Records as the rows of a database: what is written with them, and what must fit when they are read."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import blake2b
from uuid import UUID

import msgspec

from .faults import damaged
from .store import Key, Record, new_version

# Checksums of what is stored: content that was damaged where it lies is found when it is read.

SIZE = 16
"""Bytes of a checksum."""
NO_ENTRIES = b""
"""`chained` of no entries."""
_NEVER = float("inf")


def chained(before: bytes, entries: Iterable[bytes]) -> bytes:
    """The checksum of a record's entries in their order: of those before, and of what was appended."""
    return reduce(lambda chain, entry: blake2b(chain + entry, digest_size=SIZE).digest(), entries, before)


def checksum(key: Key, record: Record, count: int, chain: bytes) -> bytes:
    """The checksum of a record under its own key, with the number and the `chained` checksum of its entries."""
    digest = blake2b(digest_size=SIZE)
    expires = _NEVER if record.expires is None else record.expires
    for part in (key.kind.encode(), key.owner.encode(), key.name.encode(), record.value, chain):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(struct.pack(">ddq", record.created, expires, count))
    return digest.digest()


def key_number(key: Key) -> int:
    """A number of 64 bits for a key: a second way to a record, which shows that an index has lost the first."""
    text = b"\0".join(part.encode() for part in (key.kind, key.owner, key.name))
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def key_id(key: Key) -> UUID:
    """An id of 128 bits for a key, which no other key has."""
    parts = [part.encode() for part in (key.kind, key.owner, key.name)]
    text = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return UUID(bytes=blake2b(text, digest_size=16).digest())


class Stored(msgspec.Struct, frozen=True):
    """A record that fits its checksum, with the number of its entries and the chain of their checksums."""

    record: Record
    count: int
    chain: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A record's outcome of a write: its row with its checksum, and the rows (number, value, chain) of new entries."""

    row: Stored
    checksum: bytes
    appended: Sequence[tuple[int, bytes, bytes]]

    @property
    def columns(self) -> tuple[bytes, float, float | None, int, int, bytes, bytes]:
        """As `stored` reads them."""
        record = self.row.record
        return (
            record.value, record.created, record.expires, record.version,
            self.row.count, self.row.chain, self.checksum,
        )  # fmt: skip


def stored(key: Key, columns: Sequence[object]) -> Stored:
    """Raises `StoreError` unless the columns are just what was written under ``key``.

    A version is in no checksum: it is compared with itself alone.
    """
    match columns:
        case [
            bytes(value), float(created), float() | None as expires, int(version),
            int(count), bytes(chain), bytes(proof),
        ]:  # fmt: skip
            record = Record(value, created, expires, version)
            if version and checksum(key, record, count, chain) == proof:
                return Stored(record, count, chain)
    raise damaged()


def change(key: Key, known: Stored | None, record: Record, entries: Sequence[bytes]) -> Change:
    """``known``: what is there."""
    before, chain = (known.count, known.chain) if known else (0, NO_ENTRIES)
    appended: list[tuple[int, bytes, bytes]] = []
    for number, entry in enumerate(entries, before + 1):
        chain = chained(chain, [entry])
        appended.append((number, entry, chain))
    count = before + len(appended)
    created = known.record.created if known else float(record.created)
    expires = None if record.expires is None else float(record.expires)
    row = Stored(Record(record.value, created, expires, new_version()), count, chain)
    return Change(row, checksum(key, row.record, count, chain), appended)


def whole(row: Stored, entries: Sequence[object], after: int, before: bytes) -> list[bytes]:
    """The entries after the first so many; raises `StoreError` unless with ``before``, the chain of those, they amount
    to what the record says."""
    found = [entry for entry in entries if isinstance(entry, bytes)]
    if len(found) != len(entries) or len(found) != row.count - after or chained(before, found) != row.chain:
        raise damaged()
    return found
