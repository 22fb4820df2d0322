"""The port of all workers: each connection goes to the worker that has the fewest.

A listener that all workers inherit gives a burst to whoever wakes first (of 64 connections one of two workers got 6 to
23), and a port that each opens for itself is dealt by chance (20 to 32); handed on, it is 32. And what a dead worker
had not taken yet is still here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec

from antiphon.http.errors import ApiError, openai_error
from antiphon.http.server.handed import SECURE
from antiphon.http.server.server import bound_unsent

# The one answer that the supervisor gives itself: a 503, while all workers end young and are begun anew.

_LARGEST_HEAD = 1 << 16
_READ_SECONDS = 10.0
"""For so long in all a request is read, and what is behind its head dropped: a client that writes would see a reset."""
_WORDS = "The processes that answer ended as they began, and are begun anew; the server's log says why."


def refusal(retry_after: float) -> bytes:
    """The whole answer, for a client that may come again in so many seconds."""
    error = ApiError(status=503, type="engine_overloaded", code="overloaded", message=_WORDS)
    body = msgspec.json.encode(openai_error(error))
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"retry-after: {max(1, math.ceil(retry_after))}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Refused(asyncio.Protocol):
    """A connection of which the first request is answered with ``answer``, once its head is there; then it ends."""

    def __init__(self, answer: bytes, over: asyncio.Future[None]) -> None:
        self._answer = answer
        self._over = over
        self._head = b""
        self._answered = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, but by name
        asyncio.get_running_loop().call_later(_READ_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._answered or self._transport is None:
            return
        self._head += data
        if b"\r\n\r\n" not in self._head[: _LARGEST_HEAD + 4]:
            if len(self._head) > _LARGEST_HEAD:
                self._transport.abort()
            return
        self._answered, self._head = True, b""
        self._transport.write(self._answer)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)


LOG = logging.getLogger("antiphon.workers")
_AT_ONCE = 64
_MOST_REFUSED = 256
"""Connections that are being refused at once; others wait in the listener's queue."""
_WAIT, _REST = 0.02, 1.0
"""Seconds until it looks again for a worker with room, and for a file descriptor."""


class Takes(Protocol):
    """A worker that may take connections. Of two with as small a ``load`` the first is next."""

    @property
    def load(self) -> tuple[int, int]: ...

    def hand(self, connection: socket.socket, kind: bytes) -> bool:
        """Whether the worker could be handed the connection, which is then its to close."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket, and the kind of what comes by it (`http.server.handed`)."""

    socket: socket.socket
    kind: bytes


class Acceptor:
    """Accepts for the workers that are ``open``, from `begin` to `end`.

    ``retry_after`` gives None, or for how many seconds at least there will be no worker: while it does and none is
    open, requests are refused, and ``tls`` is for them. Else they wait.
    """

    def __init__(self, listeners: Sequence[Listener], tls: ssl.SSLContext | None = None) -> None:
        self._listeners = listeners
        self._tls = tls
        self._refused: set[asyncio.Task[None]] = set()
        self.retry_after: Callable[[], float | None] = lambda: None
        self._waiting: deque[tuple[socket.socket, bytes]] = deque()
        self._again: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.open: set[Takes] = set()

    def begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        for listener in self._listeners:
            bound_unsent(listener.socket)
            listener.socket.setblocking(False)
        self._resume()

    def end(self) -> None:
        """Nothing more is accepted, and the port is free."""
        self._pause()
        if self._again is not None:
            self._again.cancel()
        for listener in self._listeners:
            listener.socket.close()
        for connection, _ in self._waiting:
            connection.close()
        for task in self._refused:
            task.cancel()
        self._loop = None

    def take_back(self, connections: Iterable[tuple[socket.socket, bytes]]) -> None:
        """Takes connections back that were handed to a worker that is gone before it took them: they are another's."""
        if self._loop is None:  # it has ended
            for connection, _ in connections:
                connection.close()
            return
        self._waiting.extend(connections)
        if not self._hand_on():
            self._rest(_WAIT)

    def _resume(self) -> None:
        assert self._loop is not None
        if not self._hand_on():
            self._rest(_WAIT)
            return
        for listener in self._listeners:
            self._loop.add_reader(listener.socket, self._accept, listener)

    def _pause(self) -> None:
        if self._loop is not None:
            for listener in self._listeners:
                self._loop.remove_reader(listener.socket)

    def _rest(self, seconds: float) -> None:
        """Stops accepting until a worker has room; the kernel queues connections."""
        assert self._loop is not None
        self._pause()
        self._again = self._loop.call_later(seconds, self._resume)

    def _accept(self, listener: Listener) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listener.socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                LOG.warning("no connection can be accepted: %s", error.strerror)
                self._rest(_REST)
                return
            self._waiting.append((connection, listener.kind))
            if not self._hand_on():
                self._rest(_WAIT)
                return

    def _hand_on(self) -> bool:
        """Whether there are workers, and none of what was accepted is left."""
        while self._waiting:
            connection, kind = self._waiting[0]
            if not any(worker.hand(connection, kind) for worker in sorted(self.open, key=lambda worker: worker.load)):
                if not self._refuses():
                    return False
                self._refuse(connection, kind)
            self._waiting.popleft()
        return bool(self.open) or self._refuses()

    def _refuses(self) -> bool:
        return not self.open and len(self._refused) < _MOST_REFUSED and self.retry_after() is not None

    def _refuse(self, connection: socket.socket, kind: bytes) -> None:
        assert self._loop is not None
        tls = self._tls if kind == SECURE else None
        task = self._loop.create_task(self._refusing(connection, refusal(self.retry_after() or 0.0), tls))
        self._refused.add(task)
        task.add_done_callback(self._refused.discard)

    async def _refusing(self, connection: socket.socket, answer: bytes, tls: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        connection.setblocking(False)
        with suppress(OSError):  # It is gone already, or its TLS fails.
            await loop.connect_accepted_socket(lambda: Refused(answer, over), connection, ssl=tls)
            await over
