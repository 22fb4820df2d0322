"""The work of several owners: many inputs are cut into slices, and between two slices others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from typing import TypeVar

import msgspec

from .engine import Embeddings, Ranking, Sampling, Step

# Several choices of one prompt as requests of their own.

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


Inputs = Sequence[Sequence[int]]
Input = TypeVar("Input")
Made = TypeVar("Made")
Places = Callable[[int], AbstractAsyncContextManager[object]]
"""The queue: a slice enters it with as many places as it has inputs."""


async def embed_in_turns(
    inputs: Inputs, embed: Callable[[Inputs], Awaitable[Embeddings]], places: Places, *, at_once: int
) -> Embeddings:
    """Embeds ``inputs``, ``at_once`` of them at a time, in their order."""
    parts = await in_turns(inputs, embed, places, at_once=at_once)
    return Embeddings(tuple(vector for part in parts for vector in part.vectors), sum(part.tokens for part in parts))


async def rank_in_turns(
    documents: Sequence[str], rank: Callable[[Sequence[str]], Awaitable[Ranking]], places: Places, *, at_once: int
) -> Ranking:
    """Ranks ``documents``, ``at_once`` of them at a time, in their order."""
    parts = await in_turns(documents, rank, places, at_once=at_once)
    return Ranking(tuple(score for part in parts for score in part.scores), sum(part.tokens for part in parts))


async def in_turns(
    inputs: Sequence[Input], work: Callable[[Sequence[Input]], Awaitable[Made]], places: Places, *, at_once: int
) -> list[Made]:
    """Does ``work`` with each slice, which enters the queue anew."""
    made = []
    for first in range(0, len(inputs), at_once):
        part = inputs[first : first + at_once]
        async with places(len(part)):
            made.append(await work(part))
    return made
