"""/v1/responses as a WebSocket: each frame is a POST to the same address, whose events come back as frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from starlette.types import Message, Receive, Scope, Send

from antiphon.errors import AntiphonError, OverloadedError, RequestError
from antiphon.http.context import Context
from antiphon.http.errors import INTERNAL, OPENAI_ERRORS, api_error, error_response
from antiphon.http.exchange import FAULTS, KEY, SESSION_HEADERS, SHAPE, Exchange
from antiphon.wire.errors import refused
from antiphon.wire.json import encode, fields_of
from antiphon.wire.writer import EVENT_STREAM

from .archive import SOCKET, Memory, SocketTurn

# The Responses API over a WebSocket: each text frame is a JSON object, an event of the client's or of the server's.

CREATE = "response.create"
LONGEST_ID = 128
"""Characters of a ``stream_id``."""
Value = TypeVar("Value")


class CreateEvent(msgspec.Struct, frozen=True):
    """A ``response.create``. ``body`` is what POST /v1/responses takes; the response is streamed.

    ``stream_id`` names the queue that its response is made in, and stands in each of its events. ``generate`` false:
    the prompt is read, and nothing is answered.
    """

    body: bytes
    stream_id: str | None = None
    generate: bool = True


def read_event(frame: bytes) -> CreateEvent:
    """The event of one frame. Raises `RequestError` naming the field."""
    fields = fields_of(frame)
    kind = _value(fields, "type", str)
    if kind is None:
        raise refused("type", "an event needs it.", code="missing_required_parameter", hint=f"Known: {CREATE}.")
    if kind != CREATE:
        raise refused("type", f"{kind[:64]!r} is no event that can be sent here.", hint=f"Known: {CREATE}.")
    stream_id = _value(fields, "stream_id", str)
    if stream_id is not None and not 0 < len(stream_id) <= LONGEST_ID:
        raise refused("stream_id", f"has 1 to {LONGEST_ID} characters.")
    if _value(fields, "background", bool):
        raise refused("background", "a response over a WebSocket is made while its client waits.")
    generate = _value(fields, "generate", bool)
    rest = {name: value for name, value in fields.items() if name not in ("type", "stream_id", "generate")}
    return CreateEvent(encode({**rest, "stream": True}), stream_id, generate is not False)


def _value(fields: Mapping[str, msgspec.Raw], name: str, kind: type[Value]) -> Value | None:
    """The field's value, of that type; None where it is null or not there."""
    value: Any = msgspec.json.decode(fields[name]) if name in fields else None
    if value is not None and not isinstance(value, kind):
        raise refused(name, f"must be of the type {kind.__name__}.", code="invalid_type")
    return value


def event_frame(data: bytes, stream_id: str | None) -> bytes:
    """The frame of one server-sent event's ``data``; an error has its fields under ``error`` too."""
    more: dict[str, Any] = {} if stream_id is None else {"stream_id": stream_id}
    if data.startswith(b'{"type":"error"'):
        event = json.loads(data)
        more["error"] = {"type": "server_error", **{name: event[name] for name in ("code", "message", "param")}}
    return data if not more else data[:-1] + b"," + encode(more)[1:]


def error_frame(status: int, error: Mapping[str, Any], stream_id: str | None, retry: Mapping[str, str]) -> bytes:
    """A request that was not taken: its status and its error, with what says when to try again, by its name."""
    described = {**error, "headers": retry} if retry else error
    frame = {"type": "error", "status": status, "error": described}
    return encode(frame if stream_id is None else {**frame, "stream_id": stream_id})


MOST_STREAMS = 8
"""Queues that one connection has at once, by their ``stream_id``."""
MOST_WAITING = 16
"""Events that wait for their turn in one queue."""
CARRIED = frozenset(
    {b"authorization", b"x-api-key", b"traceparent", b"host", b"user-agent"} | {h.encode() for h in SESSION_HEADERS}
)
"""Headers of the handshake that each of its requests has."""
NORMAL, RESTARTS = 1000, 1012
"""Codes with which a connection is closed."""
LAST = tuple(b'{"type":"response.%b"' % end for end in (b"completed", b"incomplete", b"failed"))
"""How the last event of a response begins."""
SendFrame = Callable[[bytes], Awaitable[None]]


class ResponsesSocket:
    """GET /v1/responses with an upgrade. Whoever gets here has a key that may use models."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if await accepted(self._context, scope, receive, send):
            await SocketSession(self._context, scope, receive, send).run()


async def accepted(context: Context, scope: Scope, receive: Receive, send: Send) -> bool:
    """Accepts a connection; False where the server is stopping, which is the answer then."""
    exchange: Exchange = scope[KEY]
    try:
        context.lifecycle.check()
    except OverloadedError as error:
        await exchange.refusal(error)(scope, receive, send)
        return False
    await receive()  # That a client connects, which this scope says too.
    await send({"type": "websocket.accept", "headers": []})
    return True


@dataclass(slots=True)
class Lane:
    """The responses under one ``stream_id``, made one after the other."""

    memory: Memory
    waiting: list[CreateEvent] = field(default_factory=list)
    task: asyncio.Task[None] | None = None
    over: bool = True
    """The client has the end of the last response, whose own end may take a moment more."""


class SocketSession:
    """One connection, from its first frame to its end."""

    def __init__(self, context: Context, scope: Scope, receive: Receive, send: Send) -> None:
        self._context = context
        self._scope = scope
        self._receive = receive
        self._send = send
        self._lanes: dict[str | None, Lane] = {}
        self._gone = asyncio.Event()
        self._closing: AntiphonError | None = None

    async def run(self) -> None:
        """Answers frames until the client hangs up, the server stops, or the connection is too old."""
        lifecycle, lifetime = self._context.lifecycle, self._context.limits.socket_lifetime
        reading = asyncio.ensure_future(self._read())
        draining = asyncio.ensure_future(lifecycle.drained.wait())
        try:
            await asyncio.wait((reading, draining), timeout=lifetime, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._end(reading)
        finally:
            self._gone.set()
            reading.cancel()
            draining.cancel()
            running = [lane.task for lane in self._lanes.values() if lane.task is not None]
            await asyncio.gather(reading, draining, *running, return_exceptions=True)

    async def _end(self, reading: asyncio.Future[None]) -> None:
        """Takes nothing new, lets what runs end, and closes the connection."""
        drains = self._context.lifecycle.draining
        self._closing = OverloadedError("The server is stopping.", code="draining") if drains else _too_old(
            self._context.limits.socket_lifetime
        )  # fmt: skip
        running = asyncio.gather(*(lane.task for lane in self._lanes.values() if lane.task is not None))
        await asyncio.wait((reading, running), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            await self._refuse(self._closing, None)
            with suppress(OSError):
                await self._send({"type": "websocket.close", "code": RESTARTS if drains else NORMAL})

    async def _read(self) -> None:
        while (message := await self._receive())["type"] != "websocket.disconnect":
            try:
                await self._take(message)
            except AntiphonError as error:
                await self._refuse(error, None)

    async def _take(self, message: Message) -> None:
        """One frame. Raises `RequestError` for one that is no event, or that cannot wait."""
        if self._closing is not None:
            raise self._closing
        text: str | None = message.get("text")
        if text is None:
            raise RequestError("Frames are text: JSON objects.", code="unsupported_media_type")
        frame = text.encode()
        event = await self._context.large.run(lambda: read_event(frame), len(frame))
        lane = self._lane(event.stream_id)
        lane.waiting.append(event)
        if lane.task is None:
            lane.task = asyncio.ensure_future(self._work(lane))

    def _lane(self, stream_id: str | None) -> Lane:
        """Returns the lane in which the response is made. Raises `RequestError` where it cannot wait."""
        lane = self._lanes.get(stream_id)
        if lane is None:
            idle = [name for name, one in self._lanes.items() if one.task is None]
            if idle and len(self._lanes) >= MOST_STREAMS:
                del self._lanes[idle[0]]  # The first that makes nothing goes, with what it remembers.
            if len(self._lanes) >= MOST_STREAMS:
                raise refused("stream_id", f"{MOST_STREAMS} streams are busy.", code="response_in_progress")
            lane = self._lanes[stream_id] = Lane(Memory(self._context.limits.max_body))
        if stream_id is None and (lane.waiting or not lane.over):
            message = "Another response of this connection is being made."
            raise RequestError(message, code="response_in_progress", hint="Wait for its end, or name a stream_id.")
        if len(lane.waiting) >= MOST_WAITING:
            raise refused("stream_id", f"{MOST_WAITING} responses wait here.", code="response_in_progress")
        return lane

    async def _work(self, lane: Lane) -> None:
        try:
            while lane.waiting and not self._gone.is_set():
                await self._respond(lane.waiting.pop(0), lane)
        finally:
            lane.task = None

    async def _respond(self, event: CreateEvent, lane: Lane) -> None:
        """Makes one response, as a POST does."""
        lane.over = False
        scope = self._request(SocketTurn(lane.memory, event.generate))
        answer = _Frames(event.stream_id, lane, self._text)
        try:
            await self._scope["app"](scope, _Body(event.body, self._gone).receive, answer.send)
        except Exception:  # noqa: BLE001 - the connection goes on: the error must reach its client
            FAULTS.exception("a response of a WebSocket failed")
            await self._refuse(INTERNAL, event.stream_id)
        finally:
            lane.over = True

    def _request(self, turn: SocketTurn) -> Scope:
        headers = [(name, value) for name, value in self._scope["headers"] if name in CARRIED]
        same = ("asgi", "path", "raw_path", "root_path", "client", "server", "state")
        return {
            **{name: self._scope[name] for name in same if name in self._scope},
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "https" if self._scope["scheme"] == "wss" else "http",
            "query_string": b"",
            "headers": [*headers, (b"content-type", b"application/json")],
            SOCKET: turn,
            SHAPE: OPENAI_ERRORS,
        }

    async def _refuse(self, error: AntiphonError, stream_id: str | None) -> None:
        answer = error_response(error)
        described = json.loads(bytes(answer.body))["error"]
        retry = _when_to_retry(dict(answer.headers))
        await self._text(error_frame(api_error(error).status, described, stream_id, retry))

    async def _text(self, frame: bytes) -> None:
        """Sends a frame; where the client is gone, whoever answers it hears of that as from any other."""
        try:
            await self._send({"type": "websocket.send", "text": frame.decode()})
        except OSError:
            self._gone.set()


class _Body:
    """The body of a request, and then whether its client is still there."""

    def __init__(self, body: bytes, gone: asyncio.Event) -> None:
        self._body: bytes | None = body
        self._gone = gone

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


def _when_to_retry(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("retry-after")}


class _Frames:
    """Sends the answer to a request as frames: each event as one, or the error."""

    def __init__(self, stream_id: str | None, lane: Lane, send: SendFrame) -> None:
        self._stream_id = stream_id
        self._lane = lane
        self._send = send
        self._status = 0
        self._headers: dict[str, str] = {}
        self._streams = False
        self._unsent = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._streams = self._headers.get("content-type") == EVENT_STREAM
            return
        self._unsent += message.get("body", b"")
        if self._streams:
            *events, self._unsent = self._unsent.split(b"\n\n")
            for event in events:
                await self._event(event)
        elif not message.get("more_body", False):
            self._lane.over = True
            described = json.loads(self._unsent)["error"]
            await self._send(error_frame(self._status, described, self._stream_id, _when_to_retry(self._headers)))

    async def _event(self, event: bytes) -> None:
        """One server-sent event; comments and the mark of the stream's end are for HTTP alone."""
        data = event.rpartition(b"data: ")[2] if b"data: " in event else b""
        if data.startswith(b"{"):
            self._lane.over = self._lane.over or data.startswith(LAST)
            await self._send(event_frame(data, self._stream_id))


def _too_old(seconds: float) -> RequestError:
    return RequestError(
        f"A connection is open for {seconds:g} seconds at most.",
        code="websocket_connection_limit_reached",
        hint="Open another.",
    )
