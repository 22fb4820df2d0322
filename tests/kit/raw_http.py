"""A request of an ASGI scope over a socket, and its answer as ASGI messages."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import httptools
from starlette.types import Message, Receive, Scope, Send

_OF_THE_SOCKET = (b"date", b"transfer-encoding", b"connection", b"keep-alive")
_AT_ONCE = 2**16


async def answer_over(port: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Sends the request to the server at the port of the loopback, and what it answers to ``send``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        body = await _body(receive)
        writer.write(_head(scope, body) + body)
        answering = asyncio.ensure_future(_answer(reader, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
        finally:
            for task in (answering, gone):
                task.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while (message := await receive())["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)
    return bytes(body)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _head(scope: Scope, body: bytes) -> bytes:
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    names = {name.lower() for name, _ in scope["headers"]}
    more = [(b"host", b"127.0.0.1")] if b"host" not in names else []
    if (body or scope["method"] == "POST") and b"content-length" not in names:
        more.append((b"content-length", b"%d" % len(body)))
    lines = [b"%s %s%s HTTP/1.1" % (scope["method"].encode(), scope["raw_path"], query)]
    lines += [b"%s: %s" % header for header in (*scope["headers"], *more, (b"connection", b"close"))]
    return b"\r\n".join([*lines, b"", b""])


class _Answer:
    """Collects the messages that are to be sent on."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.over = False
        self._headers: list[tuple[bytes, bytes]] = []
        self.parser: Any = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() not in _OF_THE_SOCKET:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        self.messages.append({"type": "http.response.start", "status": status, "headers": self._headers})

    def on_body(self, body: bytes) -> None:
        self.messages.append({"type": "http.response.body", "body": body, "more_body": True})

    def on_message_complete(self) -> None:
        self.messages.append({"type": "http.response.body", "body": b"", "more_body": False})
        self.over = True


async def _answer(reader: asyncio.StreamReader, send: Send) -> None:
    answer = _Answer()
    while not answer.over:
        data = await reader.read(_AT_ONCE)
        if not data:
            raise ConnectionError("the server broke off its answer")
        answer.parser.feed_data(data)
        while answer.messages:
            await send(answer.messages.pop(0))
