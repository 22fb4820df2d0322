"""/v1/parse as a WebSocket: each frame is a part of a reply, and the connection carries the request and the state."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope, Send

from antiphon.api.responses.socket_routes import CARRIED, NORMAL, RESTARTS, accepted
from antiphon.errors import AntiphonError, RequestError
from antiphon.http.context import Context
from antiphon.http.errors import INTERNAL, OPENAI_ERRORS, error_response
from antiphon.http.exchange import FAULTS, SHAPE
from antiphon.wire.errors import refused
from antiphon.wire.json import encode, fields_of

OF_A_PART = frozenset({"ids", "text", "finish_reason"})
"""Fields that are another in each frame; the others are the first frame's."""


class ParseSocket:
    """GET /v1/parse with an upgrade. Whoever gets here has a key that may use models."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await accepted(self._context, scope, receive, send):
            return
        lifecycle, lifetime = self._context.lifecycle, self._context.limits.socket_lifetime
        reading = asyncio.ensure_future(_Connection(scope, receive, send).read())
        draining = asyncio.ensure_future(lifecycle.drained.wait())
        try:
            await asyncio.wait((reading, draining), timeout=lifetime, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                with suppress(OSError):
                    await send({"type": "websocket.close", "code": RESTARTS if lifecycle.draining else NORMAL})
        finally:
            reading.cancel()
            draining.cancel()
            await asyncio.gather(reading, draining, return_exceptions=True)


class _Connection:
    """One connection: replies one after the other, each in parts."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._same: Mapping[str, msgspec.Raw] = {}
        self._state = ""
        """That of the open reply; empty between two."""

    async def read(self) -> None:
        """Answers frames until the client hangs up; what is wrong with one changes nothing of the reply."""
        while (message := await self._receive())["type"] != "websocket.disconnect":
            try:
                answer = await self._part(message)
            except AntiphonError as error:
                answer = bytes(error_response(error).body)
            except Exception:  # noqa: BLE001 - the connection goes on: the error must reach its client
                FAULTS.exception("a part of a reply over a WebSocket failed")
                answer = bytes(error_response(INTERNAL).body)
            with suppress(OSError):
                await self._send({"type": "websocket.send", "text": answer.decode()})

    async def _part(self, message: Message) -> bytes:
        """The answer to one frame. Raises `RequestError` for one that is no part."""
        text: str | None = message.get("text")
        if text is None:
            raise RequestError("Frames are text: JSON objects.", code="unsupported_media_type")
        fields = fields_of(text.encode())
        others = {name: value for name, value in fields.items() if name not in OF_A_PART}
        if "state" in others:
            raise refused("state", "the connection has it.", hint="Leave it out, or post the part.")
        if self._state and others:
            raise refused(sorted(others)[0], "it is the first frame's of a reply.", hint="End the reply first.")
        same = self._same if self._state else others
        part = {name: value for name, value in fields.items() if name in OF_A_PART}
        status, answer = await self._posted(encode({**same, **part, "state": self._state}))
        if status != 200:
            return answer
        read: dict[str, Any] = fields_of(answer)
        self._same, self._state = same, msgspec.json.decode(read.pop("state"), type=str | None) or ""
        return encode(read)

    async def _posted(self, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer to a POST of the same client to the same address."""
        headers = [(name, value) for name, value in self._scope["headers"] if name in CARRIED]
        same = ("asgi", "path", "raw_path", "root_path", "client", "server", "state")
        scope: Scope = {
            **{name: self._scope[name] for name in same if name in self._scope},
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "https" if self._scope["scheme"] == "wss" else "http",
            "query_string": b"",
            "headers": [*headers, (b"content-type", b"application/json")],
            SHAPE: OPENAI_ERRORS,
        }
        sent: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        status, parts = 500, list[bytes]()

        async def receive() -> Message:
            if not sent:
                await asyncio.Event().wait()  # A client that hangs up is noticed when its answer is sent.
            return sent.pop()

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            parts.append(message.get("body", b""))

        await self._scope["app"](scope, receive, send)
        return status, b"".join(parts)
