"""Embeddings of several owners: many inputs are cut into slices, and between two slices others have their turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from .engine import Embeddings

Inputs = Sequence[Sequence[int]]


async def embed_in_turns(
    inputs: Inputs,
    embed: Callable[[Inputs], Awaitable[Embeddings]],
    places: Callable[[int], AbstractAsyncContextManager[object]],
    *,
    at_once: int,
) -> Embeddings:
    """What ``embed`` makes of ``inputs``, ``at_once`` of them at a time, in their order.

    ``places`` is the queue: each slice enters it anew, with as many places as it has inputs.
    """
    vectors: list[tuple[float, ...]] = []
    tokens = 0
    for first in range(0, len(inputs), at_once):
        part = inputs[first : first + at_once]
        async with places(len(part)):
            made = await embed(part)
        vectors += made.vectors
        tokens += made.tokens
    return Embeddings(tuple(vectors), tokens)
