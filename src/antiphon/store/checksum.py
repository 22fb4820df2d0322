"""Checksums of what is stored: content that was damaged where it lies is found when it is read."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import reduce
from hashlib import blake2b
from uuid import UUID

from .store import Key, Record

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
