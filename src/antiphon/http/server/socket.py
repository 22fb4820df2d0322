"""One WebSocket: uvicorn's, under limits of size and time that uvicorn does not have."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from antiphon.errors import OverloadedError
from antiphon.http.context import Context
from antiphon.http.gate.large import BodyRoom

from .connection import ReaderWatch

LINGER = 1.0
"""Seconds in which a client may answer that the connection is closed."""
TOO_BIG, TRY_LATER = 1009, 1013
"""Codes with which a connection fails."""
OVERHEAD = 2
"""Bytes that a message may take on the wire, by its own: frames may be tiny."""


class Socket(WebSocketsSansIOProtocol):
    """Bounds a message, all large ones together, and the silence of a reader. Nothing is compressed.

    A server that stops does not cut it: the application ends what it says, and closes it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.config.app, Starlette)
        context: Context = self.config.app.state.context
        self._limits = context.limits
        self._room = BodyRoom(context.large)
        self._reader = ReaderWatch(self.loop, context)
        self.close_timeout = LINGER
        self.conn.max_message_size = context.limits.max_body

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.end()
        self._room.leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.handshake_initiated and not self.handshake_complete:
            self.transport.abort()  # RFC 6455, section 4.1: a client waits for the answer to its handshake.
            return
        try:
            self._room.take(len(data))
        except OverloadedError:
            self._fail(TRY_LATER, "too much at once")
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None:
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.transport.close()
        elif self._room.size > OVERHEAD * self._limits.max_body + self._limits.max_head:
            self._fail(TOO_BIG, "too many frames")

    def handle_ping(self) -> None:
        super().handle_ping()
        self._forget_whole()

    def handle_pong(self, event: Frame) -> None:
        super().handle_pong(event)
        self._forget_whole()

    def send_receive_event_to_app(self) -> None:
        super().send_receive_event_to_app()
        self._forget_whole()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.begin(self.transport)
        self.transport.pause_reading()  # Else what a client sends would make answers that it does not read.

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader.end()
        if not self.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def shutdown(self) -> None:
        if not self.handshake_complete:
            super().shutdown()

    def _forget_whole(self) -> None:
        """Frees the room of a message that is whole; of one in several frames all of it stays counted."""
        if not self.frames:
            self._room.leave()

    def _fail(self, code: int, reason: str) -> None:
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.close_sent = True
        self.transport.close()
