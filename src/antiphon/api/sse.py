"""Server-sent events: bytes built once, joined while the socket is busy, bounded while the reader is slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

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


class Outbox:
    """Between a stream's writer and its sender. What waits is sent as one; at ``limit`` bytes the writer waits."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self.closed = False
        self.error: AntiphonError | None = None

    async def put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._changed.set()
        if self._size >= self._limit:
            self._room.clear()
            await self._room.wait()

    def close(self, error: AntiphonError | None = None) -> None:
        self.closed = True
        self.error = error
        self._changed.set()

    async def take(self, patience: float) -> bytes | None:
        """All that waits; ``b""`` after ``patience`` seconds of silence; None when there will be no more."""
        if not self._chunks and not self.closed:
            self._changed.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._changed.wait()
            except TimeoutError:
                return b""
        if not self._chunks:
            return None
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._room.set()
        return taken


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
    outbox: Outbox, send: Send, *, keep_alive: float, error_event: Callable[[AntiphonError], bytes]
) -> None:
    """Sends what comes until the outbox closes. An error that comes before anything else is raised, not sent.

    The response starts with the first event, or after ``keep_alive`` seconds: whatever fails before is a real status.
    """
    first = await outbox.take(keep_alive)
    if first is None and outbox.error is not None:
        raise outbox.error
    await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
    taken = first
    while taken is not None:
        await send({"type": "http.response.body", "body": taken or KEEP_ALIVE, "more_body": True})
        taken = await outbox.take(keep_alive)
    last = b"" if outbox.error is None else error_event(outbox.error)
    await send({"type": "http.response.body", "body": last, "more_body": False})
