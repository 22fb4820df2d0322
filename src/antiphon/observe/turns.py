"""A turn as it goes by."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

from antiphon.errors import OverloadedError
from antiphon.generation import ChoiceEvent


class TurnWatcher(Protocol):
    """Looks at one turn."""

    def see(self, event: ChoiceEvent) -> None: ...

    def end(self, error: BaseException | None) -> None:
        """The turn is over; ``error`` is what ended it early (`GeneratorExit` when nobody wanted more)."""


async def watched(
    events: AsyncGenerator[ChoiceEvent, None],
    begin: Callable[[], Sequence[TurnWatcher]],
    *,
    first: float = 0,
    whole: float = 0,
) -> AsyncGenerator[ChoiceEvent, None]:
    """The same events, seen by the watchers that ``begin`` makes when the first is asked for.

    Raises `OverloadedError` when nothing came within ``first`` seconds, or not all within ``whole``; 0 is no limit.
    """
    watchers = begin()
    error: BaseException | None = None
    try:
        async with aclosing(events):
            async for event in limited(events, first=first, whole=whole) if first or whole else events:
                for watcher in watchers:
                    watcher.see(event)
                yield event
    except BaseException as raised:
        error = raised
        raise
    finally:
        for watcher in watchers:
            watcher.end(error)


async def limited(
    events: AsyncGenerator[ChoiceEvent, None], *, first: float, whole: float
) -> AsyncGenerator[ChoiceEvent, None]:
    now = asyncio.get_running_loop().time()
    end = now + whole if whole else None
    begun = not first
    while True:
        deadline = end if begun else min(now + first, end or math.inf)
        try:
            async with asyncio.timeout_at(deadline):
                event = await anext(events)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if deadline == end:
                message = f"The answer was not whole after {whole:g} seconds."
                raise OverloadedError(message, code="turn_timeout") from None
            message = f"The model said nothing in {first:g} seconds."
            raise OverloadedError(message, code="first_token_timeout") from None
        begun = True
        yield event
