"""Files in the store: a record of what each is, and its bytes in parts."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import msgspec

from antiphon.errors import NotFoundError, Position, RequestError, StoreError
from antiphon.structs import ready

from .clock import ConfirmedClock
from .leases import Leases, turn
from .store import Key, Lease, Record, Store, Write

KIND, PART_KIND, COMING_KIND = "file", "file_part", "file_coming"
PREFIX = "file-"
PART = 2**17
"""Bytes of each part of a file that was uploaded, but for its last; parts of others are about as large."""
_AT_ONCE = 8
"""Parts that are written in one transaction."""
_COMING = 24 * 3600.0
"""Seconds after which the sweep finds what is left of an upload whose server died."""
_GONE = 0.0
"""When what is deleted expired: it goes with `Store.expire` of that very moment, whole files in few transactions."""


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """``expires`` is a Unix time in seconds, ``parts`` how many it has."""

    id: str
    filename: str
    purpose: str
    bytes: int
    parts: int
    created: float
    expires: float


class FileLimits(msgspec.Struct, frozen=True, kw_only=True):
    """An owner has at most ``files`` files of ``quota`` bytes together. ``lifetime``, in seconds, is that of a file
    whose maker does not say another.
    """

    quota: int
    files: int
    lifetime: float


def new_id(prefix: str, now: float) -> str:
    """A new id, such as ``file-…``; ids sort by the Unix time ``now``, in seconds, at which they were made."""
    return f"{prefix}{int(now * 1e6):014x}{secrets.token_hex(8)}"


def part_key(owner: str, id: str, number: int) -> Key:
    return Key(PART_KIND, owner, f"{id}/{number:06}")


@dataclass(slots=True)
class Coming:
    """An upload on its way to this server: ``size`` bytes so far."""

    _all: Counter[str]
    _owner: str
    size: int = 0

    def add(self, size: int) -> None:
        """So many bytes more came."""
        self.size += size
        self._all[self._owner] += size

    def arrived(self) -> None:
        """Marks the file as stored; it counts against the quota."""
        self._all[self._owner] -= self.size
        self.size = 0


@dataclass(slots=True)
class Files:
    """The files of all owners, each for its owner alone: another's are not there. ``clock`` is Unix time in seconds."""

    leases: Leases
    limits: FileLimits
    clock: Callable[[], float]
    confirmed: ConfirmedClock
    _coming: Counter[str] = field(default_factory=Counter)
    """By owner, bytes of uploads on their way to this server."""

    @property
    def store(self) -> Store:
        return self.leases.store

    def turn(self, owner: str) -> AbstractAsyncContextManager[Lease]:
        """For what must not be done at two servers at once, because it looks at all files or batches of the owner."""
        return turn(self.leases, Key(KIND, owner, ""))

    async def file(self, owner: str, id: str) -> StoredFile:
        """Raises `NotFoundError` where this owner has no such file (any more)."""
        found = await self._found(owner, id)
        if found is None:
            raise NotFoundError(f"There is no file {id[:80]!r}.", position=Position(path="file_id"))
        return found

    async def ids(self, owner: str) -> list[str]:
        """The ids of all its files, those that expired included."""
        return await self.store.names(KIND, owner)

    async def all(self, owner: str, ids: Sequence[str] | None = None) -> AsyncIterator[StoredFile]:
        """The stored files of ``ids``, or all of the owner's."""
        for id in await self.ids(owner) if ids is None else ids:
            if found := await self._found(owner, id):
                yield found

    @contextmanager
    def coming(self, owner: str) -> Iterator[Coming]:
        """While a file comes: its bytes count as the owner's already."""
        coming = Coming(self._coming, owner)
        try:
            yield coming
        finally:
            coming.arrived()
            if not self._coming[owner]:
                del self._coming[owner]

    async def left(self, owner: str) -> int:
        """The bytes that the owner may still store. Raises `RequestError` where it has as many files as it may."""
        coming = await self._reserved(owner)
        sizes = [file.bytes async for file in self.all(owner)] + coming
        if len(sizes) >= self.limits.files:
            message = f"This key has {len(sizes)} files, as many as it may."
            raise RequestError(message, code="file_quota", hint="Delete some.")
        return self.limits.quota - sum(sizes) - self._coming[owner]

    async def _reserved(self, owner: str) -> list[int]:
        """The sizes of what is being written, at any server; what a server left behind that died is forgotten."""
        sizes = []
        for id in await self.store.names(COMING_KIND, owner):
            key = Key(COMING_KIND, owner, id)
            record = await self.store.get(key)
            async with self.leases.hold(key) as lease:
                if lease is not None:
                    await self.store.delete(key, lease=lease)
                elif record is not None:
                    sizes.append(int(record.value))
        return sizes

    @asynccontextmanager
    async def _room(self, owner: str, id: str, size: int) -> AsyncIterator[Lease]:
        """Room for a file that is being written. Raises `RequestError` where there is none."""
        key, now = Key(COMING_KIND, owner, id), self.clock()
        async with turn(self.leases, key) as writing:
            async with self.turn(owner) as alone:
                left = await self.left(owner)
                if size > left:
                    message = f"The files of this key may have {max(0, left)} bytes more."
                    raise RequestError(message, code="file_quota", hint="Delete some.")
                await self.store.put(key, Record(b"%d" % size, now, now + _COMING), lease=alone)
            try:
                yield writing
            finally:
                await self.store.delete(key)

    async def create(
        self,
        owner: str,
        pieces: AsyncIterator[bytes],
        *,
        size: int,
        filename: str,
        purpose: str,
        lifetime: float | None,
    ) -> StoredFile:
        """Stores a file, which is there when this returned, whole; ``pieces`` are its ``size`` bytes, as they come.

        ``lifetime`` is in seconds, None the usual one. Raises `RequestError` (``file_quota``) before anything is
        written, and `ConflictError` (``lease_lost``) where the others had to take this server for dead.
        """
        now = self.clock()
        id, expires = new_id(PREFIX, now), now + (lifetime or self.limits.lifetime)
        parts = -(-size // PART)
        file = StoredFile(
            id=id, filename=filename, purpose=purpose, bytes=size, parts=parts, created=now, expires=expires
        )
        async with self._room(owner, id, size) as lease:
            await self._write_parts(owner, file, pieces)
            over = Write(Key(COMING_KIND, owner, id), Record(b"0", now, now + _COMING), lease=lease)
            await self.store.put_all(self.write(owner, file), over)
        return file

    async def _write_parts(self, owner: str, file: StoredFile, pieces: AsyncIterator[bytes]) -> None:
        record, parts = Record(b"", file.created, file.expires), 0
        try:
            async for batch in _batches(pieces):
                keys = [part_key(owner, file.id, parts + i) for i in range(len(batch))]
                parts += len(batch)
                await self.store.put_all(*(Write(key, record, [part]) for key, part in zip(keys, batch, strict=True)))
        except BaseException:
            await self._forget(owner, file.id, parts)
            raise

    def write(self, owner: str, file: StoredFile) -> Write:
        """The write that makes a file of its parts."""
        return Write(Key(KIND, owner, file.id), Record(msgspec.json.encode(file), file.created, file.expires))

    async def content(self, owner: str, file: StoredFile) -> AsyncIterator[bytes]:
        """Its bytes in pieces. Raises `StoreError` where some are lost."""
        for number in range(file.parts):
            yield await self._part(owner, file, number)

    async def span(self, owner: str, file: StoredFile, start: int, end: int) -> bytes:
        """Its bytes from ``start`` to ``end``; of one that was uploaded."""
        first, last = start // PART, (end - 1) // PART
        parts = [await self._part(owner, file, number) for number in range(first, last + 1)]
        return b"".join(parts)[start - first * PART : end - first * PART]

    async def prolong(self, owner: str, file: StoredFile, until: float) -> None:
        """Its bytes stay until then at least; the file itself is not there any longer than before."""
        if until > file.expires:
            await self._expire_parts(owner, file.id, file.parts, until)

    async def delete(self, owner: str, file: StoredFile) -> None:
        await self.store.delete(Key(KIND, owner, file.id))
        await self._forget(owner, file.id, file.parts)

    async def _forget(self, owner: str, id: str, parts: int) -> None:
        await self._expire_parts(owner, id, parts, _GONE)
        await self.store.expire(_GONE)

    async def _expire_parts(self, owner: str, id: str, parts: int, at: float) -> None:
        record = Record(b"", self.clock(), at)
        await self.store.put_all(*(Write(part_key(owner, id, number), record) for number in range(parts)))

    async def _part(self, owner: str, file: StoredFile, number: int) -> bytes:
        part = b"".join(await self.store.entries(part_key(owner, file.id, number)))
        if not part:
            raise StoreError("A part of the file is lost.", code="store_corrupt", hint="Upload it again.")
        return part

    async def _found(self, owner: str, id: str) -> StoredFile | None:
        record = await self.store.get(Key(KIND, owner, id))
        if record is None or record.expires is None:
            return None
        if self.confirmed.expired(record.expires, record.expires - record.created):
            return None
        return msgspec.json.decode(record.value, type=ready(StoredFile))


async def _batches(pieces: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Parts of `PART` bytes, as many together as one transaction writes."""
    rest = b""
    async for piece in pieces:
        rest += piece
        whole = len(rest) // PART * PART
        parts = [rest[start : start + PART] for start in range(0, whole, PART)]
        rest = rest[whole:]
        for start in range(0, len(parts), _AT_ONCE):
            yield parts[start : start + _AT_ONCE]
    if rest:
        yield [rest]
