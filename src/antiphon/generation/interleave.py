"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

Item = TypeVar("Item")

_AHEAD = 64
"""Items that may wait for the reader; then the streams wait with it."""


async def interleave(
    streams: Sequence[AsyncGenerator[Item, None]], *, at_once: int
) -> AsyncGenerator[tuple[int, Item], None]:
    """The items of all streams with the number of theirs, as they come; ``at_once`` streams run at a time.

    The first error ends all and is raised. Closing the generator closes every stream.
    """
    if len(streams) == 1:
        async with aclosing(streams[0]) as only:
            async for item in only:
                yield 0, item
        return
    items: asyncio.Queue[tuple[int, Item] | BaseException | None] = asyncio.Queue(_AHEAD)
    waiting = iter(enumerate(streams))

    async def drain() -> None:
        try:
            for number, stream in waiting:
                async with aclosing(stream):
                    async for item in stream:
                        await items.put((number, item))
        except Exception as error:  # noqa: BLE001 - it is the reader's
            await items.put(error)
        else:
            await items.put(None)

    running = max(1, min(at_once, len(streams)))
    workers = [asyncio.create_task(drain()) for _ in range(running)]
    try:
        while running:
            found = await items.get()
            match found:
                case None:
                    running -= 1
                case BaseException():
                    raise found
                case _:
                    yield found
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
