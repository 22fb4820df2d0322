"""Answers that another server may make: as they are now, their events, and their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from msgspec.structs import replace

from antiphon.errors import AntiphonError, OverloadedError
from antiphon.store import Key
from antiphon.store.runs import published
from antiphon.wire.errors import refused
from antiphon.wire.responses.schema import Response

from .context import Context
from .journal import run_key
from .runs import CANCEL, ResponseRun, replayed

LOOKS = 0.05
"""Seconds between two looks at what another server has published."""
PATIENCE = 60.0
"""Seconds in which a response must end that is cancelled."""
QUIET = 20
"""Looks in a row at which nothing is new, before it is looked for who makes it."""


async def latest(context: Context, owner: str, id: str) -> Response:
    """The response as far as it is made. Raises `NotFoundError` where it is neither stored nor to be followed."""
    run = context.runs.followed(run_key(owner, id))
    if isinstance(run, ResponseRun):
        return run.response
    response = (await context.archive.response(owner, id)).response
    state = None
    if response.status in ("queued", "in_progress"):
        state = await context.stored_runs.state(run_key(owner, id))
    if state is not None and state.status != "over":
        return replace(response, status=state.status)
    if state is None and await _made_elsewhere(context, owner, id):
        return response
    return await context.archive.finished(owner, id)


async def events_after(context: Context, owner: str, id: str, after: int = -1) -> AsyncGenerator[bytes, None] | None:
    """The events of a response that is being made, or whose events are stored; None where there is no such.

    Of one that another server makes and does not record, ``after`` none: they come once it is made.
    """
    key = run_key(owner, id)
    run = context.runs.followed(key)
    if run is not None and not run.recorded:
        return run.follow(after)
    if await context.stored_runs.state(key) is not None:
        return events_of(context, key, after)
    if after < 0 and await _made_elsewhere(context, owner, id):
        return _once_made(context, owner, id)
    return None


async def _made_elsewhere(context: Context, owner: str, id: str) -> bool:
    """Whether another server makes it. A lease of our own is one that a faulty store did not let us release."""
    lease = await context.archive.store.lease(making_key(owner, id))
    return lease is not None and lease.holder != context.leases.holder


async def _once_made(context: Context, owner: str, id: str) -> AsyncGenerator[bytes, None]:
    await context.leases.until_free(making_key(owner, id))
    async with aclosing(replayed(await context.archive.finished(owner, id))) as events:
        async for event in events:
            yield event


def making_key(owner: str, id: str) -> Key:
    """What the server has a lease of that makes a response in the background which is not recorded."""
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
