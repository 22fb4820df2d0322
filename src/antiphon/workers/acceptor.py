"""The port of all workers: each connection goes to the worker that has the fewest.

A listener that all workers inherit gives a burst to whoever wakes first (of 64 connections one of two workers got 6 to
23), and a port that each opens for itself is dealt by chance (20 to 32); handed on, it is 32. And what a dead worker
had not taken yet is still here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.http.server.server import bound_unsent

LOG = logging.getLogger("antiphon.workers")
_AT_ONCE = 64
_WAIT, _REST = 0.02, 1.0
"""Seconds until it looks again for a worker with room, and for a file descriptor."""


class Takes(Protocol):
    """A worker that may take connections. Of two with as small a ``load`` the first is next."""

    @property
    def load(self) -> tuple[int, int]: ...

    def hand(self, connection: socket.socket, kind: bytes) -> bool:
        """Whether the worker could be handed the connection."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket, and the kind of what comes by it (`http.server.handed`)."""

    socket: socket.socket
    kind: bytes


class Acceptor:
    """Accepts for the workers that are ``open``, from `begin` to `end`."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
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
        """Who comes meanwhile waits in the listener's queue."""
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
                return False
            self._waiting.popleft()
            connection.close()  # The worker has its own.
        return bool(self.open)
