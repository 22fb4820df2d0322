"""Server-sent events: bytes built once, joined while the socket is busy, bounded while the reader is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from starlette.types import Send

from antiphon.errors import AntiphonError

from .lifecycle import Work

KEEP_ALIVE = b": keep-alive\n\n"
GATHER, LONGEST_GATHER = 0.01, 0.1
"""Seconds between two writes of one stream, and where the server is too busy for that."""
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


@dataclass(frozen=True, slots=True)
class StreamForm:
    """How a stream is written: its headers, what it says to stay alive, and how it tells an error."""

    headers: Sequence[tuple[bytes, bytes]]
    keep_alive: bytes
    error: Callable[[AntiphonError], bytes]


class Outbox:
    """Between a stream's writer and its sender. What waits is sent as one; at ``limit`` bytes the writer waits.

    Two takes are ``gather`` seconds apart, unless it is full or over: a write to a socket costs more than all that is
    done for a token, and nobody reads as fast. After ``patience`` seconds of silence ``keep_alive`` is written.
    """

    def __init__(self, limit: int, patience: float, keep_alive: bytes = KEEP_ALIVE, *, gather: float = GATHER) -> None:
        self._limit = limit
        self._patience = patience
        self._sign_of_life = keep_alive
        self._gather = gather
        self._pause = gather
        self._chunks: list[bytes] = []
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._gatherer: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._written = self._loop.time()
        self._due = self._written
        # One timer a stream, set anew only when it fires: an event must not cost a timer.
        self._timer = self._loop.call_later(patience, self._keep_alive)
        self.closed = False
        self.error: AntiphonError | None = None

    @property
    def full(self) -> bool:
        """What comes next must wait for `room`."""
        return self._size >= self._limit

    def write(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._written = self._loop.time()
        _wake(self._reader)

    async def room(self) -> None:
        """Returns when there is room for more."""
        if self.full:
            _wake(self._gatherer)
            self._writer = self._loop.create_future()
            await self._writer

    def close(self, error: AntiphonError | None = None) -> None:
        """There is nothing more to write."""
        self._timer.cancel()
        self.closed = True
        self.error = error
        _wake(self._reader)
        _wake(self._gatherer)

    async def take(self) -> bytes | None:
        """All that waits, as soon as something does and the last take is long enough ago; None: no more will come."""
        if not self._chunks and not self.closed:
            self._reader = self._loop.create_future()
            await self._reader
        if self._loop.time() < self._due and not self.full and not self.closed:
            self._gatherer = self._loop.create_future()
            timer = self._loop.call_at(self._due, _wake, self._gatherer)
            await self._gatherer
            timer.cancel()
            # A loop that comes late has too much to do: fewer, longer writes leave it more time for the tokens.
            late = self._loop.time() - self._due
            self._pause = max(self._gather, min(4 * late, LONGEST_GATHER))
        if not self._chunks:
            return None
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._due = self._loop.time() + self._pause
        _wake(self._writer)
        return taken

    def _keep_alive(self) -> None:
        if not self._chunks and self._loop.time() - self._written >= self._patience:
            self.write(self._sign_of_life)
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
            outbox.write(chunk)
            if outbox.full:
                await outbox.room()


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
