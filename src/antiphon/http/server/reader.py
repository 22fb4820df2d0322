"""A client that does not read what it is sent."""

from __future__ import annotations

import asyncio

from antiphon.http.context import Context


class ReaderWatch:
    """Cuts a connection whose client reads nothing for `Limits.send_timeout` seconds while much waits for it.

    A reader that is slow but reads is borne; it is `turn_timeout` that ends what takes too long.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._timeout = context.limits.send_timeout
        self._unsent = 0
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """The transport takes no more."""
        self._unsent = transport.get_write_buffer_size()
        self._deadline = self._loop.call_later(self._timeout, self._look, transport)

    def end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _look(self, transport: asyncio.Transport) -> None:
        if transport.get_write_buffer_size() < self._unsent:
            self.begin(transport)
        else:
            self._context.metrics.refused_connections.labels("send_timeout").inc()
            transport.abort()
