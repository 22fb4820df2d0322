"""Where the browser comes back to after its user has signed in: an address of this machine, as long as it takes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

PATH = "/callback"
LARGEST_REQUEST = 1 << 16
REQUEST_SECONDS = 10.0
_PAGE = "<!doctype html><meta charset=utf-8><title>Antiphon</title><p>{}</p>"


class Callback:
    """The address, and the parameters that the browser brings with the ``state`` that belongs to this sign-in."""

    def __init__(self) -> None:
        self.port = 0
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{PATH}"

    def expect(self, authorization_url: str) -> None:
        """From now on a request with the state of this address is the answer; any other page's is not."""
        self._state = _parameters(authorization_url).get("state", "")

    async def answer(self) -> dict[str, str]:
        """``code`` and ``state``, or ``error``; what else there is of RFC 6749 §4.1.2 and RFC 9207."""
        return await self._answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(REQUEST_SECONDS):
                writer.write(self._response(await reader.readuntil(b"\r\n\r\n")))
                await writer.drain()
        writer.close()

    def _response(self, head: bytes) -> bytes:
        method, _, rest = head.decode("latin-1").partition(" ")
        target = rest.split(" ", 1)[0]
        values = _parameters(target)
        answers = method == "GET" and urlsplit(target).path == PATH and bool(self._state)
        if not answers or values.get("state") != self._state:
            return _page("404 Not Found", "There is nothing here.")
        if not self._answer.done():
            self._answer.set_result(values)
        return _page("200 OK", "That is all. You can close this page and go back to the terminal.")


@asynccontextmanager
async def listening(port: int, other: Callable[[], None]) -> AsyncIterator[Callback]:
    """A callback at ``port`` of the loopback interface; if that is taken, at a free one after ``other`` was called."""
    callback = Callback()
    try:
        server = await asyncio.start_server(callback.serve, "127.0.0.1", port, limit=LARGEST_REQUEST)
    except OSError:
        other()
        server = await asyncio.start_server(callback.serve, "127.0.0.1", 0, limit=LARGEST_REQUEST)
    try:
        callback.port = server.sockets[0].getsockname()[1]
        yield callback
    finally:
        server.close()


def _parameters(url: str) -> dict[str, str]:
    """The first value of each."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query, max_num_fields=64).items()}


def _page(status: str, words: str) -> bytes:
    body = _PAGE.format(words).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + body
