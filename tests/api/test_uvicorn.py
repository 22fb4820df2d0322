"""What we override of uvicorn, private methods among it, is really called by the uvicorn that is installed.

A release that renames one would switch limits off in silence; the bound in pyproject.toml is to be raised with this.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from antiphon.api import Limits
from antiphon.http.server.connection import Connection
from antiphon.http.server.server import Server
from antiphon.http.server.socket import Socket
from kit.api import app, ids, scripted, wire_bytes
from kit.frames import create, event, opened
from kit.waiting import until

SUBCLASSES = {Connection: HttpToolsProtocol, Server: uvicorn.Server, Socket: WebSocketsSansIOProtocol}


def overridden() -> dict[CodeType, str]:
    """This package's functions that override one of uvicorn's (or of asyncio's protocol)."""
    return {
        function.__code__: f"{own.__name__}.{name}"
        for own, base in SUBCLASSES.items()
        for name, function in vars(own).items()
        if hasattr(function, "__code__") and hasattr(base, name)
    }


@contextmanager
def calling() -> Iterator[set[str]]:
    """The names of our overriding functions that were called; none of them is called by this package."""
    codes, called = overridden(), set[str]()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in codes:
            called.add(codes[frame.f_code])

    sys.setprofile(see)
    try:
        yield called
    finally:
        sys.setprofile(None)


def test_there_is_something_to_look_at() -> None:
    names = set(overridden().values())
    assert {"Connection._start_asgi_task", "Connection.data_received", "Server.handle_exit"} <= names


@pytest.mark.one_process("has a server of its own")
async def test_each_hook_is_called_by_uvicorn() -> None:
    with calling() as called:
        application = app(scripted(ids("x" * 200_000), context=400_000), limits=Limits(stream_buffer=16 * 1024))
        await served_to_a_reader_who_stops_and_goes_on(application, called)
    assert set(overridden().values()) - called == set()


async def served_to_a_reader_who_stops_and_goes_on(application: Starlette, called: set[str]) -> None:
    ready = asyncio.Event()
    server = Server(application, on_ready=lambda url: ready.set())
    task = asyncio.create_task(server.serve())
    await ready.wait()
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    await reader.readuntil(b"}")
    fields = {"messages": [{"role": "user", "content": "Go"}], "stream": True, "logprobs": True}
    writer.write(wire_bytes("/v1/chat/completions", fields))
    await until(lambda: "Connection.pause_writing" in called)
    while "Connection.resume_writing" not in called:
        await reader.read(2**16)
    writer.transport.abort()
    await until(lambda: "Connection.connection_lost" in called)
    await over_a_socket(port, called)
    async with opened(port) as socket:
        await create(socket, input="Go")
        await event(socket)
        os.kill(os.getpid(), signal.SIGTERM)
        await until(lambda: "Socket.shutdown" in called)
        socket.transport.abort()
        await task


async def over_a_socket(port: int, called: set[str]) -> None:
    """A frame, a ping, a pong, and a response whose reader stops and goes on."""
    async with opened(port, max_queue=1) as socket:
        await (await socket.ping())
        await socket.pong()
        await create(socket, input="Go", include=["message.output_text.logprobs"])
        await until(lambda: "Socket.pause_writing" in called)
        while "Socket.resume_writing" not in called:
            await socket.recv()
        socket.transport.abort()
    await until(lambda: {"Socket.connection_lost", "Socket.handle_pong"} <= called)
