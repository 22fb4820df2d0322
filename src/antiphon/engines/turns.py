"""The work of several owners: many inputs are cut into slices, and between two slices others have their turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from .engine import Embeddings, Ranking

Inputs = Sequence[Sequence[int]]
Input = TypeVar("Input")
Made = TypeVar("Made")
Places = Callable[[int], AbstractAsyncContextManager[object]]
"""The queue: a slice enters it with as many places as it has inputs."""


async def embed_in_turns(
    inputs: Inputs, embed: Callable[[Inputs], Awaitable[Embeddings]], places: Places, *, at_once: int
) -> Embeddings:
    """What ``embed`` makes of ``inputs``, ``at_once`` of them at a time, in their order."""
    parts = await in_turns(inputs, embed, places, at_once=at_once)
    return Embeddings(tuple(vector for part in parts for vector in part.vectors), sum(part.tokens for part in parts))


async def rank_in_turns(
    documents: Sequence[str], rank: Callable[[Sequence[str]], Awaitable[Ranking]], places: Places, *, at_once: int
) -> Ranking:
    """What ``rank`` makes of ``documents``, ``at_once`` of them at a time, in their order."""
    parts = await in_turns(documents, rank, places, at_once=at_once)
    return Ranking(tuple(score for part in parts for score in part.scores), sum(part.tokens for part in parts))


async def in_turns(
    inputs: Sequence[Input], work: Callable[[Sequence[Input]], Awaitable[Made]], places: Places, *, at_once: int
) -> list[Made]:
    """What ``work`` makes of each slice, which enters the queue anew."""
    made = []
    for first in range(0, len(inputs), at_once):
        part = inputs[first : first + at_once]
        async with places(len(part)):
            made.append(await work(part))
    return made
