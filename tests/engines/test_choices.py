"""Several choices that are requests of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon.engines import Sampling, Step
from antiphon.engines.turns import together
from kit.waiting import PATIENCE, turns


async def test_who_leaves_while_the_choices_are_ahead_of_him_leaves_at_once() -> None:
    """As the reader of a slow connection does; the places of the engine are given back with it."""
    running = 0

    async def endless(sampling: Sampling) -> AsyncGenerator[Step, None]:
        nonlocal running
        running += 1
        try:
            while True:
                yield Step((1,))
        finally:
            running -= 1

    async with asyncio.timeout(PATIENCE):
        async with aclosing(together(endless, Sampling(max_tokens=10), 3)) as steps:
            assert (await anext(steps)).ids == (1,)
            await turns(20)
            assert running == 3
    assert running == 0
