"""The server's side: who has a turn, and the process that forks."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec

from antiphon.errors import AntiphonError, OverloadedError, UnsupportedError
from antiphon.errors.fault import Fault
from antiphon.structs import ready
from antiphon.tenancy import FairRoom

from .task import BROKEN, DONE, REFUSED, Task

log = logging.getLogger("antiphon.isolation")

_PROGRAM = Path(__file__).with_name("forkserver.py")
_NEEDED = re.compile("PATH|HOME|LANG|LC_[A-Z]+|PYTHON(HOME|PATH|USERBASE|NOUSERSITE)|(DY)?LD_LIBRARY_PATH")
"""Variables of the environment that find the interpreter and its packages. No key or other secret goes along."""
SECONDS = 1.6
"""Seconds after which a piece has its answer, or is refused: with what else its request takes, two."""
DRAIN = 1.0
"""Seconds that pieces of work get when the server stops."""
_REMEMBERED = 256
_REMEMBERED_SIZE = 32 * 2**10
"""Answers that are remembered, and bytes that each of them has at most."""
_MOST_ANSWER = 64 * 2**20
"""Bytes of an answer."""


class _Died(Exception):
    """The process of a piece ended without an answer."""


class Isolation:
    """Runs pieces of work in processes of their own, ``places`` at once; owners take turns.

    ``most_waiting`` wait. A piece is ended ``seconds`` after it came, waiting included, and when nobody waits for it
    any more; it may compute for less than that, so whose turn is next has time left. After ``idle`` seconds without
    one the process that forks is ended too; to start it takes no piece's time, and ``starting`` seconds at most.
    """

    def __init__(
        self,
        *,
        places: int = 2,
        most_waiting: int = 64,
        seconds: float = SECONDS,
        starting: float = 10.0,
        idle: float = 60.0,
    ) -> None:
        self._room = FairRoom(lambda: places)
        self._most_waiting = most_waiting
        self.seconds = seconds
        self._starting = starting
        self._idle = idle
        self._server: _Forkserver | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        """Answers by their piece and its owner: nobody learns from the time what others sent."""

    async def ready(self, task: Task) -> float:
        """Has the process that forks started, with the task's code; returns the seconds that it took.

        Raises `OverloadedError`.
        """
        if sys.platform == "win32":
            raise UnsupportedError(f"{task.what} needs a process of its own, which is not possible on this system")
        self._check()
        self._keep()
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._starting):
                await self._started().ready(task)
        except TimeoutError:
            raise self.late() from None
        finally:
            self._let_go()
        return time.monotonic() - began

    async def run(self, task: Task, piece: bytes, *, owner: str = "", until: float | None = None) -> bytes:
        """Runs the task's function on ``piece``, for a request of ``owner``; some answers are remembered.

        ``until``: when it is to be there by the event loop's clock, where that is not ``seconds`` from now.
        Raises what the function raises; `RequestError` (``work_limit``) where its process came to a limit or died;
        `OverloadedError` where there is no turn for it (``queue_full``, ``queue_timeout``), no time any more
        (``queue_timeout``), or the server stops.
        """
        key = hashlib.sha256("\0".join((task.place, owner, "")).encode("utf-8", "surrogatepass") + piece).digest()
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        await self.ready(task)
        until = asyncio.get_running_loop().time() + self.seconds if until is None else until
        answer = await self._worked(task, piece, owner, until)
        if len(answer) <= _REMEMBERED_SIZE:
            self._known[key] = answer
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return answer

    async def _worked(self, task: Task, piece: bytes, owner: str, until: float) -> bytes:
        async with self._turn(owner, until):
            for _ in range(2):
                self._check()
                server = self._started()
                try:
                    return await self._answered(server, task, piece, until)
                except _Died:
                    self._check()
                    if server.alive:
                        raise task.too_much() from None
            raise task.too_much()

    def _check(self) -> None:
        if self._draining:
            raise OverloadedError("The server is stopping.", code="draining", retry_after=5.0)

    def late(self) -> OverloadedError:
        """The error of work that came to none of its own limits in time: others had the processor."""
        message = "The server has so much to do that this was not done in time."
        return OverloadedError(message, code="queue_timeout", hint="Try again later.")

    def drain(self) -> None:
        """The server is stopping: what waits is refused, and what runs has `DRAIN` seconds."""
        self._draining = True
        asyncio.get_running_loop().call_later(DRAIN, self.close)

    def close(self) -> None:
        """Ends all pieces, and the process that forks, for good."""
        self._draining = True
        self._end_forking()

    def _end_forking(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._server is not None:
            self._server.close()
            self._server = None

    @property
    def pid(self) -> int | None:
        """The process that forks, where there is one."""
        return self._server.pid if self._server is not None and self._server.alive else None

    @asynccontextmanager
    async def _turn(self, owner: str, until: float) -> AsyncIterator[None]:
        if self._room.full and self._room.waiting >= self._most_waiting:
            raise OverloadedError(
                f"{self._room.running} requests of this kind run and {self._room.waiting} wait.",
                code="queue_full",
                hint="Try again later.",
            )
        try:
            async with self._room.places(owner, patience=until - asyncio.get_running_loop().time()):
                self._keep()
                yield
        except TimeoutError:
            raise self.late() from None
        finally:
            self._let_go()

    def _keep(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_go(self) -> None:
        if not self._room.running and self._server is not None:
            self._keep()
            self._timer = asyncio.get_running_loop().call_later(self._idle, self._end_forking)

    def _started(self) -> _Forkserver:
        if self._server is None or not self._server.alive:
            if self._server is not None:
                self._server.close()
            self._server = _Forkserver()
        return self._server

    async def _answered(self, server: _Forkserver, task: Task, piece: bytes, until: float) -> bytes:
        with server.begun(task) as end:
            try:
                async with asyncio.timeout_at(until):
                    kind, answer = await _exchanged(end, piece)
            except TimeoutError:  # Its processor time had not come to its limit: others had the processor.
                raise self.late() from None
            except (OSError, asyncio.IncompleteReadError):
                raise _Died from None
        if kind == DONE:
            return answer
        if kind == REFUSED:
            raise msgspec.msgpack.decode(answer, type=ready(Fault)).error()
        if kind == BROKEN:
            log.error("a piece of work failed: %s", answer.decode("utf-8", "replace"))
            raise AntiphonError("the server made a mistake", code="internal_error")
        raise task.too_much()


async def _exchanged(end: socket.socket, piece: bytes) -> tuple[bytes, bytes]:
    """Sends the piece, and reads how it ended and its answer. Raises `OSError` or `IncompleteReadError`."""
    reader, writer = await asyncio.open_unix_connection(sock=end)
    try:
        writer.write(len(piece).to_bytes(8, "big") + piece)
        await writer.drain()
        size = int.from_bytes(await reader.readexactly(8), "big")
        if size > _MOST_ANSWER:
            raise ConnectionResetError
        answer = await reader.readexactly(size)
    finally:
        writer.transport.abort()
    return answer[:1], answer[1:]


class _Forkserver:
    """A running process that forks. Where its parent is killed, it and all its children are."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={name: value for name, value in os.environ.items() if _NEEDED.fullmatch(name)},
            )  # fmt: skip
        ours.setblocking(False)
        self._control = ours
        self._last = 0
        self._ready: set[str] = set()
        self.close = weakref.finalize(self, _end, self._process, ours)  # also where nobody closes it
        self.close.atexit = False  # Then its input ends anyway.

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def ready(self, task: Task) -> None:
        """Comes back once the task's code is imported and prepared there; what is wrong with it, a piece reports."""
        if task.place in self._ready:
            return
        ours, theirs = socket.socketpair()
        with ours, suppress(_Died, OSError):
            ours.setblocking(False)
            with theirs:
                self._send({"run": task.place, "prepare": task.prepare}, theirs)
            await asyncio.get_running_loop().sock_recv(ours, 1)  # Its other end is closed then.
        self._ready.add(task.place)

    @contextmanager
    def begun(self, task: Task) -> Iterator[socket.socket]:
        """Our end of the socket of a new process for the task; it is killed at the end, if it is there still."""
        self._last += 1
        number = self._last
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        limits = {"processor": task.processor, "memory": task.memory}
        order = {"start": number, "run": task.place, "prepare": task.prepare, **limits}
        try:
            with theirs:
                self._send(order, theirs)
            yield ours
        finally:
            ours.close()
            with suppress(_Died):
                self._send({"stop": number})

    def _send(self, order: Mapping[str, object], *along: socket.socket) -> None:
        """Raises `_Died` where nobody reads any more."""
        try:
            socket.send_fds(self._control, [msgspec.json.encode(order) + b"\n"], [end.fileno() for end in along])
        except OSError:
            raise _Died from None


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """The process ends its children and itself at the end of its input; it is waited for when nobody waits."""
    control.close()
    threading.Thread(target=process.wait, name="isolation", daemon=True).start()
