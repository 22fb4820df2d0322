"""Leases as rows of the PostgreSQL store. Their times are the database's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .postgres_records import Connection
from .store import Key, Lease, lease_lost

_AT = "kind = %s AND owner = %s AND name = %s"
_ROOM = """
INSERT INTO antiphon.lease (kind, owner, name, fence, holder, signal, ends) VALUES (%s, %s, %s, 0, '', '', '-infinity')
ON CONFLICT DO NOTHING
"""
_CLAIM = f"""
UPDATE antiphon.lease
SET fence = nextval('antiphon.fence'), holder = %s, signal = '', ends = clock_timestamp() + make_interval(secs => %s)
WHERE {_AT} AND ends <= clock_timestamp() RETURNING fence
"""  # noqa: S608 - constants, as below
_RENEW = """
UPDATE antiphon.lease SET ends = clock_timestamp() + make_interval(secs => %s)
FROM unnest(%s::text[], %s::bytea[], %s::bytea[], %s::bigint[]) AS held (kind, owner, name, fence)
WHERE (lease.kind, lease.owner, lease.name, lease.fence) = (held.kind, held.owner, held.name, held.fence)
RETURNING lease.fence, lease.signal
"""
_RELEASE = f"DELETE FROM antiphon.lease WHERE fence = %s AND {_AT}"  # noqa: S608
_FIND = f"SELECT fence, holder, signal FROM antiphon.lease WHERE ends > clock_timestamp() AND {_AT}"  # noqa: S608
_SIGNAL = f"UPDATE antiphon.lease SET signal = %s WHERE ends > clock_timestamp() AND {_AT}"  # noqa: S608
_HELD = f"SELECT 1 FROM antiphon.lease WHERE fence = %s AND {_AT} FOR SHARE"  # noqa: S608
_OVER = """
SELECT owner, name FROM antiphon.lease WHERE kind = %s AND ends <= clock_timestamp() ORDER BY ends LIMIT %s
"""


def _names(key: Key) -> tuple[str, bytes, bytes]:
    return key.kind, key.owner.encode(), key.name.encode()


async def claim(connection: Connection, key: Key, holder: str, seconds: float) -> Lease | None:
    """See `Store.claim`. The row comes first, so that the fence is given when nobody else can have the lease."""
    await connection.execute(_ROOM, _names(key))
    found = await (await connection.execute(_CLAIM, (holder, seconds, *_names(key)))).fetchone()
    return Lease(key, holder, found[0]) if found else None


async def renew(connection: Connection, leases: Sequence[Lease], seconds: float) -> list[Lease]:
    """See `Store.renew`."""
    if not leases:
        return []
    columns = zip(*((*_names(lease.key), lease.fence) for lease in leases), strict=True)
    cursor = await connection.execute(_RENEW, [seconds, *map(list, columns)], binary=True)
    signals = {fence: signal.decode() for fence, signal in await cursor.fetchall()}
    return [replace(lease, signal=signals[lease.fence]) for lease in leases if lease.fence in signals]


async def release(connection: Connection, lease: Lease) -> None:
    """See `Store.release`."""
    await connection.execute(_RELEASE, (lease.fence, *_names(lease.key)))


async def find(connection: Connection, key: Key) -> Lease | None:
    """The lease of the key, while it lasts."""
    found = await (await connection.execute(_FIND, _names(key), binary=True)).fetchone()
    return Lease(key, found[1], found[0], found[2].decode()) if found else None


async def signal(connection: Connection, key: Key, word: str) -> bool:
    """See `Store.signal`."""
    return (await connection.execute(_SIGNAL, (word.encode(), *_names(key)))).rowcount > 0


async def abandoned(connection: Connection, kind: str, limit: int) -> list[Key]:
    """See `Store.abandoned`."""
    cursor = await connection.execute(_OVER, [kind, limit], binary=True)
    return [Key(kind, owner.decode(), name.decode()) for owner, name in await cursor.fetchall()]


async def check(connection: Connection, lease: Lease | None) -> None:
    """Raises `ConflictError` for a lease that was released, or whose key another has claimed since.

    Until the transaction ends nobody else claims it.
    """
    if lease is None:
        return
    if await (await connection.execute(_HELD, (lease.fence, *_names(lease.key)))).fetchone() is None:
        raise lease_lost()
