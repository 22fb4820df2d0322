"""The queue of all servers over a store: the batches that have not ended."""

from __future__ import annotations

from antiphon.store import Key, Store

QUEUE = "batch_queue"
"""The kind of its records: the name of each is a batch's, its value the owner."""


async def queued(store: Store) -> list[tuple[str, str]]:
    """The batches of the queue, the oldest first, each with its owner."""
    found = []
    for id in await store.names(QUEUE, ""):
        if (record := await store.get(Key(QUEUE, "", id))) is not None:
            found.append((id, record.value.decode()))
    return found
