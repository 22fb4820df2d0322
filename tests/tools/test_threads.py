"""The threads of one tool: so many at once, calls wait for one, and only where all hang is a call refused."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from antiphon.tools import ToolFailure
from antiphon.tools.function import THREADS, ToolThreads
from kit.waiting import PATIENCE, wait_until


class Jobs:
    """Work that goes on until it is let go, one piece at a time."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self._free = [threading.Event() for _ in range(THREADS + 10)]

    def work(self, number: int) -> int:
        self.begun.append(number)
        self._free[number].wait(PATIENCE)
        return number

    def end(self, *numbers: int) -> None:
        for number in numbers:
            self._free[number].set()

    def submit(self, threads: ToolThreads, *numbers: int) -> list[Future[int]]:
        return [threads.submit(self.work, number) for number in numbers]


@pytest.fixture
def jobs() -> Any:
    made = Jobs()
    yield made
    made.end(*range(THREADS + 10))


def test_a_tool_has_sixteen_threads() -> None:
    assert THREADS == 16


def test_as_many_run_at_once_as_may_and_the_others_in_their_order(jobs: Jobs) -> None:
    threads = ToolThreads(2)
    futures = jobs.submit(threads, 0, 1, 2, 3)
    wait_until(lambda: len(jobs.begun) == 2)
    assert sorted(jobs.begun) == [0, 1]
    assert not futures[2].running()
    jobs.end(1)
    wait_until(lambda: len(jobs.begun) == 3)
    assert jobs.begun[2] == 2
    jobs.end(0, 2, 3)
    assert [future.result(PATIENCE) for future in futures] == [0, 1, 2, 3]


def test_a_call_waits_while_one_thread_may_still_come_back(jobs: Jobs) -> None:
    threads = ToolThreads(2)
    hung, busy = jobs.submit(threads, 0, 1)
    wait_until(lambda: len(jobs.begun) == 2)
    assert not hung.cancel(), "it runs already"
    (waiting,) = jobs.submit(threads, 2)
    jobs.end(1, 2)
    assert waiting.result(PATIENCE) == 2
    assert busy.result(PATIENCE) == 1


def test_a_call_is_refused_where_all_threads_hang_and_taken_when_one_came_back(jobs: Jobs) -> None:
    threads = ToolThreads(2)
    hung = jobs.submit(threads, 0, 1)
    wait_until(lambda: len(jobs.begun) == 2)
    for future in hung:
        future.cancel()
    with pytest.raises(ToolFailure, match="all 2 threads") as caught:
        jobs.submit(threads, 2)
    assert (caught.value.error.code, caught.value.error.retryable) == ("E-TOOL-BUSY", True)
    jobs.end(0)
    assert hung[0].result(PATIENCE) == 0, "its late result"

    found: list[Future[int]] = []

    def taken() -> bool:
        with suppress(ToolFailure):
            found.append(threads.submit(lambda: 7))
        return bool(found)

    wait_until(taken)
    assert found[0].result(PATIENCE) == 7


def test_a_call_that_was_given_up_in_the_queue_never_runs(jobs: Jobs) -> None:
    threads = ToolThreads(1)
    _, given_up, after = jobs.submit(threads, 0, 1, 2)
    assert given_up.cancel()
    jobs.end(0, 2)
    assert after.result(PATIENCE) == 2
    assert jobs.begun == [0, 2]


def test_what_a_call_raises_is_raised_where_its_result_is_taken() -> None:
    threads = ToolThreads(1)

    def raises() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        threads.submit(raises).result(PATIENCE)
    assert threads.submit(lambda: 1).result(PATIENCE) == 1, "the thread's place is free again"


def test_a_thread_that_hangs_does_not_keep_the_program_from_ending(jobs: Jobs) -> None:
    jobs.submit(ToolThreads(1), 0)
    wait_until(lambda: jobs.begun == [0])
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "tool")
