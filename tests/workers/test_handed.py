"""Connections that another process hands on: it hears how many came and how many are open, at each change."""

from __future__ import annotations

import asyncio
import socket

from antiphon.http.server.handed import PLAIN, Handed
from kit.waiting import until


class Connected(asyncio.Protocol):
    """Stands for a request's connection, which a server enters among the open ones and takes out again."""

    def __init__(self, handed: Handed) -> None:
        self._handed = handed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handed.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handed.open.discard(self)


async def test_a_connection_that_ends_is_told_without_another_that_comes() -> None:
    """Else the worker would count as busy, and get fewer than its share, until the next connection is handed to it."""
    told = list[tuple[int, int]]()
    conduit, supervisor = socket.socketpair()
    with conduit, supervisor:
        handed = Handed(conduit, lambda came, count: told.append((came, count)))
        handed.begin(asyncio.get_running_loop(), lambda: Connected(handed), None)
        assert told == [(0, 0)]
        ours, client = socket.socketpair()
        with ours:
            socket.send_fds(supervisor, [PLAIN], [ours.fileno()])
        await until(lambda: told[-1] == (1, 1))
        client.close()
        await until(lambda: not handed.open)
        await asyncio.sleep(0)
        assert told[-1] == (1, 0)
        handed.end()


async def test_many_changes_at_once_are_told_once() -> None:
    told = list[tuple[int, int]]()
    conduit, supervisor = socket.socketpair()
    with conduit, supervisor:
        handed = Handed(conduit, lambda came, count: told.append((came, count)))
        for connection in range(10):
            handed.open.add(connection)
        handed.open.discard(3)
        assert told == []
        await asyncio.sleep(0)
        assert told == [(0, 9)]
        handed.open.discard(4)
        await asyncio.sleep(0)
        assert told == [(0, 9), (0, 8)]
