"""Connections that another process accepts and hands on: one byte and one file descriptor each, over a Unix socket."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PLAIN, SECURE = b"p", b"s"
"""Whether a connection begins with TLS, where the server has a certificate."""
_AT_ONCE = 64
"""Connections that are taken before others have their turn on the event loop."""
_CLOSE_ON_EXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Open(set[Any]):
    """The connections of a server, which calls ``changed`` once after any number of changes."""

    def __init__(self, changed: Callable[[], None]) -> None:
        super().__init__()
        self._changed = changed
        self._pending = False

    def add(self, connection: object) -> None:
        super().add(connection)
        self._change()

    def discard(self, connection: object) -> None:
        super().discard(connection)
        self._change()

    def _change(self) -> None:
        if not self._pending:
            self._pending = True
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self._pending = False
        self._changed()


class Handed:
    """Takes connections from ``conduit``. ``report`` gets how many came and how many are open, at each change."""

    def __init__(self, conduit: socket.socket, report: Callable[[int, int], None]) -> None:
        self._conduit = conduit
        self._report = report
        self._came = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.open = Open(self.report)

    def begin(
        self, loop: asyncio.AbstractEventLoop, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None
    ) -> None:
        """From now on connections are taken."""
        self._loop, self._make, self._tls = loop, make, tls
        self._conduit.setblocking(False)
        loop.add_reader(self._conduit, self._take)
        self.report()

    def end(self) -> None:
        """Takes the connections that came, and no more."""
        self._take()
        self._loop.remove_reader(self._conduit)

    def report(self) -> None:
        self._report(self._came, len(self.open))

    def _take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                kind, descriptors, _, _ = socket.recv_fds(self._conduit, 1, 1, _CLOSE_ON_EXEC)
            except BlockingIOError:
                return
            if not kind:  # The other process is gone.
                self._loop.remove_reader(self._conduit)
                return
            self._came += 1
            connection = socket.socket(fileno=descriptors[0])
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection, self._tls if kind == SECURE else None))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def _connect(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        with suppress(OSError):  # It is gone already, or its TLS fails.
            await self._loop.connect_accepted_socket(self._make, connection, ssl=tls)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self.report()
