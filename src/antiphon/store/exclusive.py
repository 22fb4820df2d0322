"""What one request works on alone, of all servers that share a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from .leases import Leases
from .store import Key, Lease


def _nothing() -> None: ...


@dataclass(slots=True)
class Exclusive:
    """``lease`` None: there is nothing that it has to itself.

    ``lost`` is called when another server took it over; whoever works on it may set it.
    """

    lease: Lease | None = None
    lost: Callable[[], None] = _nothing


@asynccontextmanager
async def exclusive(leases: Leases, key: Key) -> AsyncIterator[Exclusive]:
    """`Leases.hold`, for work of which it is known only later how it is stopped."""
    claimed = Exclusive()
    async with leases.hold(key, lost=lambda: claimed.lost()) as claimed.lease:
        yield claimed


@asynccontextmanager
async def turn(leases: Leases, key: Key) -> AsyncIterator[Lease]:
    """Runs the body with the key's lease, once those who came before are through. For what is over in a moment."""
    while True:
        async with leases.hold(key) as lease:
            if lease is not None:
                yield lease
                return
        await leases.until_free(key)
