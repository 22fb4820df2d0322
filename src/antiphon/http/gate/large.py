"""Large requests: how much of them is here at once, and where the work on them is done."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

from antiphon.config import Limits
from antiphon.errors import OverloadedError
from antiphon.http.rules import Rules

Result = TypeVar("Result")

HUGE = 2**20
"""Bytes; bodies beyond that are worked on one after the other, in a thread of their own."""

SETTLED = 0.5
"""Seconds after a huge request, when nothing holds any of it any more."""


class BodyRoom:
    """The room that one body takes of what all large ones may take together."""

    def __init__(self, large: LargeWork) -> None:
        self._large = large
        self.size: int = 0
        self._taken = 0

    def take(self, size: int) -> None:
        """``size`` more bytes came. Raises `OverloadedError` (``bodies_full``) where there is no room for them."""
        self.size += size
        if self.size > self._large.limits.off_loop_above:
            self._large.take(self.size - self._taken)
            self._taken = self.size

    def leave(self) -> None:
        self._large.bytes -= self._taken
        self.size = self._taken = 0


class LargeWork:
    """Bounds what large bodies take together: memory while they are here, and threads while they are worked on."""

    def __init__(self, rules: Rules) -> None:
        _return_large_blocks()
        self._rules = rules
        self._one = ThreadPoolExecutor(1, thread_name_prefix="large-request")
        self._settling = False
        self.bytes: int = 0
        """Bytes of all large bodies that are here."""

    @property
    def limits(self) -> Limits:
        return self._rules.limits

    @contextmanager
    def room(self) -> Iterator[BodyRoom]:
        """Room for one body, for as long as its request is answered."""
        room = BodyRoom(self)
        try:
            yield room
        finally:
            if room.size > HUGE:
                asyncio.get_running_loop().call_later(SETTLED, self._trim)
            room.leave()

    def settle(self) -> None:
        """Gives back, a moment later, what is left in heaps of work that took much memory and leaves no circles."""
        if not self._settling:
            self._settling = True
            asyncio.get_running_loop().call_later(SETTLED, self._settled)

    def _settled(self) -> None:
        self._settling = False
        self._in_turn(_trim)

    def take(self, size: int) -> None:
        if self.bytes + size > self.limits.max_bodies:
            raise OverloadedError(
                f"Large requests that are being answered take {self.bytes} bytes; together they may take "
                f"{self.limits.max_bodies}.",
                code="bodies_full",
                hint="Try again later.",
            )
        self.bytes += size

    async def run(self, work: Callable[[], Result], size: int) -> Result:
        """The result of ``work`` on ``size`` bytes: small ones at once, large ones in a thread, huge ones in turn.

        Work on huge ones that began goes on when nobody waits for it any more, and the next waits for its end.
        """
        if size <= self.limits.off_loop_above:
            return work()
        if size <= HUGE:
            return await asyncio.to_thread(work)
        return await asyncio.get_running_loop().run_in_executor(self._one, work)

    def _trim(self) -> None:
        """Memory of huge requests goes back to the system when the last of them is over."""
        if self.bytes <= HUGE:
            self._in_turn(_give_back)

    def _in_turn(self, work: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the application ended
            self._one.submit(work)

    def close(self) -> None:
        self._one.shutdown(wait=False, cancel_futures=True)


def _glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc's; other libraries have none of them."""
    found: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
    return found


_TRIM, _MALLOPT = _glibc("malloc_trim"), _glibc("mallopt")
_M_MMAP_THRESHOLD = -3


def _return_large_blocks() -> None:
    """Blocks beyond `HUGE` go back to the system as they are freed, in this process from now on.

    Else glibc learns from the first large body to take such blocks from a thread's heap, and `malloc_trim` does not
    give back the end of one: each thread that ever worked on a large body, the store's too, kept 16 to 64 MB.
    """
    if _MALLOPT is not None:
        _MALLOPT(_M_MMAP_THRESHOLD, HUGE)


def _give_back() -> None:
    """Gives back the memory of huge requests. Our readers leave no circles; others' may."""
    gc.collect(1)  # a look at all objects takes too long
    _trim()


def _trim() -> None:
    """Gives back the smaller blocks that glibc keeps in the heap of each thread."""
    if _TRIM is not None:
        _TRIM(0)
