"""One line of a batch as a request: the route that answers requests answers it, in this process."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.errors import error_shape
from antiphon.api.responses.schema import InputDetails, OutputDetails, ResponseUsage
from antiphon.config import Limits
from antiphon.errors import AntiphonError
from antiphon.http.context import Context
from antiphon.http.errors import ErrorShape, ErrorShapes
from antiphon.http.exchange import KEY, Envelope, Exchange
from antiphon.http.gate.admission import Admission
from antiphon.http.gate.keys import Keyring, Principal
from antiphon.http.gate.rates import Rates
from antiphon.http.rules import Rules
from antiphon.structs import ready
from antiphon.wire.json import encode

from .schema import LineAnswer, OutputLine


class Endpoint(msgspec.Struct, frozen=True):
    """The route that answers a line; ``errors`` where its API has a shape of its own for them."""

    route: Callable[[Context], ASGIApp]
    errors: ErrorShape | None = None


Endpoints = Mapping[str, Endpoint]
"""Endpoints that the lines of a batch may request, by path."""
_PRINCIPAL = "antiphon.principal"
_PASSING = frozenset({408, 429, 503})
"""Statuses of what another time may go well."""


class _Details(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class _Usage(msgspec.Struct, frozen=True):
    completion_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Used(msgspec.Struct, frozen=True):
    usage: _Usage | None = None


class Answer(msgspec.Struct, frozen=True):
    """The answer of a route to the body of one line."""

    status: int
    body: bytes
    exchange: Exchange

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def passing(self) -> bool:
        """Whether the server had no room for it, or lost its engine: the same line may be answered later."""
        return self.status in _PASSING

    @property
    def usage(self) -> ResponseUsage:
        """The tokens that it took, whichever names its wire has for them."""
        input, output = self.exchange.prompt_tokens or 0, self.exchange.completion_tokens or 0
        return ResponseUsage(
            input_tokens=input,
            input_tokens_details=InputDetails(self.exchange.cached_tokens or 0),
            output_tokens=output,
            output_tokens_details=OutputDetails(_reasoning(self.body)),
            total_tokens=input + output,
        )

    def line(self, custom_id: str) -> bytes:
        """Its line in the output file or the error file, the end of the line included."""
        response = LineAnswer(status=self.status, request_id=self.exchange.id, body=msgspec.Raw(self.body))
        return output_line(custom_id, response)


def output_line(custom_id: str, response: LineAnswer | None, **fields: Any) -> bytes:
    id = f"batch_req_{secrets.token_hex(12)}"
    return encode(OutputLine(id=id, custom_id=custom_id, response=response, **fields)) + b"\n"


class LineCaller:
    """Answers lines by the routes of a server, as requests that wait for nobody: whoever calls says when."""

    def __init__(self, context: Context, endpoints: Endpoints) -> None:
        # A line has its place before it comes, and batches have limits of their own: neither queue nor rates count it.
        free = Rules(Limits())
        own = replace(context, admission=_Open(free), rates=Rates(free, Keyring(), time.monotonic))
        self._routes = {path: endpoint.route(own) for path, endpoint in endpoints.items()}
        self._app = Envelope(
            self._answer,
            metrics=context.metrics,
            patterns={route: path.replace("/v1", "") for path, route in self._routes.items()},
            errors=ErrorShapes(
                error_shape(context.dialect),
                {path: endpoint.errors for path, endpoint in endpoints.items() if endpoint.errors},
            ),
        )

    async def call(self, path: str, body: bytes, principal: Principal, *, lane: str) -> Answer:
        """The answer to ``body`` at ``path``, one of the endpoints, as to a request of ``principal``'s key.

        Lines of one ``lane``, which never run at once, find what the one before left in the engine's cache.
        """
        sent: list[Message] = []
        scope = _scope(path, body, lane) | {_PRINCIPAL: principal, "endpoint": self._routes[path]}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, _receive(body), send)
        whole = b"".join(message.get("body", b"") for message in sent)
        return Answer(sent[0]["status"], whole, scope[KEY])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[KEY]
        exchange.principal = scope[_PRINCIPAL]
        try:
            await scope["endpoint"](scope, receive, send)
        except AntiphonError as error:
            await exchange.refusal(error)(scope, receive, send)


class _Open(Admission):
    """A room that is never full."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(Rules(msgspec.structs.replace(rules.limits, max_concurrent=1 << 30)))


def _scope(path: str, body: bytes, lane: str) -> dict[str, Any]:
    headers = [(b"content-type", b"application/json"), (b"x-session-affinity", lane.encode())]
    return {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "path_params": {},
        "headers": headers, "client": None, "server": None,
    }  # fmt: skip


def _receive(body: bytes) -> Receive:
    """Gives the body, and then nothing: nobody hangs up on a line."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    return receive


def _reasoning(body: bytes) -> int:
    try:
        usage = msgspec.json.decode(body, type=ready(_Used)).usage
    except (msgspec.DecodeError, RecursionError):
        return 0
    details = usage and (usage.completion_tokens_details or usage.output_tokens_details)
    return details.reasoning_tokens if details else 0
