"""Batches as they are stored, each for its owner alone."""

from __future__ import annotations

import msgspec

from antiphon.store import Key, Store
from antiphon.store.clock import ConfirmedClock
from antiphon.structs import ready

from .queued import queued
from .schema import ENDED
from .state import BatchState

KIND = "batch"
"""A batch's record is its owner's; the name of each that has not ended is in the servers' queue besides."""


class BatchArchive(msgspec.Struct, frozen=True):
    """What any server finds of batches, whoever runs them."""

    store: Store
    confirmed: ConfirmedClock

    async def state(self, owner: str, id: str) -> BatchState | None:
        """None where this owner has no such batch (any more)."""
        record = await self.store.get(Key(KIND, owner, id))
        if record is None or record.expires is None:
            return None
        if self.confirmed.expired(record.expires, record.expires - record.created):
            return None
        return msgspec.msgpack.decode(record.value, type=ready(BatchState))

    async def ids(self, owner: str) -> list[str]:
        """Of all its batches, those that expired included."""
        return await self.store.names(KIND, owner)

    async def unfinished(self, owner: str) -> list[BatchState]:
        """The owner's batches that have not ended."""
        states = []
        for id, of in await queued(self.store):
            if of == owner and (state := await self.state(owner, id)) is not None and state.batch.status not in ENDED:
                states.append(state)
        return states
