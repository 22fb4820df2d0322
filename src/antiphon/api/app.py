"""The HTTP application."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypedDict, Unpack

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from antiphon.config import BatchesConfig, Limits, ServerConfig
from antiphon.errors import AntiphonError, ModelError, NotFoundError, OverloadedError, RequestError, StoreError
from antiphon.http.context import Context, ModelSource, ServerTools
from antiphon.http.errors import ErrorShape, ErrorShapes
from antiphon.http.exchange import FAULTS, Envelope, exchange_of
from antiphon.http.gate.access import Access
from antiphon.http.gate.admission import Admission, SharedLimits
from antiphon.http.gate.browsers import BrowserGate
from antiphon.http.gate.idempotency import Idempotency
from antiphon.http.gate.keys import Key, Keyring
from antiphon.http.gate.large import LargeWork
from antiphon.http.gate.rates import Rates, SharedRates
from antiphon.http.lazy_route import LazyObject
from antiphon.http.origins import Origins, cors
from antiphon.http.post import PostRoute
from antiphon.http.recorded import KIND as STREAM
from antiphon.http.recovery import Recovery
from antiphon.http.route import PathRouter, Paths, SpelledPath
from antiphon.http.rules import Rules
from antiphon.observe import Metrics, Tracing
from antiphon.store import Leases, MemoryStore, SessionLimits, Sessions, Store, StoredRuns, Together, UnfinishedTurns
from antiphon.store.archive import Archive
from antiphon.store.clock import steady_time
from antiphon.store.key_file import KEY_BYTES
from antiphon.store.leases import EVERY
from antiphon.store.runs import KIND as RUN
from antiphon.wire.dialect import OPENAI, Dialect
from antiphon.wire.encrypted import ReasoningCipher

from .builtin import BUILT_IN
from .dialects import DIALECTS
from .errors import error_shape
from .table import all_routes
from .wires import Wire

if TYPE_CHECKING:  # few servers let requests name any
    from antiphon.tools.browser import Web
    from antiphon.tools.mcp import ClientServers

# Settings of an application, beside its models.


class AppOptions(TypedDict, total=False):
    """The keyword arguments of `create_app`: the fields of `AppSettings`."""

    limits: Limits | None
    dialect: Dialect
    dialects: Sequence[Dialect]
    wires: Sequence[Wire]
    expose_reasoning: bool
    gather: float
    preload: bool
    keys: Iterable[Key] | None
    public_metrics: bool
    origins: Sequence[str]
    hosts: Sequence[str] | None
    tracing: Tracing | None
    store: Store | None
    session_limits: SessionLimits | None
    batches: BatchesConfig | None
    reasoning_key: bytes | None
    tools: ServerTools | None
    offer_tools: bool
    client_mcp: ClientServers | None
    web: Web | None
    shares: SharedLimits | None
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """``dialect`` is what the plain routes speak; each of ``dialects`` is spoken at its own places besides.

    ``wires`` are further APIs, with their routes. ``expose_reasoning``: clients see the model's reasoning (resolution
    X-38: only by the owner's word). ``gather``: seconds between two writes of one stream. ``preload``: the default
    model is loaded at once, and ``/health`` is 503 until then. ``keys``: who may come in; None lets everybody.
    ``public_metrics`` opens ``/metrics``; ``origins`` are the web pages that may call from a browser; ``hosts`` the
    names by which a server without keys may be called, besides this machine's (None: by any). ``tracing`` makes
    spans. ``store``: where sessions, responses and conversations are stored (None: in memory); the application closes
    it. ``batches`` bounds files and batches (None: as the configuration does by itself). ``reasoning_key``: 32 bytes
    that encrypt reasoning which clients store; servers that share it read each other's. ``tools`` run on this side,
    in requests that list them, or in all with ``offer_tools``; the caller closes them. ``client_mcp``: requests of
    the Responses API may name MCP servers of their own (None: they may not). ``web`` fetches images and texts that
    requests name by address (None: none is fetched); the caller closes it. ``shares`` is what this process has with
    others of the same server. ``clock`` gives Unix time in seconds; the system's own is not followed into a jump at
    once.
    """

    limits: Limits | None = None
    dialect: Dialect = OPENAI
    dialects: Sequence[Dialect] = DIALECTS
    wires: Sequence[Wire] = ()
    expose_reasoning: bool = False
    gather: float = ServerConfig().gather
    preload: bool = False
    keys: Iterable[Key] | None = None
    public_metrics: bool = False
    origins: Sequence[str] = ()
    hosts: Sequence[str] | None = None
    tracing: Tracing | None = None
    store: Store | None = None
    session_limits: SessionLimits | None = None
    batches: BatchesConfig | None = None
    reasoning_key: bytes | None = None
    tools: ServerTools | None = None
    offer_tools: bool = False
    client_mcp: ClientServers | None = None
    web: Web | None = None
    shares: SharedLimits | None = None
    clock: Callable[[], float] = time.time


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
        STREAM: LazyObject(context, "antiphon.http.recovery:StreamResumer", answering, errors.at),
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
    turns = UnfinishedTurns(store, settings.clock, stored.turns, steady, together=Together(store))
    ids = UnfinishedTurns(store, settings.clock, stored.turns, steady, "ids", turns.together) if found else None
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
        turns=turns,
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
        web=settings.web,
        errors=error_shape(settings.dialect),
        clock=settings.clock,
        beside=[*beside],
    )


def _error_places(dialects: Sequence[Dialect], wires: Sequence[Wire]) -> dict[str, ErrorShape]:
    """Returns the shapes of errors by path, where they are not those of the plain routes."""
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
    close = get_close_matches(path, [route.path for route in request.app.routes], n=1, cutoff=0.9)
    hint = f"Did you mean {close[0]}?" if close else None
    return exchange.refusal(NotFoundError(f"Unknown URL: {request.method} {path}.", code="unknown_url", hint=hint))
