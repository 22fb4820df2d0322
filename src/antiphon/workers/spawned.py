"""One worker process, seen from the supervisor."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import msgspec

from antiphon.errors import EngineError
from antiphon.errors.fault import Fault
from antiphon.library.app import ModelSummary
from antiphon.library.reload import Reloaded
from antiphon.observe.metrics import Family, growing
from antiphon.structs import ready

from .peer import Grant, Handler, Peer, Service

_SCRAPE_SECONDS = 5.0
"""How long a scrape waits for a worker; then it has what the worker reported before."""
_RELOAD_SECONDS = 60.0
"""A worker that begins only now takes this long at most."""


class Process(Protocol):
    """A process that was started here, as asyncio has them."""

    @property
    def pid(self) -> int: ...

    def send_signal(self, signal: int, /) -> None: ...

    async def wait(self) -> int:
        """Its end: its status, or less than 0 for the signal that ended it."""


Start = Callable[[int, int], Awaitable[Process]]
"""Starts a process that has these two sockets open: the one that it talks over, and that of its connections."""


async def program(talk: int, conduit: int) -> Process:
    """A worker of this program."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "antiphon.workers.worker", str(talk), str(conduit),
        pass_fds=(talk, conduit),
        stdin=subprocess.PIPE,  # Its end means that this process is gone, and then the worker goes too.
        start_new_session=True,  # Ctrl-C in a terminal is for the supervisor.
    )  # fmt: skip


class WorkerProcess:
    """Made by `start`. ``ready`` is done when it serves, with what its model is, or has why it cannot.

    ``load`` is how many connections it has, those on their way to it included, and how many it ever had.
    """

    def __init__(
        self,
        process: Process,
        conduit: socket.socket,
        on_listening: Callable[[WorkerProcess], object],
    ) -> None:
        self._process = process
        self._conduit = conduit
        self._on_listening = on_listening
        self._peer: Peer
        self._sent = self._came = self._open = 0
        self._handed: deque[tuple[socket.socket, bytes]] = deque()
        self._last: list[Family] = []
        self._reason = ""
        self.ready: asyncio.Future[ModelSummary] = asyncio.get_running_loop().create_future()

    @classmethod
    async def start(
        cls,
        services: Mapping[str, Service],
        handlers: Mapping[str, Handler],
        on_listening: Callable[[WorkerProcess], object],
        start: Start = program,
    ) -> WorkerProcess:
        """Its end of the two sockets is open in the process alone: when it dies, they end.

        ``on_listening`` is called each time that it says how many connections it has.
        """
        talk, its_talk = socket.socketpair()
        conduit, its_conduit = socket.socketpair()
        with talk, its_talk, its_conduit:
            conduit.setblocking(False)
            process = await start(its_talk.fileno(), its_conduit.fileno())
            worker = cls(process, conduit, on_listening)
            worker._peer = await Peer.over(
                talk.dup(),
                {**services, "failed": worker._failed},
                {**handlers, "connections": worker._counted, "ready": worker._is_ready},
            )
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def load(self) -> tuple[int, int]:
        return self._open + self._sent - self._came, self._sent

    def hand(self, connection: socket.socket, kind: bytes) -> bool:
        try:
            socket.send_fds(self._conduit, [kind], [connection.fileno()])
        except OSError:  # It takes nothing now, or never again.
            return False
        self._sent += 1
        self._handed.append((connection, kind))
        return True

    def handed_back(self) -> list[tuple[socket.socket, bytes]]:
        """The connections that it was handed and did not take; for when it is gone."""
        left = list(self._handed)
        self._handed.clear()
        return left

    async def families(self) -> list[Family]:
        """Its metrics; those that it reported last where it does not answer."""
        with suppress(TimeoutError, EngineError):
            async with asyncio.timeout(_SCRAPE_SECONDS):
                self._last = msgspec.convert(await self._peer.call("scrape"), ready(list[Family]))
        return self._last

    @property
    def left(self) -> list[Family]:
        """The metrics that still count when it is gone, as far as they were ever reported."""
        return growing(self._last)

    async def reload(self, given: object) -> Reloaded | None:
        """Hands it a configuration; None of a worker that died, or does not answer."""
        with suppress(TimeoutError, EngineError):
            async with asyncio.timeout(_RELOAD_SECONDS):
                return msgspec.convert(await self._peer.call("reload", given), ready(Reloaded))
        return None

    async def refresh(self, name: str) -> None:
        """It is to look for the files of a model anew."""
        with suppress(EngineError):
            await self._peer.call("refresh", name)

    async def cancel(self, owner: str, id: str, request: object) -> bool:
        """Whether it makes that answer to a transcript, and cancelled what was requested."""
        with suppress(EngineError):
            found: bool = await self._peer.call("cancel", owner, id, request)
            return found
        return False

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def gone(self) -> str:
        """Waits until the process ends and all that it had is given back; how it ended, for people."""
        code = await self._process.wait()
        self._conduit.close()
        self._peer.close()
        await self._peer.lost
        if not self.ready.done():
            self.ready.set_exception(EngineError(f"a worker ended with status {code} before it served"))
            self.ready.exception()
        return f"signal {-code}" if code < 0 else f"status {code}{self._reason}"

    def _counted(self, came: int, open: int) -> None:
        self._came, self._open = came, open
        while len(self._handed) > self._sent - came:  # Our ends of those that it has taken: they would be lost with it.
            connection, _ = self._handed.popleft()
            connection.close()
        self._on_listening(self)

    def _is_ready(self, summary: object) -> None:
        if not self.ready.done():
            self.ready.set_result(msgspec.convert(summary, ready(ModelSummary)))

    @asynccontextmanager
    async def _failed(self, fault: object) -> AsyncGenerator[Grant, None]:
        error = msgspec.convert(fault, ready(Fault)).error()
        self._reason = f" ({error})"
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()
        yield Grant()
