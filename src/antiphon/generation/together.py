"""Several turns of one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from .event import StepEvents
from .meter import UNLIMITED, TimeLimits
from .turn import Keep, Send, Source, drive

Happened = TypeVar("Happened")
Happened_co = TypeVar("Happened_co", covariant=True)
Written = TypeVar("Written")


class Drive(Protocol[Happened_co]):
    """Runs a request to its end, as `antiphon.generation.turn.drive` does with the events of a source."""

    def __call__(
        self, write: Callable[[StepEvents[Happened_co]], Written], send: Send[Written]
    ) -> Coroutine[Any, Any, None]: ...


def drive_all(
    sources: Sequence[Source[Happened]],
    write: Callable[[StepEvents[Happened]], Written],
    send: Send[Written],
    *,
    at_once: int,
    limits: TimeLimits = UNLIMITED,
    keep: Keep | None = None,
) -> Coroutine[Any, Any, None]:
    """`drive` for each of the sources, ``at_once`` at a time. The first error ends all and is raised."""
    starts = [partial(drive, source, write, send, limits=limits, keep=keep) for source in sources]
    return starts[0]() if len(starts) == 1 else _run_all(starts, at_once)


async def _run_all(starts: Sequence[Callable[[], Coroutine[Any, Any, None]]], at_once: int) -> None:
    waiting = iter(starts)

    async def work() -> None:
        for start in waiting:
            await start()

    workers = [asyncio.create_task(work()) for _ in range(max(1, min(at_once, len(starts))))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
