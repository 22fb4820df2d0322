"""Threads for one tool's calls. A call that hangs keeps its thread, and no other tool's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

from .call import TOOL_BUSY, ToolError
from .tool import ToolFailure

THREADS = 16
"""How many threads a tool has at once, those included whose calls were given up."""

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


class ToolThreads(Executor):
    """At most ``most`` daemon threads: what hangs in one does not keep the program from ending.

    Calls beyond those wait. When every thread is still busy with a call that was given up, `submit` raises
    `ToolFailure` with ``E-TOOL-BUSY``.
    """

    def __init__(self, most: int = THREADS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._running: set[_Job] = set()
        self._waiting: deque[_Job] = deque()

    def submit(self, fn: Callable[Given, Returned], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Returned]:
        """``fn`` in a thread. Errors: `ToolFailure`."""
        job = _Job(lambda: fn(*args, **kwargs))
        with self._lock:
            if len(self._running) < self._most:
                self._start(job)
            elif all(running.given_up for running in self._running):
                hung = f"all {self._most} threads of this tool hang in earlier calls"
                raise ToolFailure(ToolError(TOOL_BUSY, hung, retryable=True))
            else:
                self._waiting.append(job)
        return job

    def _start(self, job: _Job) -> None:
        threading.Thread(target=self._work, args=(job,), name="tool", daemon=True).start()
        self._running.add(job)

    def _work(self, job: _Job | None) -> None:
        while job is not None:
            job.run()
            job = self._next(job)

    def _next(self, done: _Job) -> _Job | None:
        with self._lock:
            self._running.discard(done)
            if not self._waiting:
                return None
            job = self._waiting.popleft()
            self._running.add(job)
            return job


class _Job(Future[Any]):
    """One call of a function."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self._function = function
        self.given_up = False

    def cancel(self) -> bool:
        self.given_up = True
        return super().cancel()

    def run(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            result = self._function()
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
            self.set_exception(error)
        else:
            self.set_result(result)
