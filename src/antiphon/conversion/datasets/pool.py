"""Processes that work on chunks of rows, and give back their results in order."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType

import msgspec

from antiphon.errors import AntiphonError, EngineError
from antiphon.errors.fault import Fault
from antiphon.structs import ready

from .checks import RowFinding
from .rows import Chunk
from .work import Result, RowWork, Sums

AHEAD = 4
"""Results for each process that may wait for one before them."""
CHUNK_SECONDS = 600.0
"""Seconds that a chunk may take before its process is ended, and its rows are run one by one."""
ROW_SECONDS = 60.0
"""Seconds that a row may take that is run alone."""
START_SECONDS = 300.0
"""Seconds in which a process must have its model."""

Opener = Callable[[], RowWork]
"""Opens the work in a process; it goes there by its name."""


class Order(msgspec.Struct):
    """A chunk that is worked on, and its result once there is one."""

    chunk: Chunk
    result: Result | None = None


class Pool:
    """So many processes, each with its own model; one alone is this process. A context manager.

    Raises the error with which a model cannot be opened.
    """

    def __init__(self, open: Opener, workers: int) -> None:
        self._work = open() if workers == 1 else None
        self._workers = [] if self._work else [Worker(open) for _ in range(workers)]
        try:
            identities = [worker.opened() for worker in self._workers]
        except BaseException:
            self.close()
            raise
        self.identity = self._work.identity if self._work else identities[0]

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes, whatever they do."""
        for worker in self._workers:
            worker.end()

    def run(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, Result]]:
        """Yields each chunk with its result, in order. Chunks are taken as processes become free."""
        if self._work is not None:
            yield from ((chunk, self._work.run(chunk)) for chunk in chunks)
            return
        coming, orders, idle = iter(chunks), deque[Order](), list(self._workers)
        busy: dict[Worker, Order] = {}
        while True:
            while idle and len(orders) < AHEAD * len(self._workers) and (chunk := next(coming, None)) is not None:
                order, worker = Order(chunk), idle.pop()
                orders.append(order)
                busy[worker] = order
                worker.send(chunk, CHUNK_SECONDS)
            if not orders:
                return
            for worker in finished(busy):
                order = busy.pop(worker)
                order.result = worker.receive() or one_by_one(worker, order.chunk)
                idle.append(worker)
            while orders and (result := orders[0].result) is not None:
                yield orders.popleft().chunk, result


def finished(busy: Iterable[Worker]) -> list[Worker]:
    """Waits for processes that have a result, have died, or are over their time."""
    workers = list(busy)
    left = min(worker.due for worker in workers) - time.monotonic()
    done = wait([worker.connection for worker in workers], timeout=max(0.0, left))
    return [worker for worker in workers if worker.connection in done or worker.due <= time.monotonic()]


def one_by_one(worker: Worker, chunk: Chunk) -> Result:
    """The result of a chunk that ended its process: each row alone, so that the one to blame is named."""
    whole = Result()
    for i in range(chunk.count):
        worker.send(msgspec.structs.replace(chunk, only=i), ROW_SECONDS)
        result = worker.receive() if finished([worker]) else None
        whole.add(result or blamed(chunk.first + i))
    return whole


def blamed(row: int) -> Result:
    """The result of a row that ended the process which read it."""
    reason = f"the row ended the process that worked on it, or took more than {ROW_SECONDS:.0f} seconds"
    found = RowFinding(row, "", "work_limit", "error", reason)
    return Result(Sums(rows=1, failed=1, kinds={found.kind: 1}), [found])


class Worker:
    """A process with its model. It is begun anew when it is needed after it ended."""

    def __init__(self, open: Opener) -> None:
        self._open = open
        self.due = 0.0
        """When the process is over its time, by the monotonic clock."""
        self._start()

    def _start(self) -> None:
        # Not forked: what runs in this process, threads too, must not be copied in the middle.
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, self._open), daemon=True)
        self._process.start()
        other.close()

    def opened(self) -> str:
        """Waits for the model, and returns its identity. Raises the error with which it cannot be opened."""
        try:
            answer = self.connection.recv_bytes() if self.connection.poll(START_SECONDS) else b""
        except (EOFError, OSError):
            answer = b""
        if answer[:1] == b"+":
            return answer[1:].decode()
        raise (
            msgspec.msgpack.decode(answer[1:], type=ready(Fault)).error()
            if answer
            else EngineError("a process of the data set has ended")
        )

    def send(self, chunk: Chunk, seconds: float) -> None:
        """Has it work on a chunk, for so long at most."""
        if not self._process.is_alive():
            self._start()
            self.opened()
        self.due = time.monotonic() + seconds
        with suppress(OSError):  # it has just ended, as `receive` says
            self.connection.send_bytes(msgspec.msgpack.encode(chunk))

    def receive(self) -> Result | None:
        """The result; None where the process has ended, or is over its time: then it is ended."""
        with suppress(EOFError, OSError):
            if self.connection.poll():
                return msgspec.msgpack.decode(self.connection.recv_bytes(), type=ready(Result))
        self.end()
        return None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


def serve(connection: Connection, open: Opener) -> None:
    """The life of a process: opens its model, then works on chunks until there is nobody to send any."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the program that began it
    try:
        work = open()
    except AntiphonError as error:
        connection.send_bytes(b"-" + msgspec.msgpack.encode(Fault.of(error)))
        return
    connection.send_bytes(b"+" + work.identity.encode())
    gc.freeze()  # the model's tables stay: to look through them again and again would be a tenth of the work
    try:
        while True:
            result = work.run(msgspec.msgpack.decode(connection.recv_bytes(), type=ready(Chunk)))
            connection.send_bytes(msgspec.msgpack.encode(result))
    except (EOFError, OSError):
        return
