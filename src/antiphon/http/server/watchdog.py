"""A thread beside the event loop: it logs the stacks of all threads when the loop is silent, and ends a process
that was told to stop and does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import math
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import FrameType

from antiphon.http.exchange import FAULTS

SILENCE = 5.0
"""Seconds after which a loop that answers nothing is logged."""
PULSE = 1.0
"""Seconds between two questions to the loop, which are all that an idle one is woken for."""
LAST = 2.0
"""Seconds that a process has to end once its requests had their time and told of it."""
_THREADS, _FRAMES = 64, 24
"""How much of their stacks is logged, the innermost frames first."""
_STOPS = (signal.SIGTERM, signal.SIGINT)


class Watchdog:
    """Watches one event loop from `begin` to `end`. ``silence`` and ``pulse`` in seconds.

    ``grace``: this is the server's own process, which has so many seconds to end after it was told to stop, of which
    the first ``drain`` are for requests. Then it is ended with status 1, and the processes that it started with it: a
    thread that is stuck in a call cannot be made to end. None: the process is somebody else's, and only watched.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        silence: float = SILENCE,
        pulse: float = PULSE,
        grace: float | None = None,
    ) -> None:
        self._loop: asyncio.AbstractEventLoop | None = loop
        self._watched = threading.get_ident()
        self._silence, self._pulse, self._grace = silence, pulse, grace
        self._asked = False
        self._silent = 0.0
        self._reported = False
        self._deadline: float | None = None
        self._told = False
        self._ours, self._theirs = socket.socketpair()
        self._loops_own = -1
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def hear_signals(self) -> None:
        """Hears of signals before the loop does, which hears of them only when its thread comes back from a call.

        To be called on the main thread, once the loop handles signals itself.
        """
        if self._grace is None or sys.platform == "win32":
            return
        self._theirs.setblocking(False)
        self._loops_own = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)

    def stopping(self, grace: float | None = None) -> None:
        """The process is to end within its grace, or within that one where it is shorter."""
        if self._grace is not None:
            ends = time.monotonic() + (self._grace if grace is None else grace)
            self._deadline = ends if self._deadline is None else min(self._deadline, ends)

    def end(self) -> None:
        """The loop is watched no more; the end of the process still is, once it was told to stop."""
        self._loop = None
        if self._loops_own >= 0:
            descriptor, self._loops_own = self._loops_own, -1
            signal.set_wakeup_fd(descriptor)
        self._theirs.close()
        if self._deadline is None or self._grace is None:
            self._thread.join()
            faulthandler.cancel_dump_traceback_later()

    # On the thread

    def _watch(self) -> None:
        before = time.monotonic()
        while self._loop is not None or self._deadline is not None:
            self._arm()
            self._wait()
            now = time.monotonic()
            if self._deadline is not None and now >= self._deadline:
                self._end_process()
            self._look(min(now - before, 2 * self._pulse))  # who was stopped as a whole was not silent
            before = now
        self._ours.close()

    def _wait(self) -> None:
        if self._loop is None:
            time.sleep(min(self._pulse, 0.1))
            return
        until = math.inf if self._deadline is None else self._deadline
        seconds = max(min(self._pulse, until - time.monotonic()), 0.0)
        ready, _, _ = select.select([self._ours], [], [], seconds)
        for number in self._ours.recv(64) if ready else b"":
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        """Gives a signal to the loop, which would have been woken by it."""
        if number in _STOPS:  # The loop may have heard of the first before this thread did, and be stopping.
            self.stopping(LAST if self._told else None)
            self._told = True
        if (descriptor := self._loops_own) >= 0:
            with contextlib.suppress(OSError):
                os.write(descriptor, bytes([number]))

    def _look(self, seconds: float) -> None:
        if (loop := self._loop) is None:
            return
        if not self._asked:
            self._asked, self._silent, self._reported = True, 0.0, False
            with contextlib.suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._answer)
            return
        self._silent += seconds
        if self._silent >= self._silence and not self._reported:
            self._reported = True
            FAULTS.error(
                "the server answers nothing: its event loop has been silent for %.0f s. Its threads:\n%s",
                self._silent, "\n".join(standing(first=self._watched, but=threading.get_ident())),
            )  # fmt: skip

    def _answer(self) -> None:
        if self._reported:
            FAULTS.error("the event loop goes on, after %.0f s", self._silent)
        self._asked = False

    def _arm(self) -> None:
        """Has the threads written to standard error, and the process ended, though no Python code can run any more.

        The former where one call holds the interpreter's lock, in which case this thread stands still as well.
        """
        if self._grace is None or sys.__stderr__ is None:
            return
        with contextlib.suppress(OSError, ValueError):  # it has no descriptor
            if self._deadline is None:
                faulthandler.dump_traceback_later(self._silence + 2 * self._pulse, file=sys.__stderr__)
            else:
                left = max(self._deadline - time.monotonic(), 0.0) + self._pulse
                faulthandler.dump_traceback_later(left, file=sys.__stderr__, exit=True)

    def _end_process(self) -> None:
        threads = "\n".join(standing(first=self._watched, but=threading.get_ident()))
        FAULTS.error("the server was told to stop and could not; it is ended as it is. Its threads:\n%s", threads)
        for child in children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        os._exit(1)


def standing(*, first: int, but: int) -> Iterator[str]:
    """Yields the stack of each thread, the one of number ``first`` before the others: lines, bounded in number."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    frames.pop(but, None)
    for thread in sorted(frames, key=lambda number: number != first)[:_THREADS]:
        yield f"  {names.get(thread, thread)}"
        yield from _stack(frames[thread])
    if len(frames) > _THREADS:
        yield f"  and {len(frames) - _THREADS} more"


def _stack(frame: FrameType) -> Iterator[str]:
    for place in traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_FRAMES, lookup_lines=False):
        yield f"    {place.filename}:{place.lineno} in {place.name}"


def children() -> list[int]:
    """The processes that this one started and that it has not waited for: nobody else can have their numbers."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # no Linux
        for task in os.listdir("/proc/self/task"):
            with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found
