"""Server-sent events: bytes built once, joined while the socket is busy, bounded while the reader is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Send

from antiphon.errors import AntiphonError

from .lifecycle import Work

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


def event(json: bytes) -> bytes:
    """One event without a name; ``json`` is one line."""
    return b"data: " + json + b"\n\n"


@dataclass(frozen=True, slots=True)
class StreamForm:
    """How a stream is written: its headers, what it says to stay alive, and how it tells an error."""

    headers: Sequence[tuple[bytes, bytes]]
    keep_alive: bytes
    error: Callable[[AntiphonError], bytes]


class Outbox:
    """Between a stream's writer and its sender. What waits is sent as one; at ``limit`` bytes the writer waits.

    After ``patience`` seconds in which nothing was written, ``keep_alive`` is.
    """

    def __init__(self, limit: int, patience: float, keep_alive: bytes = KEEP_ALIVE) -> None:
        self._limit = limit
        self._patience = patience
        self._sign_of_life = keep_alive
        self._chunks: list[bytes] = []
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._sender: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._written = self._loop.time()
        # One timer a stream, set anew only when it fires: an event must not cost a timer.
        self._timer = self._loop.call_later(patience, self._keep_alive)
        self.closed = False
        self.error: AntiphonError | None = None

    async def put(self, chunk: bytes) -> None:
        self._write(chunk)
        if self._size >= self._limit:
            self._writer = self._loop.create_future()
            await self._writer

    def close(self, error: AntiphonError | None = None) -> None:
        """There is nothing more to write."""
        self._timer.cancel()
        self.closed = True
        self.error = error
        _wake(self._sender)

    async def take(self) -> bytes | None:
        """All that waits, as soon as something does; None when there will be no more."""
        if not self._chunks and not self.closed:
            self._sender = self._loop.create_future()
            await self._sender
        if not self._chunks:
            return None
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        _wake(self._writer)
        return taken

    def _write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._written = self._loop.time()
        _wake(self._sender)

    def _keep_alive(self) -> None:
        if not self._chunks and self._loop.time() - self._written >= self._patience:
            self._write(self._sign_of_life)
        again = self._patience - (self._loop.time() - self._written)
        self._timer = self._loop.call_later(max(again, self._patience / 8), self._keep_alive)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


async def fill(
    outbox: Outbox, chunks: AsyncGenerator[bytes, None], work: Work, unforeseen: Callable[[Exception], AntiphonError]
) -> None:
    """Writes a stream into the outbox and closes it; an error is the outbox's to tell."""
    try:
        await work.run(_pour(outbox, chunks))
    except AntiphonError as error:
        outbox.close(error)
    except Exception as error:  # noqa: BLE001 - the client waits: every error must reach it
        outbox.close(unforeseen(error))
    else:
        outbox.close()


async def _pour(outbox: Outbox, chunks: AsyncGenerator[bytes, None]) -> None:
    async with aclosing(chunks):
        async for chunk in chunks:
            await outbox.put(chunk)


async def send_events(
    outbox: Outbox,
    send: Send,
    *,
    error_event: Callable[[AntiphonError], bytes],
    headers: Sequence[tuple[bytes, bytes]] = HEADERS,
) -> None:
    """Sends what comes until the outbox closes. An error that comes before anything else is raised, not sent.

    The response starts with the first event or keep-alive: whatever fails before is a real status.
    """
    taken = await outbox.take()
    if taken is None and outbox.error is not None:
        raise outbox.error
    await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
    while taken is not None:
        await send({"type": "http.response.body", "body": taken, "more_body": True})
        taken = await outbox.take()
    last = b"" if outbox.error is None else error_event(outbox.error)
    await send({"type": "http.response.body", "body": last, "more_body": False})
