"""Server-sent events: bytes built once, joined while the socket is busy, bounded while the reader is slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from math import ceil
from typing import Any

from starlette.types import Send

from antiphon.errors import AntiphonError
from antiphon.wire.writer import KEEP_ALIVE, StreamForm

from .lifecycle import Work

LONGEST_GATHER = 0.1
"""Seconds between two writes of one stream where the server is too busy for less."""
TOGETHER = 4
"""Writes fall on multiples of this part of the gather, so that streams share a turn of the event loop."""


def headers_of(media_type: str) -> list[tuple[bytes, bytes]]:
    """Headers of a stream that no proxy is to cache or buffer."""
    return [
        (b"content-type", media_type.encode()),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
    ]


class Outbox:
    """Between a stream's writer and its sender. What waits is sent as one; at ``limit`` bytes the writer waits.

    Two takes are at least ``gather`` seconds apart, unless it is full or over: a write to a socket costs more than all
    that is done for a token, and nobody reads as fast. After ``patience`` seconds of silence ``keep_alive`` is written.
    """

    def __init__(
        self,
        limit: int,
        patience: float,
        keep_alive: bytes | Callable[[], bytes] = KEEP_ALIVE,
        *,
        gather: float,
    ) -> None:
        self._limit = limit
        self._patience = patience
        self._sign_of_life = keep_alive
        self._gather = gather
        self._pause = gather
        self._chunks: list[bytes] = []
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._reader: asyncio.Future[None] | None = None
        self._gathering: asyncio.TimerHandle | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._due = self._taken = self._loop.time()
        # One timer a stream, set anew only when it fires: an event must not cost a timer.
        self._timer = self._loop.call_later(patience, self._keep_alive)
        self.closed: bool = False
        self.error: AntiphonError | None = None

    @property
    def full(self) -> bool:
        """Whether the next event must wait for `room`."""
        return self._size >= self._limit

    def write(self, chunk: bytes) -> asyncio.Future[None] | None:
        """Adds a chunk. What it returns is to be awaited before the next: there is no room until then."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        full = self._size >= self._limit
        if self._reader is not None and (full or self._gathering is None):
            self._rouse(self._reader)
        return self._when_taken() if full else None

    async def room(self) -> None:
        """Returns when there is room for more."""
        if self.full:
            await self._when_taken()

    def _rouse(self, reader: asyncio.Future[None]) -> None:
        """Wakes who takes, as soon as it is time."""
        if self.full or self._loop.time() >= self._due:
            _wake(reader)
        elif self._gathering is None:
            self._gathering = self._loop.call_at(self._due, _wake, reader)

    def _when_taken(self) -> asyncio.Future[None]:
        writer = self._loop.create_future()
        self._writers.append(writer)
        return writer

    def close(self, error: AntiphonError | None = None) -> None:
        """There is nothing more to write."""
        self._timer.cancel()
        self.closed = True
        self.error = error
        _wake(self._reader)

    async def take(self) -> bytes | None:
        """All that waits, as soon as something does and the last take is long enough ago; None: no more will come."""
        if not self.closed and not (self._chunks and (self.full or self._loop.time() >= self._due)):
            await self._time_to_take()
        if not self._chunks:
            return None
        taken = b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        self._taken = self._loop.time()
        tick = self._pause / TOGETHER
        self._due = ceil((self._taken + self._pause) / tick) * tick if tick else self._taken
        for writer in self._writers:
            _wake(writer)
        self._writers.clear()
        return taken

    async def _time_to_take(self) -> None:
        self._reader = self._loop.create_future()
        if self._chunks:
            self._rouse(self._reader)
        await self._reader
        self._reader = None
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
            # A loop that comes late has too much to do: fewer, longer writes leave it more time for the tokens.
            late = self._loop.time() - self._due
            self._pause = max(self._gather, min(4 * late, LONGEST_GATHER))

    def _keep_alive(self) -> None:
        now = self._loop.time()
        if not self._chunks and now - self._taken >= self._patience:
            sign = self._sign_of_life
            self.write(sign() if callable(sign) else sign)
            self._taken = now
        again = self._patience - (now - self._taken)
        self._timer = self._loop.call_later(max(again, self._patience / 8), self._keep_alive)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


Fill = Callable[[Outbox], Coroutine[Any, Any, None]]
"""Writes a stream into its outbox."""


async def fill(
    outbox: Outbox,
    write: Fill,
    end: Callable[[], bytes],
    work: Work,
    unforeseen: Callable[[Exception], AntiphonError],
) -> None:
    """Runs ``write``, which fills the outbox, adds the stream's end, and closes it; the outbox reports errors."""
    try:
        await work.run(write(outbox))
        outbox.write(end())
    except AntiphonError as error:
        outbox.close(error)
    except Exception as error:  # noqa: BLE001 - the client waits: every error must reach it
        outbox.close(unforeseen(error))
    else:
        outbox.close()


async def send_events(outbox: Outbox, send: Send, form: StreamForm) -> None:
    """Sends what comes until the outbox closes. An error that comes before anything else is raised, not sent.

    The response starts with the first event or keep-alive: whatever fails before is a real status.
    """
    taken = await outbox.take()
    if taken is None and outbox.error is not None:
        raise outbox.error
    await send({"type": "http.response.start", "status": 200, "headers": headers_of(form.media_type)})
    while taken is not None and not outbox.closed:
        await send({"type": "http.response.body", "body": taken, "more_body": True})
        taken = await outbox.take()
    # The stream's own end goes with that of the answer: for many clients the answer is over when they have read it.
    last = (taken or b"") + (b"" if outbox.error is None else form.error(outbox.error))
    await send({"type": "http.response.body", "body": last, "more_body": False})
