"""A proxy that passes bytes through, streams and WebSockets too, and records how each request was answered."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httptools

AT_ONCE = 2**16


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was answered; ``body`` is an error's, else it is empty."""

    method: str
    path: str
    status: int
    body: str = ""

    @property
    def is_error(self) -> bool:
        return self.status >= 400


class Requests:
    """A connection's requests as they pass; ``open`` are those without an answer, by method and path."""

    def __init__(self) -> None:
        self.open: deque[tuple[str, str]] = deque()
        self.websocket = False
        self._target = b""
        self._parser: Any = httptools.HttpRequestParser(self)

    def feed(self, data: bytes) -> None:
        if self.websocket:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # a wish, which may be refused
            self._parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        self._target = b""

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_headers_complete(self) -> None:
        path = self._target.decode("latin-1").partition("?")[0]
        self.open.append((self._parser.get_method().decode(), path))


class Answers:
    """The answers to a connection's requests as they pass; each goes to ``log``."""

    def __init__(self, requests: Requests, log: Callable[[Answer], None]) -> None:
        self._requests, self._log = requests, log
        self._status, self._body = 0, b""
        self._parser: Any = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        if self._requests.websocket:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._requests.websocket = True

    def on_headers_complete(self) -> None:
        self._status, self._body = self._parser.get_status_code(), b""
        if self._requests.open and self._requests.open[0][0] == "HEAD":  # no body comes, whatever its length
            self.on_message_complete()
            self._parser = httptools.HttpResponseParser(self)

    def on_body(self, part: bytes) -> None:
        if self._status >= 400:
            self._body += part

    def on_message_complete(self) -> None:
        final = self._status == 101 or self._status >= 200
        if final and self._requests.open:
            self._log(Answer(*self._requests.open.popleft(), self._status, self._body.decode(errors="replace")))


async def connected(
    url: str, answers: list[Answer], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection of a client, until either side closes it; a server that is gone closes it at once."""
    server, requests = urlsplit(url), Requests()
    try:
        upstream, downstream = await asyncio.open_connection(server.hostname, server.port)
    except OSError:
        writer.close()
    else:
        log = Answers(requests, answers.append)
        with suppress(asyncio.CancelledError):  # the proxy ends before its clients
            await asyncio.gather(passed(reader, downstream, requests.feed), passed(upstream, writer, log.feed))


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], None]) -> None:
    """All that comes from one side goes to the other, after it was ``seen``; the end, too."""
    try:
        with suppress(ConnectionError):
            while data := await reader.read(AT_ONCE):
                seen(data)
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


@contextmanager
def logging_proxy(url: str) -> Iterator[tuple[str, list[Answer]]]:
    """A proxy on the loopback: its URL, and the answers that have passed through it."""
    listening = socket.create_server(("127.0.0.1", 0))
    answers: list[Answer] = []
    stopped: Future[None] = Future()

    async def serve() -> None:
        async with await asyncio.start_server(partial(connected, url, answers), sock=listening):
            await asyncio.wrap_future(stopped)

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", answers
    finally:
        stopped.set_result(None)
        thread.join()
