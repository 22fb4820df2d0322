"""One connection: uvicorn's, under limits of size and time that uvicorn does not have."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from starlette.applications import Starlette
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from antiphon.errors import AntiphonError, OverloadedError, RequestError
from antiphon.http.context import Context
from antiphon.http.errors import error_response
from antiphon.http.origins import host_name

# A client that does not read what it is sent.


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


LINGER = 1.0
"""Seconds in which a client that was refused may read why: what it still sends would reset the connection."""
PIPELINE = 16
"""Requests that may wait behind the one that is being answered."""


class Connection(HttpToolsProtocol):
    """Bounds the head of a request in size and time, the silence of a reader, and the number of connections.

    What cannot be read is answered after the requests before it, and ends the connection: nothing behind it is read.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        assert isinstance(self.config.app, Starlette)
        context: Context = self.config.app.state.context
        self._context = context
        self._limits = context.limits
        self.timeout_keep_alive = self._limits.idle_timeout  # type: ignore[assignment]  # a timer takes fractions
        self._running: RequestResponseCycle | None = None
        self._refusal: AntiphonError | None = None
        self._head = 0
        """Bytes of the head that is being read, about; 0: none is."""
        self._fields = 0
        self._in_body = False
        self._is_socket = False
        self._deadline: asyncio.TimerHandle | None = None
        self._reader = ReaderWatch(self.loop, context)

    @property
    def _idle(self) -> bool:
        return self._running is None or self._running.response_complete

    # Called by the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._refuse(
                OverloadedError("This server has all the connections that it takes.", code="too_many_connections")
            )
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        self._reader.end()
        if self._running is not None and not self._running.response_complete:
            # uvicorn signals only the last request, which may be one that waits behind this.
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        begun, scope = self._head, self.scope
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            own = error.__context__
            self._refuse(
                own if isinstance(own, AntiphonError) else _malformed("This is not HTTP/1.1 as RFC 9112 has it.")
            )
            return
        if self._is_socket:
            return
        if begun and self._head and self.scope is scope:  # All of it belongs to that one head.
            self._head += len(data)
            if self._head > self._limits.max_head:
                self._refuse(_head_too_large(self._limits.max_head, self._limits.max_headers))
                return
        if not self._in_body and (self._head or self._idle):
            self._await_head()

    def _feed(self, data: bytes) -> None:
        """httptools stops where a client offers another protocol.

        A WebSocket is begun where a route has one; else the request is read anew without the offer.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            if len(data) == stop.args[0] and self._may_be_socket():
                self._forget_deadline()
                self._is_socket = True
                self.handle_websocket_upgrade()
                return
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self._feed(self._without_offer() + data[stop.args[0] :])

    def _may_be_socket(self) -> bool:
        """Whether the request opens a WebSocket, at a route for one, with nothing before it and no body."""
        names = [name for name, _ in self.headers]
        if not self._idle or self.scope["method"] != "GET" or self._get_upgrade() != b"websocket":
            return False
        if self.scope["http_version"] == "1.0":
            return False
        if b"content-length" in names or b"transfer-encoding" in names:
            return False
        assert isinstance(self.config.app, Starlette)
        path = self.config.app.state.paths.spelled(httptools.parse_url(self.url).path.decode("latin-1"))
        scope = {"type": "websocket", "path": path, "root_path": ""}
        return any(route.matches(scope)[0] is Match.FULL for route in self.config.app.routes)

    def _without_offer(self) -> bytes:
        version = self.scope["http_version"].encode()
        lines = [self.scope["method"].encode() + b" " + self.url + b" HTTP/" + version]
        for name, value in self.headers:
            if name == b"connection":
                value = b",".join(word for word in value.split(b",") if word.strip().lower() != b"upgrade")
            if name != b"upgrade":
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    # What httptools reads

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._fields = 1, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self._limits.max_url:
            raise RequestError(f"The URL is longer than {self._limits.max_url} bytes.", code="uri_too_long")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # A trailer is no header: whoever looked at the head did not see it.
        super().on_header(name, value)
        self._fields += len(name) + len(value) + 4
        limits = self._limits
        if self._fields > limits.max_head or len(self.headers) > limits.max_headers:
            raise _head_too_large(limits.max_head, limits.max_headers)

    def on_headers_complete(self) -> None:
        version, method = self.parser.get_http_version(), self.parser.get_method()
        _check_framing(version, self.headers)
        if method == b"CONNECT":
            raise _malformed("This is no proxy.")
        if len(self.pipeline) >= PIPELINE:
            raise _malformed(f"More than {PIPELINE} requests came at once on one connection.")
        if self.parser.should_upgrade():
            self.scope["method"], self.scope["http_version"] = method.decode("ascii"), version
            return
        super().on_headers_complete()
        self._forget_deadline()
        self._head, self._in_body = 0, True

    def on_message_complete(self) -> None:
        if self._in_body:
            self._in_body = False
            self._forget_deadline()
            super().on_message_complete()

    # Called by the application's cycle

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        if cycle.scope["http_version"] == "1.0":
            app = Unchunked(app, cycle)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing() or not self._idle:
            return
        if self._refusal is not None:
            self._send_error(self._refusal)
        elif self._in_body:
            self._await_head()  # The rest of a body that nobody reads gets as long.

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader.begin(self.transport)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reader.end()

    # Limits of time

    def _await_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.head_timeout, self._late)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None

    def _late(self) -> None:
        if self._head:
            self._refuse(OverloadedError("The head of the request did not come in time.", code="head_timeout"))
        else:
            self.transport.close()

    # Refusing

    def _refuse(self, error: AntiphonError) -> None:
        """Answers with ``error`` when what came before is answered. Nothing more is read."""
        self._refusal = error
        self._forget_deadline()
        if self._in_body:
            self._break_off(error)
        elif self._idle:
            self._send_error(error)

    def _break_off(self, error: AntiphonError) -> None:
        """The body of the last request is malformed: its application, if it runs, gets no more of it."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()
            return
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if self.cycle.response_started:
            self.transport.close()
        else:
            self._send_error(error)

    def _send_error(self, error: AntiphonError) -> None:
        self._context.metrics.refused_connections.labels(error.code).inc()
        answer = error_response(error, self._context.errors)
        headers = [field for field in answer.raw_headers if field[0] != b"connection"]
        lines = [name + b": " + value for name, value in (*self.server_state.default_headers, *headers)]
        head = STATUS_LINE[answer.status_code] + b"\r\n".join([*lines, b"connection: close", b"", b""])
        self.transport.write(head + bytes(answer.body))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER, self.transport.close)


class Unchunked:
    """An application that answers HTTP/1.0: without chunks, and without a length until the connection's end."""

    def __init__(self, app: ASGIApp, cycle: RequestResponseCycle) -> None:
        self._app = app
        self._cycle = cycle
        cycle.waiting_for_100_continue = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cycle, measured = self._cycle, False

        async def send_unchunked(message: Message) -> None:
            nonlocal measured
            if message["type"] == "http.response.start":
                measured = any(name.lower() == b"content-length" for name, _ in message.get("headers", ()))
                cycle.chunked_encoding = None if measured else False
            elif not measured:
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, send_unchunked)


def _check_framing(version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Refuses what llhttp lets pass and a proxy before us may read in another way. Raises `RequestError`."""
    if version not in ("1.0", "1.1"):
        raise RequestError("Only HTTP/1.0 and HTTP/1.1 are served here.", code="http_version_not_supported")
    names = [name for name, _ in headers]
    if names.count(b"host") != 1 and (version == "1.1" or b"host" in names):
        raise _malformed("A request has one Host header.")
    if any(name == b"host" and host_name(value.decode("latin-1")) is None for name, value in headers):
        raise _malformed("The Host header names no host.")
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and (codings != [b"chunked"] or version == "1.0"):
        raise _malformed("The one transfer coding that is read is chunked.")


def _malformed(message: str) -> RequestError:
    return RequestError(message, code="malformed_http")


def _head_too_large(size: int, count: int) -> RequestError:
    return RequestError(f"The head may have {size} bytes and {count} headers.", code="head_too_large")
