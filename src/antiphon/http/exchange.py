"""One request and its answer, seen from outside: its id, headers, times, and one line in the access log."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.observe import Metrics
from antiphon.observe.logs import ACCESS, AccessLine
from antiphon.tenancy import Tenant
from antiphon.wire.json import encode
from antiphon.wire.names.translate import Names

from .errors import INTERNAL, OPENAI_ERRORS, ErrorShape, ErrorShapes, error_response
from .gate.keys import NOBODY, Principal
from .route import route_path

FAULTS = logging.getLogger("antiphon.api")
KEY = "antiphon.exchange"
SHAPE = "antiphon.errors"
"""The key of an `ErrorShape` in the scope of a request that is another's part, whatever its path."""
METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"})
SESSION_HEADERS = ("x-session-affinity", "x-session-id")
"""Headers that name the session whose requests go to one place: ours, and the one that routers before us look at."""
SWITCHED = 101
"""The status of a connection that became a WebSocket."""
GONE = 499
"""The status of a request whose client hung up, as nginx writes it."""
MOST_IGNORED, IGNORED_LENGTH = 20, 64
"""Ignored fields that a header names, and characters of each."""
_SANE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


@dataclass(slots=True)
class Exchange:
    """Filled in as the request goes through. Times are of `time.perf_counter`, in seconds."""

    id: str
    method: str
    path: str
    headers: Headers
    principal: Principal = NOBODY
    started: float = field(default_factory=time.perf_counter)
    status: int = 0
    size: int = 0
    """Bytes of its body, with what it names."""
    attached: object = None
    """The body that was read, where it named something, with that in it; another server goes on from it."""
    model: str | None = None
    stream: bool = False
    planned: float | None = None
    admitted: float | None = None
    first_event: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None
    ignored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    incidents: tuple[str, ...] = ()
    """Their codes, each once."""
    finish: str | None = None
    """Why the turn ended, where the body has no place for it."""
    names: Names = field(default_factory=Names)
    """How the client named the fields of its body, for errors."""
    errors: ErrorShape = OPENAI_ERRORS
    counted: bool = False
    resume: str | None = None
    """The path at which its stream can be read again, and gone on with."""
    extra_headers: Callable[[], Mapping[str, str]] = dict
    """More headers, made when the answer begins."""

    @classmethod
    def of(cls, scope: Scope, *, errors: ErrorShape) -> Exchange:
        headers = Headers(scope=scope)
        given = headers.get("x-client-request-id") or headers.get("x-request-id") or ""
        id = given if _SANE_ID.fullmatch(given) else f"req_{secrets.token_hex(12)}"
        return cls(id, scope.get("method", "GET"), scope["path"], headers, errors=errors)

    @property
    def owner(self) -> str:
        """The owner whose stored objects it may see: the name of its API key."""
        return self.principal.name

    @property
    def tenant(self) -> Tenant:
        """The same for caches, queues and tools, with the session that a header names."""
        named = (self.headers.get(name) for name in SESSION_HEADERS)
        return Tenant(owner=self.owner, affinity=next(filter(None, named), None))

    def ignore(self, fields: Iterable[str]) -> None:
        """Notes parts of the request that are taken and change nothing."""
        self.ignored = (*self.ignored, *fields)

    def answer_headers(self) -> dict[str, str]:
        """The headers of every answer."""
        spent = (time.perf_counter() - self.started) * 1000
        headers = {
            "x-request-id": self.id,
            "openai-version": "2020-10-01",
            "openai-processing-ms": str(round(spent)),
            "server-timing": ", ".join(f"{name};dur={ms:.1f}" for name, ms in self._timing(spent)),
        }
        if self.errors.id_header is not None:
            headers[self.errors.id_header] = self.id
        if self.model is not None:
            headers["openai-model"] = _token(self.model)
            headers["x-antiphon-stream"] = "true" if self.stream else "false"
        if self.resume is not None:
            headers["x-antiphon-resume"] = self.resume
        if self.warnings:
            headers["x-antiphon-warning"] = "; ".join(self.warnings)
        if self.incidents:
            headers["x-antiphon-incidents"] = ", ".join(self.incidents)
        if self.finish is not None:
            headers["x-antiphon-finish-reason"] = self.finish
        if self.ignored:
            headers["x-antiphon-ignored"] = ignored_names(self.ignored)
        return {**headers, **self.extra_headers()}

    def _timing(self, spent: float) -> list[tuple[str, float]]:
        steps = (("plan", self.planned), ("queue", self.admitted), ("first", self.first_event))
        durations, before = [], self.started
        for name, moment in steps:
            if moment is not None:
                durations.append((name, (moment - before) * 1000))
                before = moment
        return [*durations, ("total", spent)]

    def note_first(self) -> None:
        """The first event of its first turn is there."""
        if self.first_event is None:
            self.first_event = time.perf_counter()

    def note_incident(self, code: str) -> None:
        """Something was repaired in a reply."""
        if code not in self.incidents:
            self.incidents = (*self.incidents, code)

    def spent(self, *, prompt: int, completion: int = 0, cached: int | None = None) -> None:
        """A turn, or an embedding, took so many tokens; None: its engine does not report it."""
        self.prompt_tokens = (self.prompt_tokens or 0) + prompt
        self.completion_tokens = (self.completion_tokens or 0) + completion
        if cached is not None:
            self.cached_tokens = (self.cached_tokens or 0) + cached

    def unforeseen(self, error: Exception) -> AntiphonError:
        """The client's part of an internal error; the log has the rest."""
        FAULTS.error("%s failed", self.id, exc_info=error)
        return INTERNAL

    def refusal(self, error: AntiphonError, *, allow: str | None = None) -> Response:
        """The answer for ``error``, in the shape of the wire that it was sent to."""
        self.error = error.code
        return error_response(error, self.errors, allow=allow, request_id=self.id)

    def line(self, route: str) -> AccessLine:
        """Its entry in the access log."""
        return AccessLine(
            id=self.id,
            method=self.method if self.method in METHODS else "other",
            route=route,
            status=self.status,
            total_ms=_ms(time.perf_counter() - self.started),
            key=self.principal.name,
            model=self.model,
            error=self.error,
            stream=self.stream,
            gone=self.status == GONE,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            queue_ms=_ms(self.admitted - self.planned) if self.admitted and self.planned else None,
            ttft_ms=_ms(self.first_event - self.started) if self.first_event else None,
        )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def exchange_of(request: Request) -> Exchange:
    exchange: Exchange = request.scope[KEY]
    return exchange


def json_response(value: object) -> Response:
    return Response(encode(value), media_type="application/json")


def ignored_names(names: Sequence[str]) -> str:
    """The names of ignored fields for a header: `MOST_IGNORED` at most, each cut to `IGNORED_LENGTH`."""
    listed = [_token(name[:IGNORED_LENGTH]) for name in names[:MOST_IGNORED]]
    more = len(names) - len(listed)
    return ", ".join([*listed, *([f"and {more} more"] if more else [])])


def _token(text: str) -> str:
    """Text for a header's value: printable ASCII, bounded."""
    return re.sub(r"[^!-~]", "?", text)[:256].replace(",", "?")


class Envelope:
    """The outermost layer: every answer has the headers, every request its line, every error a body."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        patterns: Mapping[object, str],
        errors: ErrorShapes,
    ) -> None:
        """``patterns`` has the pattern of each endpoint's path, which is what metrics call it."""
        self._app = app
        self._metrics = metrics
        self._patterns = patterns
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        shape = scope.get(SHAPE) or self._errors.at(route_path(scope), Headers(scope=scope))
        exchange = scope[KEY] = Exchange.of(scope, errors=shape)

        async def send_with_headers(message: Message) -> None:
            kind = message["type"].removeprefix("websocket.")
            if kind in ("http.response.start", "accept"):
                exchange.status = message.get("status", SWITCHED)
                MutableHeaders(scope=message).update(exchange.answer_headers())
            if kind == "accept":
                self._count(exchange, scope)
            elif kind == "http.response.body" and not message.get("more_body", False):
                self._count(exchange, scope)  # Before the last byte: who has its answer finds it in the metrics.
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            FAULTS.exception("%s failed", exchange.id)
            if exchange.status:
                raise
            await exchange.refusal(INTERNAL)(scope, receive, send_with_headers)
        finally:
            if ACCESS.isEnabledFor(logging.INFO):
                ACCESS.info(exchange.line(self._route(scope)))
            self._count(exchange, scope)

    def _count(self, exchange: Exchange, scope: Scope) -> None:
        if exchange.counted:
            return
        exchange.counted = True
        metrics, route = self._metrics, self._route(scope)
        method = exchange.method if exchange.method in METHODS else "other"
        metrics.requests.labels(route, method, str(exchange.status)).inc()
        metrics.seconds.labels(route).observe(time.perf_counter() - exchange.started)
        metrics.ignored_fields.inc(len(exchange.ignored))
        metrics.clients_gone.inc(exchange.status == GONE)

    def _route(self, scope: Scope) -> str:
        return self._patterns.get(scope.get("endpoint"), "other")
