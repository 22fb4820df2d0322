"""Storage between requests: named records, the entries that were appended to each, and who may work on which."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.errors import ConflictError

# Reading a record, changing it and writing it back, so that no change of another is lost.

TRIES = 64
"""Each time that one fails, another's change was written."""


async def until_written(write: Callable[[], Awaitable[None]]) -> None:
    """Runs ``write``, which reads a record and writes it with the version that it read, until nobody was faster.

    Raises `ConflictError` (``write_conflict``) where somebody always is.
    """
    for _ in range(TRIES - 1):
        if await unless_changed(write()):
            return
    await write()


async def unless_changed(write: Awaitable[None]) -> bool:
    """Whether it was written; False where the record has not the expected version any more."""
    try:
        await write
    except ConflictError as error:
        if error.code != "write_conflict":
            raise
        return False
    return True


@dataclass(frozen=True, slots=True)
class Key:
    """A record's kind ("session", …), its owner (tenant) and its name. One owner never sees the records of another."""

    kind: str
    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """``created`` and ``expires`` are Unix times in seconds; ``expires`` None: never.

    ``version`` is the store's: every write gives the record another one, which no earlier write of it had. Of a record
    that is to be written it is not read.
    """

    value: bytes
    created: float
    expires: float | None = None
    version: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Lease:
    """One holder's right to work on what a key names, for a while; there need be no record under the key.

    ``fence`` is greater than that of every lease which the store gave before, of any key. ``signal`` is what another
    process wants of the holder, "" for nothing.
    """

    key: Key
    holder: str
    fence: int
    signal: str = ""


@dataclass(frozen=True, slots=True)
class Write:
    """A record to create or replace, and entries to append to it.

    ``expected``: the version that the record must still have, 0 for none there; None: whichever. ``lease``: it is
    written only while no other lease of the lease's key was given since, and that one was not released.
    """

    key: Key
    record: Record
    entries: Sequence[bytes] = ()
    expected: int | None = None
    lease: Lease | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """A record to delete with its entries, if it is there. ``value``: only where its value is still this one."""

    key: Key
    value: bytes | None = None


class Store(Protocol):
    """A durable store: once a call returned, what it wrote survives a crash of the process (memory stores aside).

    Its calls raise `StoreError`. Several processes may share it, unless it is in memory.
    """

    async def put(
        self, key: Key, record: Record, *entries: bytes, expected: int | None = None, lease: Lease | None = None
    ) -> None:
        """Create or replace the record and append ``entries`` to it, in one transaction, on `Write`'s conditions."""

    async def put_all(self, *writes: Write | Delete) -> None:
        """Do all of the writes, in order, in one transaction: all are done afterwards, or none.

        Conditions are about what was there before the first of them. Raises `ConflictError`, ``write_conflict`` where
        one has not the expected version, ``lease_lost`` where a lease is not its holder's any more.
        """

    async def get(self, key: Key) -> Record | None: ...

    async def entries(self, key: Key, *, after: int = 0) -> list[bytes]:
        """The entries of the record, in the order in which they were appended; none where there is no record.

        ``after``: without the first so many.
        """

    async def delete(self, key: Key, *, lease: Lease | None = None) -> bool:
        """Delete the record with its entries; ``lease`` as in `Write`. False: there was none."""

    async def names(self, kind: str, owner: str) -> list[str]: ...

    async def expire(self, now: float) -> int:
        """Delete the records that expired by ``now`` (Unix time in seconds), and return how many.

        Of several processes that do so at once, one deletes and counts each record.
        """

    async def claim(self, key: Key, holder: str, seconds: float) -> Lease | None:
        """A lease of ``key`` for ``holder``, which ends ``seconds`` from now by the store's own clock.

        None while another lease of the key lasts, be it of the same holder.
        """

    async def renew(self, leases: Sequence[Lease], seconds: float) -> list[Lease]:
        """Renews leases that are still their holders', to end ``seconds`` from now; returns them with their signals.

        One whose time was over is renewed as long as nobody claimed its key since.
        """

    async def release(self, lease: Lease) -> None:
        """End the lease; nothing happens where it is not its holder's any more."""

    async def lease(self, key: Key) -> Lease | None:
        """The lease of the key, while it lasts."""

    async def signal(self, key: Key, signal: str) -> bool:
        """Leave word for whoever has the key's lease, read when it is renewed. False: nobody has it."""

    async def abandoned(self, kind: str, *, limit: int = 100) -> list[Key]:
        """Keys of a kind whose leases ran out and were not released: their holders died, or are cut off."""

    async def aclose(self) -> None: ...


def new_version() -> int:
    """A version that no other write has, of 63 bits and never 0."""
    return secrets.randbits(62) + 1


def check_version(known: int, expected: int | None) -> None:
    """``known``: the version of what is there, 0 for nothing. Raises `ConflictError` where another is expected."""
    if expected is not None and known != expected:
        raise ConflictError(
            "Another request changed this at the same moment.", code="write_conflict", hint="Try again."
        )


def lease_lost() -> ConflictError:
    """The holder was silent for too long, and another works on it."""
    return ConflictError("Another server took this over.", code="lease_lost", hint="Ask for what became of it.")


def total(entries: Sequence[bytes]) -> int:
    """The size of the entries in bytes."""
    return sum(map(len, entries))
