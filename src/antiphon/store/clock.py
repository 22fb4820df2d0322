"""A clock that a jump of the system's clock does not lead astray: by it things expire, and what expired is deleted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

GRACE = 3600.0
"""Seconds for which a clock that jumped ahead, or one that was found at the start, must stand before it counts."""
JUMP = 60.0
"""Seconds by which the system's clock may run ahead of the time since the last look; more is a jump."""


def steady_time() -> float:
    """Seconds since some moment; nobody can set it, and on Linux it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if sys.platform == "linux" else time.monotonic()


def boot() -> str:
    """Names this start of the system, since which `steady_time` counts; "" where the system has no name for it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


class ConfirmedClock:
    """Unix time in seconds, by ``clock``; where that jumps ahead of ``steady``, the time without the jump.

    A jump counts once it has lasted `GRACE` seconds. A clock that goes back is followed at once: things expire later.
    """

    def __init__(self, clock: Callable[[], float], steady: Callable[[], float] = steady_time) -> None:
        self._clock = clock
        self._steady = steady
        self._began = self._last = clock()
        self._started = self._at = steady()
        self._ahead: float | None = None

    def __call__(self) -> float:
        now, at = self._clock(), self._steady()
        expected = self._last + (at - self._at)
        if now > expected + JUMP:
            self._ahead = at if self._ahead is None else self._ahead
            if at - self._ahead < GRACE:
                return expected
        self._last, self._at, self._ahead = now, at, None
        return now

    @property
    def settled(self) -> bool:
        """Whether the clock has stood long enough since the start: it may have been wrong then."""
        return self._steady() - self._started >= GRACE

    def expired(self, expires: float | None, lifetime: float) -> bool:
        """Whether what was written ``lifetime`` seconds before ``expires`` expired.

        What was written before this clock began does so only when it has `settled`.
        """
        if expires is None or expires > self():
            return False
        return self.settled or expires - lifetime >= self._began
