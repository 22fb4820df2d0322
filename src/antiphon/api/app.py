"""The HTTP application."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Unpack

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from antiphon.config import BatchesConfig, Limits
from antiphon.errors import AntiphonError, ModelError, NotFoundError, OverloadedError, RequestError, StoreError
from antiphon.http.context import Context, ModelSource
from antiphon.http.errors import ErrorShape, ErrorShapes
from antiphon.http.exchange import FAULTS, Envelope, exchange_of
from antiphon.http.gate.access import Access
from antiphon.http.gate.admission import Admission
from antiphon.http.gate.browsers import BrowserGate
from antiphon.http.gate.idempotency import Idempotency
from antiphon.http.gate.keys import Keyring
from antiphon.http.gate.large import LargeWork
from antiphon.http.gate.rates import Rates, SharedRates
from antiphon.http.later import LazyObject
from antiphon.http.origins import Origins, cors
from antiphon.http.post import PostRoute
from antiphon.http.recorded import KIND as STREAM
from antiphon.http.recovery import Recovery
from antiphon.http.route import AnyRoute, Paths, SpelledPath
from antiphon.http.rules import Rules
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
from .settings import AppOptions, AppSettings
from .table import all_routes
from .wires import Wire

# What runs beside the requests of an application: loading its first model, sweeping its store, and the end.


def lifespan_of(context: Context, *, preload: bool) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(_sweep(context)), asyncio.ensure_future(_drain(context))]
        if preload:
            context.lifecycle.begin_loading()
            tasks.append(asyncio.ensure_future(_preload(context)))
        async with AsyncExitStack() as beside:
            for work in context.beside:
                await beside.enter_async_context(work())
            yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for load in tuple(context.loads):
            load.cancel()
        await asyncio.gather(*context.loads, return_exceptions=True)
        await context.runs.aclose()
        context.large.close()
        context.isolation.close()
        await context.leases.aclose()
        await context.archive.store.aclose()
        await context.source.aclose()

    return lifespan


async def _preload(context: Context) -> None:
    """Until the model is there the server is not ready; why it cannot be loaded is told to who waits, or to the log.

    A model whose own server does not answer yet is opened again and again: no requests come until then.
    """
    while context.lifecycle.loading:
        try:
            await context.model(None)
            context.lifecycle.end_first_load()
        except OverloadedError as error:
            if error.code != "loading":  # It takes long, and may fail still.
                context.lifecycle.end_first_load()
                FAULTS.warning("the default model is not there yet: %s", error)
                await asyncio.sleep(error.retry_after)
        except Exception as error:  # noqa: BLE001 - whatever it is, the server has no model
            if not context.lifecycle.end_first_load(load_error(error)):
                FAULTS.error("the default model is not loaded: %s", load_error(error))
            return


def load_error(error: Exception) -> AntiphonError:
    """Why a model cannot be loaded, as an error of ours, with the paths that clients are not told."""
    if isinstance(error, AntiphonError):
        return error.__cause__ if isinstance(error.__cause__, AntiphonError) else error
    if isinstance(error, OSError):
        return ModelError(f"the model's files cannot be read: {error}", hint="Look at their owner and their mode.")
    FAULTS.error("the default model cannot be loaded", exc_info=error)
    return ModelError(f"the default model cannot be loaded: {type(error).__name__}", hint="The log has the cause.")


async def _drain(context: Context) -> None:
    """Programs of clients are not waited for as long as answers are."""
    await context.lifecycle.drained.wait()
    context.isolation.drain()


async def _sweep(context: Context) -> None:
    """Now and then, what expired leaves the store; until then it is only not found."""
    while True:
        try:
            await context.sessions.sweep()
        except StoreError as error:  # Such as a full disk: the next round may do better.
            FAULTS.warning("expired sessions were not swept: %s", error.code)
        except Exception:  # noqa: BLE001 - a store of another package
            FAULTS.exception("expired sessions were not swept")
        await asyncio.sleep(context.sessions.limits.sweep)


# Finds a request's route: many are there, and few of them fit any one path.

FOUND = "antiphon.route"


class PathRouter(Router):
    """Starlette's router, which does not try every route for a path that some route spells out."""

    def __init__(self, routes: Sequence[AnyRoute], **options: Any) -> None:
        super().__init__(routes, redirect_slashes=False, **options)
        self._spelled = {route.path for route in routes if not route.param_convertors}
        self._by_path: dict[str, Sequence[BaseRoute]] = {}
        """Of those that were requested."""

    def find(self, scope: Scope) -> BaseRoute | None:
        """The route that answers the request: one that has its path and its method, else the first that has its path.

        It is kept in the ``scope``, with what the path says.
        """
        first: tuple[BaseRoute, Scope] | None = None
        for route in self._few(scope):
            match, more = route.matches(scope)
            if match is Match.FULL:
                first = route, more
                break
            if match is Match.PARTIAL and first is None:
                first = route, more
        scope[FOUND] = first
        return first[0] if first is not None else None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.lifespan(scope, receive, send)
            return
        if FOUND not in scope:
            self.find(scope)
        scope["router"], found = self, scope.pop(FOUND)
        if found is None:
            await self.default(scope, receive, send)
            return
        route, more = found
        scope.update(more)
        await route.handle(scope, receive, send)

    def _few(self, scope: Scope) -> Sequence[BaseRoute]:
        """The routes that may serve the path, in their order, whatever the method.

        All where the application is mounted below a path.
        """
        path = scope.get("path", "")
        if scope.get("root_path") or path not in self._spelled:
            return self.routes
        few = self._by_path.get(path)
        if few is None:
            few = self._by_path[path] = [
                route for route in self.routes if not isinstance(route, AnyRoute) or route.path_regex.match(path)
            ]
        return few


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
    resumers = {
        RUN: LazyObject(context, "antiphon.api.responses.recovery:ResponseResumer", spoken),
        STREAM: LazyObject(context, "antiphon.http.resuming:StreamResumer", answering, errors.at),
    }
    context.beside.append(Recovery(context, resumers).beside)
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
    lasting = not isinstance(store, MemoryStore)
    beside = [SharedRates(rates, leases, settings.clock).running] if lasting else []
    found = lasting and stored.turns.lifetime > 0
    ids = UnfinishedTurns(store, settings.clock, stored.turns, steady, kind="ids") if found else None
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
        ids=ids,
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
    exchange = exchange_of(request)
    return exchange.refusal(error)


def _allowed(request: Request) -> str:
    """The methods of all routes that have the request's path."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in routes for method in route.methods}))


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    exchange = exchange_of(request)
    if error.status_code == 405:
        refused = RequestError(f"{request.method} is not possible on {path}.", code="method_not_allowed")
        return exchange.refusal(refused, allow=_allowed(request))
    return exchange.refusal(NotFoundError(f"Unknown URL: {request.method} {path}.", code="unknown_url"))
