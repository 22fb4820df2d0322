"""Several choices of one prompt as requests of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import msgspec

from .engine import Sampling, Step

One = Callable[[Sampling], AsyncGenerator[Step, None]]


async def together(one: One, sampling: Sampling, n: int) -> AsyncGenerator[Step, None]:
    """The steps of ``n`` replies as they come, numbered; each has the next seed, as the server's own choices have."""
    steps: asyncio.Queue[Step | None] = asyncio.Queue(maxsize=n)

    async def run(choice: int) -> None:
        seed = None if sampling.seed is None else sampling.seed + choice
        try:
            async with aclosing(one(replace(sampling, seed=seed))) as reply:
                async for step in reply:
                    await steps.put(msgspec.structs.replace(step, choice=choice))
        finally:
            ended.append(choice)
            await steps.put(None)

    ended: list[int] = []
    tasks = [asyncio.create_task(run(choice)) for choice in range(n)]
    try:
        while len(ended) < n or not steps.empty():
            step = await steps.get()
            if step is not None:
                yield step
            elif failed := next((task for task in tasks if task.done() and task.exception()), None):
                await failed
    finally:
        for task in tasks:
            task.cancel()
        while not steps.empty():  # Room for every task's last word, which nobody waits for any more.
            steps.get_nowait()
        await asyncio.gather(*tasks, return_exceptions=True)
