"""HTTP/1.1 as a client of engines needs it: connections that each carry one request after the other."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import SplitResult

import httptools
from aiohappyeyeballs import AddrInfoType, start_connection

CONNECT = 10.0
"""Seconds in which a connection is made or fails."""
_SECOND_ADDRESS = 0.25
"""Seconds after which the next address of a name is tried too (RFC 8305)."""
_BUFFER = 2**17
"""Bytes that wait for a reader; then no more are read from the socket until they are taken."""


class Connection(asyncio.Protocol):
    """A connection to a server, and the reply that it carries: its status, and an iterator over the bytes of its body.

    Errors of whoever waits: `ConnectionError` when the server hung up, or answered with what is not HTTP.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._paused = False
        self._lost: str | None = None
        self._has_length = False
        self._over = True
        self._rest: asyncio.TimerHandle | None = None
        self.status = 0
        """Status of the reply; 0: its head is not there yet."""
        self.reusable = False
        """The reply is there to its end, and the server takes another request."""
        self.is_whole = False
        """The body was read to its end; what may still come is how HTTP ends the reply."""
        self._ended: Callable[[Connection], None] | None = None

    # The reply

    async def send(self, request: bytes) -> None:
        """Sends a request and returns when the head of its reply is there."""
        self._over = self.reusable = self._has_length = self.is_whole = False
        self.status = 0
        if self._lost is None:
            self._transport.write(request)
        while not self.status:
            await self._more()

    def __aiter__(self) -> Connection:
        return self

    async def __anext__(self) -> bytes:
        """Gives the bytes of the body that have arrived since the last time."""
        while not self._parts:
            if self._over:
                raise StopAsyncIteration
            await self._more()
        if self._paused:
            self._resume()
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self._size = 0
        return data

    async def read(self) -> bytes:
        """The rest of the body."""
        return b"".join([part async for part in self])

    async def _more(self) -> None:
        """Returns when something has changed."""
        if self._lost is not None:
            raise ConnectionError(self._lost)
        self._waiter = self._loop.create_future()
        await self._waiter

    # Between replies

    @property
    def ends(self) -> bool:
        """Nobody reads the reply any more, and its end is to come."""
        return self.is_whole and not self._over and self._lost is None

    def await_end(self, seconds: float, ended: Callable[[Connection], None]) -> None:
        """Waits so long for the end of a reply that nobody reads any more. ``ended`` is called then, or without it."""
        self._ended = ended
        self._rest = self._loop.call_later(seconds, self.close)

    def rest(self, seconds: float) -> None:
        """Waits so long for the next request, and closes itself."""
        self._parts.clear()
        self._size = 0
        if self._paused:
            self._resume()
        self._rest = self._loop.call_later(seconds, self.close)

    def wake(self) -> bool:
        """Whether a connection that rested is still open."""
        if self._rest is not None:
            self._rest.cancel()
        return self._lost is None and not self._transport.is_closing()

    def close(self) -> None:
        """Hangs up, at once: that stops the work on a reply. Who still reads it gets `ConnectionError`."""
        self._lose("it was closed here")
        self._transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        found = transport.get_extra_info("socket")
        if found is not None and found.family != getattr(socket, "AF_UNIX", None):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lose(f"what it answers is not HTTP/1.1: {error}")
            self._transport.abort()
        if self._waiter is not None:
            self._wake_reader()

    def connection_lost(self, error: Exception | None) -> None:
        # Without a length, a body is as long as the connection (RFC 9112, section 6.3).
        if error is None and self._lost is None and self.status and not self._has_length:
            self._over = True
        self._lose(str(error or "the server hung up"))
        if self._rest is not None:
            self._rest.cancel()

    # What httptools reads

    def on_message_begin(self) -> None:
        if self._over:
            raise ValueError("an answer that nobody requested")

    def on_header(self, name: bytes, value: bytes) -> None:
        lower = name.lower()
        if lower == b"content-length" or (lower == b"transfer-encoding" and value.lower().endswith(b"chunked")):
            self._has_length = True

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # Those below say that the reply will come.
            self.status = status

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)
        self._size += len(body)
        if self._size > _BUFFER and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self.status:
            self._over = True
            self.reusable = self._parser.should_keep_alive()
            self._end()

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self.reusable = False
        self._wake_reader()
        self._end()

    def _end(self) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            if self._rest is not None:
                self._rest.cancel()
            ended(self)

    def _wake_reader(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _resume(self) -> None:
        self._paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()


Connect = Callable[[], Awaitable[Connection]]
"""Makes a connection. Raises `OSError` (`TimeoutError` after `CONNECT` seconds) when nobody answers there."""


def over_network(address: SplitResult) -> Connect:
    """Connections to the host of a URL."""
    host, secure = address.hostname or "", address.scheme == "https"
    port = address.port or (443 if secure else 80)
    context = ssl.create_default_context() if secure else None

    async def connect() -> Connection:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT):
            addresses = cast(list[AddrInfoType], await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            found = await start_connection(addresses, happy_eyeballs_delay=_SECOND_ADDRESS)
            try:
                _, connection = await loop.create_connection(
                    Connection, sock=found, ssl=context, server_hostname=host if secure else None
                )
            except BaseException:
                found.close()
                raise
        return connection

    return connect


def over_socket(path: str) -> Connect:
    """Connections to a Unix socket."""

    async def connect() -> Connection:
        async with asyncio.timeout(CONNECT):
            _, connection = await asyncio.get_running_loop().create_unix_connection(Connection, path)
        return connection

    return connect
