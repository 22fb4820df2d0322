"""Waiting for what must come: the only place where tests look again and again, and a clock that they set forward."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import pytest

T = TypeVar("T")
PATIENCE = 120.0
"""Seconds after which what should have come will not: no busy machine needs as many."""
_PAUSE = 0.002


async def until(true: Callable[[], object]) -> None:
    """Waits for what must come; the event loop runs meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(_PAUSE)


async def until_found(find: Callable[[], Awaitable[T | None]]) -> T:
    """Asks, a server or an engine for example, until the answer is not None."""
    async with asyncio.timeout(PATIENCE):
        while (found := await find()) is None:
            await asyncio.sleep(_PAUSE)
    return found


class HasSlots(Protocol):
    """An engine that can say how many of its slots are at work."""

    async def busy_slots(self) -> int: ...


async def until_idle(engine: HasSlots) -> None:
    """Waits until no slot of the engine is at work."""

    async def idle() -> bool | None:
        return await engine.busy_slots() == 0 or None

    await until_found(idle)


def wait_until(true: Callable[[], object], why: Callable[[], object] = lambda: "it did not come") -> None:
    """Waits for what another process must do; ``why`` says what there is instead."""
    give_up = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < give_up, why()
        time.sleep(_PAUSE)


async def turns(count: int) -> None:
    """Lets the event loop go round: whoever can go on without a timer has gone on."""
    for _ in range(count):
        await asyncio.sleep(0)


async def quiet(count: Callable[[], int], rounds: int = 1000) -> None:
    """Waits until ``count`` has not changed for as many rounds of the event loop."""
    before, still = count(), 0
    while still < rounds:
        await asyncio.sleep(0)
        still = still + 1 if count() == before else 0
        before = count()


class LoopClock:
    """The clock of the running event loop, which tests set forward: what waits for that time is due at once."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        self._time, self._ahead = loop.time, 0.0
        patch.setattr(loop, "time", lambda: self._time() + self._ahead)

    async def forward(self, seconds: float) -> None:
        """Lets ``seconds`` pass, and what is due then be done."""
        self._ahead += seconds
        await turns(20)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
