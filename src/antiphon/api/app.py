"""The HTTP application."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from antiphon.config import Limits
from antiphon.errors import AntiphonError, NotFoundError, OverloadedError, RequestError
from antiphon.observe import Metrics, Tracing
from antiphon.store import MemoryStore, SessionLimits, Sessions, Store
from antiphon.wire.dialect import OPENAI, Dialect
from antiphon.wire.dialects import DIALECTS
from antiphon.wire.sealed import KEY_BYTES, Seal

from .context import Context
from .gate.access import PREFIXES, Access
from .gate.admission import Admission
from .gate.idempotency import Idempotency
from .gate.keys import Key, Keyring
from .gate.rates import Rates
from .http.cors import cors
from .http.exchange import FAULTS, KEY, Envelope, Exchange
from .openapi import document
from .responses.archive import Archive
from .routes.chat import ChatCompletions
from .routes.completions import Completions
from .routes.conversations import Conversations
from .routes.embeddings import MakeEmbeddings
from .routes.health import Health
from .routes.interactive import InteractiveChat
from .routes.invocations import Invocations
from .routes.layer import layer_routes
from .routes.metrics import MetricsText
from .routes.models import Models
from .routes.openchatml import OpenChatMLTurns
from .routes.responses import Responses
from .rules import Rules
from .source import ModelSource, ServerTools


def create_app(
    source: ModelSource,
    *,
    limits: Limits | None = None,
    dialect: Dialect = OPENAI,
    dialects: Sequence[Dialect] = DIALECTS,
    expose_reasoning: bool = False,
    debug: bool = False,
    preload: bool = False,
    keys: Iterable[Key] | None = None,
    public_metrics: bool = False,
    origins: Sequence[str] = (),
    tracing: Tracing | None = None,
    store: Store | None = None,
    session_limits: SessionLimits | None = None,
    seal_key: bytes | None = None,
    tools: ServerTools | None = None,
    offer_tools: bool = False,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """An ASGI application that serves ``source``; it closes the source's engines when it shuts down.

    ``dialect`` is what the plain routes speak; each of ``dialects`` is spoken at its own places besides.
    ``expose_reasoning``: clients see the model's reasoning (resolution X-38: only by the owner's word). ``debug``:
    answers name the request's unknown fields. ``tracing`` makes spans, ``public_metrics`` opens ``/metrics``.
    ``origins``: the web pages that may call it from a browser.
    ``preload``: the default model is loaded at once; ``/health`` is 503 until then. ``keys``: who may come in; None
    lets everybody. ``store``: where sessions, responses and conversations are kept (in memory, if nowhere)
    and closed. ``seal_key``: 32 bytes for reasoning that clients keep; servers that share it open each other's.
    ``tools`` run on this side, in requests that list them, or in all with ``offer_tools``; the caller closes them.
    """
    rules = Rules(limits or Limits(), expose_reasoning=expose_reasoning, public_metrics=public_metrics, debug=debug)
    store = store or MemoryStore()
    ring, metrics = Keyring(keys), Metrics()
    archive = Archive(store, clock)
    context = Context(
        source=source,
        rules=rules,
        dialect=dialect,
        admission=Admission(rules),
        archive=archive,
        sessions=Sessions(store, clock, session_limits or SessionLimits()),
        idempotency=Idempotency(archive),
        keys=ring,
        rates=Rates(rules, ring, time.monotonic),
        metrics=metrics,
        tracing=tracing,
        seal=Seal(seal_key or os.urandom(KEY_BYTES)),
        tools=tools,
        offer_tools=offer_tools,
        clock=clock,
    )
    metrics.follow(
        queue=lambda: (context.admission.running, context.admission.waiting), models=lambda: source.loaded.values()
    )
    routes = [
        *(route for spoken in dialects for place in spoken.places for route in _placed(context, spoken, place)),
        *(route for prefix in PREFIXES for route in _routes(context, prefix)),
    ]
    patterns: dict[object, str] = {route.endpoint: route.path.replace("/v1", "") for route in routes}
    app = Starlette(
        routes=routes,
        middleware=[
            *cors(origins),
            Middleware(Envelope, metrics=metrics, patterns=patterns, dialect=dialect, dialects=dialects, rules=rules),
            Middleware(Access, keys=ring, rates=context.rates, rules=rules),
        ],
        exception_handlers={AntiphonError: _antiphon_error, HTTPException: _http_error},
        lifespan=_lifespan(context, preload=preload),
    )
    app.router.redirect_slashes = False
    app.state.context = context
    return app


def _placed(context: Context, dialect: Dialect, place: str) -> list[Route]:
    """The routes of a dialect at a place of its own, beside the server's."""
    context = replace(context, dialect=dialect)
    tasks: dict[str, ASGIApp] = {
        "messages": ChatCompletions(context),
        "prompt": Completions(context),
        "input": MakeEmbeddings(context),
    }
    return [
        *_dialect_routes(context, place),
        Route(f"{place}/{{endpoint:path}}/invocations", Invocations(context, tasks), methods=["POST"]),
    ]


def _dialect_routes(context: Context, prefix: str) -> list[Route]:
    """The routes whose words differ between dialects."""
    models = Models(context)
    return [
        Route(f"{prefix}/models", models.list, methods=["GET"]),
        Route(f"{prefix}/models/{{id:path}}", models.one, methods=["GET"]),
        Route(f"{prefix}/chat/completions", ChatCompletions(context), methods=["POST"]),
        Route(f"{prefix}/chat/interactive", InteractiveChat(context), methods=["POST"]),
        Route(f"{prefix}/completions", Completions(context), methods=["POST"]),
        Route(f"{prefix}/embeddings", MakeEmbeddings(context), methods=["POST"]),
    ]


def _routes(context: Context, prefix: str) -> list[Route]:
    health = Health(context)
    return [
        *_dialect_routes(context, prefix),
        *layer_routes(context, prefix),
        Route(f"{prefix}/openchatml", OpenChatMLTurns(context), methods=["POST"]),
        *Responses(context).routes(prefix),
        *Conversations(context).routes(prefix),
        Route(f"{prefix}/health", health.ready, methods=["GET"]),
        Route(f"{prefix}/readyz", health.ready, methods=["GET"]),
        Route(f"{prefix}/livez", health.live, methods=["GET"]),
        Route(f"{prefix}/metrics", MetricsText(context).text, methods=["GET"]),
        Route(f"{prefix}/version", health.version, methods=["GET"]),
        Route(f"{prefix}/openapi.json", _openapi, methods=["GET"]),
    ]


def _lifespan(context: Context, *, preload: bool) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.ensure_future(_sweep(context))]
        if preload:
            tasks.append(asyncio.ensure_future(_preload(context)))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for load in tuple(context.loads):
            load.cancel()
        await asyncio.gather(*context.loads, return_exceptions=True)
        await context.runs.aclose()
        await context.archive.store.aclose()
        await context.source.aclose()

    return lifespan


async def _preload(context: Context) -> None:
    """Until the model is there the server is not ready; when it cannot be loaded, the next request tries again.

    A model whose own server does not answer yet is asked for again and again: nobody sends requests to us until then.
    """
    context.lifecycle.loading = True
    while context.lifecycle.loading:
        try:
            await context.model(None)
        except OverloadedError as error:
            FAULTS.warning("the default model is not there yet: %s", error)
            await asyncio.sleep(error.retry_after)
        except AntiphonError as error:
            FAULTS.error("the default model is not loaded: %s", error)
            return


async def _sweep(context: Context) -> None:
    """Now and then, what expired leaves the store; until then it is only not found."""
    while True:
        try:
            await context.sessions.sweep()
        except Exception:  # noqa: BLE001 - such as a full disk: the next round may do better
            FAULTS.exception("expired sessions were not swept")
        await asyncio.sleep(context.sessions.limits.sweep)


async def _openapi(request: Request) -> Response:
    return Response(document(request.app.state.context.limits), media_type="application/json")


async def _antiphon_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AntiphonError)
    exchange: Exchange = request.scope[KEY]
    return exchange.refusal(error)


async def _http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405, said as everything else is."""
    assert isinstance(error, HTTPException)
    path = request.url.path[:200]
    exchange: Exchange = request.scope[KEY]
    if error.status_code == 405:
        told = RequestError(f"{request.method} is not possible on {path}.", code="method_not_allowed")
        return exchange.refusal(told, allow=(error.headers or {}).get("Allow"))
    return exchange.refusal(NotFoundError(f"Unknown URL: {request.method} {path}.", code="unknown_url"))
