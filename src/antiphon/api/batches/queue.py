"""Batches in the queue, run as long as a server runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.errors import StoreError
from antiphon.http.context import Context
from antiphon.http.lazy_route import LazyObject
from antiphon.store import Key, Store

# The queue of all servers over a store: the batches that have not ended.

QUEUE = "batch_queue"
"""The kind of its records: the name of each is a batch's, its value the owner."""


async def queued(store: Store) -> list[tuple[str, str]]:
    """The batches of the queue, the oldest first, each with its owner."""
    found = []
    for id in await store.names(QUEUE, ""):
        if (record := await store.get(Key(QUEUE, "", id))) is not None:
            found.append((id, record.value.decode()))
    return found


log = logging.getLogger("antiphon.batches")


@asynccontextmanager
async def going_on(context: Context, batches: LazyObject) -> AsyncIterator[None]:
    """Goes on with the batches that nobody runs, beside the requests; they stop when the block is left.

    ``batches`` makes what has the service of batches, where it is needed.
    """
    looking = asyncio.ensure_future(_look(context, batches))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        if batches.made is not None:
            await batches.made.service.aclose()


async def _look(context: Context, batches: LazyObject) -> None:
    """Now and then goes on with what nobody runs: of an earlier run, or of a server that stopped or died."""
    while not context.lifecycle.draining:
        try:
            if found := await queued(context.archive.store):
                await (await batches.get()).service.take_over(found)
        except StoreError as error:
            log.warning("batches that nobody runs cannot be looked for: %s", error.code)
        except Exception:
            log.exception("batches that nobody runs cannot be looked for")
        await asyncio.sleep(context.leases.seconds)
