"""Answers that another server may make: as they are now, their events, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from antiphon.errors import AntiphonError, OverloadedError
from antiphon.store import Key
from antiphon.store.runs import published
from antiphon.wire.errors import refused

from .context import Context
from .runs import CANCEL

LOOKS = 0.05
"""Seconds between two looks at what another server has published."""
PATIENCE = 60.0
"""Seconds in which a response must end that is cancelled."""
QUIET = 20
"""Looks in a row at which nothing is new, before it is looked for who makes it."""


def making_key(owner: str, id: str) -> Key:
    """The key of the lease on a response that is made in the background and not recorded."""
    return Key("response", owner, id)


async def events_of(context: Context, key: Key, after: int = -1) -> AsyncGenerator[bytes, None]:
    """The events of a recorded run with a number above ``after``, until it is over, whoever makes it.

    One that nobody makes any more is gone on with here.
    """
    sent = after + 1
    seen = number = quiet = 0
    while True:
        run = context.runs.followed(key)
        if run is not None:
            try:
                async with aclosing(run.follow(sent - 1)) as here:
                    async for events in here:
                        sent = len(run.log)
                        yield events
                return
            except AntiphonError as error:
                if error.code != "lease_lost":
                    raise
                seen = number = 0
        batches = await context.stored_runs.batches(key, after=seen)
        stored = published(batches)
        new = stored[max(0, sent - number) :]
        seen, number, quiet = seen + len(batches), number + len(stored), 0 if batches else quiet + 1
        sent = max(sent, number)
        if new:
            yield b"".join(new)
        if any(batch.over for batch in batches):
            return
        if quiet >= QUIET and await context.archive.store.lease(key) is None:
            quiet = 0
            if await context.stored_runs.state(key) is None:
                return
            context.runs.take_over(key)
        await asyncio.sleep(LOOKS)


def number_after(query: Mapping[str, str], headers: Mapping[str, str]) -> int:
    """The number after which events are requested: ``starting_after``, or ``last-event-id``; -1: all of them.

    Raises `RequestError` for what is no number of an event.
    """
    after = query.get("starting_after") or headers.get("last-event-id", "")
    if after and not (after.isascii() and after.isdecimal() and len(after) < 10):
        raise refused("starting_after", "must be the number of an event.")
    return int(after or -1)


async def stop(context: Context, key: Key) -> None:
    """Cancels what is being made, here or elsewhere; returns when its end is stored.

    Raises `OverloadedError` where it does not end: nobody makes it, and here nobody can.
    """
    for _ in range(round(PATIENCE / LOOKS)):
        run = context.runs.get(key)
        if run is not None:
            await run.cancel()
            return
        state = await context.stored_runs.state(key)
        if state is None and await context.leases.signal(making_key(key.owner, key.name), CANCEL):
            await asyncio.sleep(LOOKS)
            continue
        if state is None or state.status == "over":
            return
        if not await context.leases.signal(key, CANCEL):
            context.runs.take_over(key)
        await asyncio.sleep(LOOKS)
    raise OverloadedError("The server that makes the answer does not end it.", code="queue_timeout", retry_after=5)
