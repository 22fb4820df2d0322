"""The one answer that the supervisor gives itself: a 503, while all workers end young and are begun anew."""

from __future__ import annotations

import asyncio
import math
from typing import cast

import msgspec

from antiphon.http.error_shapes import ApiError, openai_error

_LARGEST_HEAD = 1 << 16
_READ_SECONDS = 10.0
_LINGER_SECONDS = 5.0
"""What follows the head is read and dropped for so long: a client that still writes would else see a reset."""
_WORDS = "The processes that answer ended as they began, and are begun anew; the server's log says why."


def refusal(retry_after: float) -> bytes:
    """The whole answer, for a client that may come again in so many seconds."""
    error = ApiError(status=503, type="engine_overloaded", code="overloaded", message=_WORDS)
    body = msgspec.json.encode(openai_error(error))
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"retry-after: {max(1, math.ceil(retry_after))}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Refused(asyncio.Protocol):
    """A connection of which the first request is answered with ``answer``, once its head is there; then it ends."""

    def __init__(self, answer: bytes, over: asyncio.Future[None]) -> None:
        self._answer = answer
        self._over = over
        self._head = b""
        self._answered = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one, but by name
        asyncio.get_running_loop().call_later(_READ_SECONDS, self._transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._answered or self._transport is None:
            return
        self._head += data
        if b"\r\n\r\n" not in self._head[: _LARGEST_HEAD + 4]:
            if len(self._head) > _LARGEST_HEAD:
                self._transport.abort()
            return
        self._answered, self._head = True, b""
        self._transport.write(self._answer)
        if self._transport.can_write_eof():
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.close)
        else:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._over.done():
            self._over.set_result(None)
