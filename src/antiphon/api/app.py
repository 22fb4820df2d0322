"""The HTTP application."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Unpack

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from antiphon.config import BatchesConfig, Limits
from antiphon.errors import AntiphonError, NotFoundError, RequestError
from antiphon.http.context import Context
from antiphon.http.cors import cors
from antiphon.http.error_shapes import ErrorShape, ErrorShapes
from antiphon.http.exchange import KEY, Envelope, Exchange
from antiphon.http.gate.access import Access
from antiphon.http.gate.admission import Admission
from antiphon.http.gate.browsers import BrowserGate
from antiphon.http.gate.idempotency import Idempotency
from antiphon.http.gate.keys import Keyring
from antiphon.http.gate.large import LargeWork
from antiphon.http.gate.rates import Rates
from antiphon.http.gate.shared_rates import SharedRates
from antiphon.http.later import Later
from antiphon.http.origins import Origins
from antiphon.http.paths import Paths, SpelledPath
from antiphon.http.post import PostRoute
from antiphon.http.recorded import KIND as STREAM
from antiphon.http.recovery import Recovery
from antiphon.http.rules import Rules
from antiphon.http.source import ModelSource
from antiphon.observe import Metrics
from antiphon.store import Leases, MemoryStore, SessionLimits, Sessions, StoredRuns, UnfinishedTurns
from antiphon.store.archive import Archive
from antiphon.store.clock import steady_time
from antiphon.store.key_file import KEY_BYTES
from antiphon.store.leases import EVERY
from antiphon.store.runs import KIND as RUN
from antiphon.wire.dialect import Dialect
from antiphon.wire.encrypted import ReasoningCipher

from .builtin import BUILT_IN
from .errors import error_shape
from .lifespan import lifespan_of
from .router import PathRouter
from .settings import AppOptions, AppSettings
from .table import all_routes
from .wires import Wire


def create_app(source: ModelSource, **options: Unpack[AppOptions]) -> Starlette:
    """An ASGI application that serves ``source``; it closes the source's engines when it shuts down.

    The options are the fields of `AppSettings`, which says what each of them does.
    """
    settings = AppSettings(**options)
    wires = (*settings.wires, *BUILT_IN)
    context = _context(source, settings)
    routes = list(all_routes(context, settings.dialects, wires))
    spoken = {dialect.name: dialect for dialect in (*settings.dialects, settings.dialect)}
    origins, paths = Origins(settings.origins), Paths(routes)
    router = PathRouter(routes, lifespan=lifespan_of(context, preload=settings.preload))
    errors = ErrorShapes(
        error_shape(settings.dialect),
        _error_places(settings.dialects, wires),
        {(wire.mark, place): wire.errors for wire in wires for place in wire.shared_places},
    )
    answering = {
        route.path: route.endpoint
        for route in reversed(routes)
        if isinstance(route.endpoint, PostRoute) and isinstance(route, Route) and "POST" in (route.methods or ())
    }
    context.runs.resumable = frozenset(answering)
    heirs = {
        RUN: Later(context, "antiphon.api.responses.recovery:ResponseHeir", spoken),
        STREAM: Later(context, "antiphon.http.resuming:StreamHeir", answering, errors.at),
    }
    context.beside.append(Recovery(context, heirs).beside)
    envelope = Middleware(
        Envelope,
        metrics=context.metrics,
        patterns={route.endpoint: route.path.replace("/v1", "") for route in routes},
        errors=errors,
    )
    app = Starlette(
        middleware=[
            Middleware(SpelledPath, paths=paths),
            *cors(origins),
            envelope,
            Middleware(
                Access,
                keys=context.keys,
                rates=context.rates,
                find=router.find,
                browsers=BrowserGate(origins, settings.hosts),
            ),
        ],
        exception_handlers={AntiphonError: _antiphon_error, HTTPException: _http_error},
    )
    app.router = router
    app.state.context = context
    app.state.paths = paths
    return app


def _context(source: ModelSource, settings: AppSettings) -> Context:
    rules = Rules(
        settings.limits or Limits(),
        expose_reasoning=settings.expose_reasoning,
        public_metrics=settings.public_metrics,
        gather=settings.gather,
    )
    store = settings.store or MemoryStore()
    ring, metrics, shares = Keyring(settings.keys), Metrics(), settings.shares
    admission = shares.admission(rules) if shares else Admission(rules)
    # A clock that is handed in is believed; the system's can be set.
    steady = steady_time if settings.clock is time.time else settings.clock
    stored = settings.session_limits or SessionLimits()
    leases = Leases(store, seconds=stored.lease, every=min(EVERY, stored.lease / 4))
    archive = Archive(store, settings.clock, steady=steady, leases=leases)
    rates = Rates(rules, ring, time.monotonic)
    beside = [] if isinstance(store, MemoryStore) else [SharedRates(rates, leases, settings.clock).running]
    metrics.follow(queue=lambda: (admission.running, admission.waiting), models=lambda: source.loaded.values())
    return Context(
        source=source,
        rules=rules,
        dialect=settings.dialect,
        admission=admission,
        large=LargeWork(rules),
        leases=leases,
        archive=archive,
        stored_runs=StoredRuns(store, settings.clock, stored.runs, steady),
        sessions=Sessions(store, settings.clock, stored, steady, leases),
        turns=UnfinishedTurns(store, settings.clock, stored.turns, steady),
        idempotency=Idempotency(archive, leases),
        batches=settings.batches or BatchesConfig(),
        keys=ring,
        rates=rates,
        shares=shares,
        metrics=metrics,
        tracing=settings.tracing,
        cipher=ReasoningCipher(settings.reasoning_key or os.urandom(KEY_BYTES)),
        tools=settings.tools,
        offer_tools=settings.offer_tools,
        client_mcp=settings.client_mcp,
        errors=error_shape(settings.dialect),
        clock=settings.clock,
        beside=[*beside],
    )


def _error_places(dialects: Sequence[Dialect], wires: Sequence[Wire]) -> dict[str, ErrorShape]:
    """Where errors have another shape than on the plain routes."""
    shapes = {place: wire.errors for wire in wires for place in wire.places}
    return shapes | {place: error_shape(dialect) for dialect in dialects for place in dialect.places}


async def _antiphon_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AntiphonError)
    exchange: Exchange = request.scope[KEY]
    return exchange.refusal(error)


def _allowed(request: Request) -> str:
    """The methods of all routes that have the request's path."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in routes for method in route.methods}))


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    exchange: Exchange = request.scope[KEY]
    if error.status_code == 405:
        refused = RequestError(f"{request.method} is not possible on {path}.", code="method_not_allowed")
        return exchange.refusal(refused, allow=_allowed(request))
    return exchange.refusal(NotFoundError(f"Unknown URL: {request.method} {path}.", code="unknown_url"))
