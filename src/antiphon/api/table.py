"""Which path has which route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from antiphon.http.context import Context
from antiphon.http.exchange import json_response
from antiphon.http.gate.keys import Scope as KeyScope
from antiphon.http.lazy_route import LazyRoute, LazyRoutes
from antiphon.http.route import ADMIN, ANYBODY, INFERENCE, AnyRoute, ApiRoute, ApiSocket
from antiphon.observe.metrics import CONTENT_TYPE
from antiphon.version import __version__
from antiphon.wire.dialect import Dialect

from .chat.routes import ChatCompletions
from .models.routes import Models
from .wires import Wire

# Is it alive, is it ready, what is it.


class MetricsText:
    """A scrape, for keys with the scope admin (or for all, when the server's owner says so)."""

    def __init__(self, context: Context) -> None:
        self._metrics, self._shares = context.metrics, context.shares

    async def text(self, request: Request) -> Response:
        text = await self._shares.metrics() if self._shares else self._metrics.render()
        return Response(text, headers={"content-type": CONTENT_TYPE})


class Health:
    """``/livez``: the process answers. ``/readyz``, ``/health`` and ``/ping``: it also takes requests now; else 503."""

    def __init__(self, context: Context) -> None:
        self._lifecycle = context.lifecycle

    async def live(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        self._lifecycle.check_ready()
        return json_response({"status": "ok"})

    async def version(self, request: Request) -> Response:
        return json_response({"version": __version__})


def all_routes(context: Context, dialects: Sequence[Dialect], wires: Sequence[Wire]) -> Iterator[AnyRoute]:
    """Yields the routes of the wires, of the dialects at their places, and the plain ones; the first that fits answers.

    Chats are answered from the start, and the server is looked after; what answers all else is imported when it does.
    """
    for wire in wires:
        yield from wire.routes(context)
    for dialect in dialects:
        for place in dialect.places:
            yield from _placed(context, dialect, place)
    described = LazyRoutes(context, "antiphon.api.openapi.document:ApiDocument", wires)
    yield from _routes(context)
    yield ApiRoute("GET", "/openapi.json", described("get"), INFERENCE)


def _placed(context: Context, dialect: Dialect, place: str) -> list[AnyRoute]:
    """The routes of a dialect at a place of its own, beside the server's."""
    context = replace(context, dialect=dialect)
    tasks: dict[str, ASGIApp] = {
        "messages": ChatCompletions(context),
        "prompt": _lazy(context, "antiphon.api.completions.routes:Completions"),
        "input": _lazy(context, "antiphon.api.embeddings.routes:MakeEmbeddings"),
    }
    invocations = LazyRoutes(context, "antiphon.api.dialects.invocation_routes:Invocations", tasks)
    return [
        *_dialect_routes(context, place),
        ApiRoute("POST", f"{place}/{{endpoint:path}}/invocations", invocations(), INFERENCE),
        *_stored_completions(context, place),
    ]


def _dialect_routes(context: Context, prefix: str) -> list[AnyRoute]:
    """The routes whose words differ between dialects."""
    models = Models(context)
    return [
        ApiRoute("GET", f"{prefix}/models", models.list, INFERENCE),
        ApiRoute("GET", f"{prefix}/models/{{id:path}}", models.one, INFERENCE),
        ApiRoute("POST", f"{prefix}/chat/completions", ChatCompletions(context), INFERENCE),
        ApiRoute(
            "POST",
            f"{prefix}/chat/interactive",
            _lazy(context, "antiphon.api.interactive.routes:InteractiveChat"),
            INFERENCE,
        ),
        ApiRoute(
            "POST", f"{prefix}/completions", _lazy(context, "antiphon.api.completions.routes:Completions"), INFERENCE
        ),
        ApiRoute("POST", f"{prefix}/encode", _lazy(context, "antiphon.api.native.routes:Encode"), INFERENCE),
        ApiRoute(
            "POST", f"{prefix}/embeddings", _lazy(context, "antiphon.api.embeddings.routes:MakeEmbeddings"), INFERENCE
        ),
        *_responses(context, f"{prefix}/responses"),
        *_conversations(context, f"{prefix}/conversations"),
    ]


def _responses(context: Context, path: str) -> list[AnyRoute]:
    responses = LazyRoutes(context, "antiphon.api.responses.routes:Responses")
    return [
        ApiSocket(path, responses("socket"), INFERENCE),
        ApiRoute("POST", path, responses("create"), INFERENCE),
        ApiRoute("POST", f"{path}/compact", responses("compact"), INFERENCE),
        ApiRoute("POST", f"{path}/input_tokens", responses("count"), INFERENCE),
        ApiRoute("GET", f"{path}/{{id}}", responses("retrieve"), INFERENCE),
        ApiRoute("DELETE", f"{path}/{{id}}", responses("delete"), INFERENCE),
        ApiRoute("POST", f"{path}/{{id}}/cancel", responses("cancel"), INFERENCE),
        ApiRoute("GET", f"{path}/{{id}}/input_items", responses("input_items"), INFERENCE),
    ]


def _conversations(context: Context, path: str) -> list[AnyRoute]:
    conversations, one = (
        LazyRoutes(context, "antiphon.api.responses.conversation_routes:Conversations"),
        f"{path}/{{id}}",
    )
    return [
        ApiRoute("POST", path, conversations("create"), INFERENCE),
        ApiRoute("GET", one, conversations("retrieve"), INFERENCE),
        ApiRoute("POST", one, conversations("update"), INFERENCE),
        ApiRoute("DELETE", one, conversations("delete"), INFERENCE),
        ApiRoute("GET", f"{one}/items", conversations("items"), INFERENCE),
        ApiRoute("POST", f"{one}/items", conversations("add"), INFERENCE),
        ApiRoute("GET", f"{one}/items/{{item}}", conversations("item"), INFERENCE),
        ApiRoute("DELETE", f"{one}/items/{{item}}", conversations("delete_item"), INFERENCE),
    ]


def _stored_completions(context: Context, prefix: str) -> list[AnyRoute]:
    stored = LazyRoutes(context, "antiphon.api.chat.stored_routes:StoredCompletions")
    path, one = f"{prefix}/chat/completions", f"{prefix}/chat/completions/{{id}}"
    return [
        ApiRoute("GET", path, stored("list"), INFERENCE),
        ApiRoute("GET", one, stored("retrieve"), INFERENCE),
        ApiRoute("POST", one, stored("update"), INFERENCE),
        ApiRoute("DELETE", one, stored("delete"), INFERENCE),
        ApiRoute("GET", f"{one}/messages", stored("messages"), INFERENCE),
    ]


def _routes(context: Context) -> list[AnyRoute]:
    health, streams = Health(context), LazyRoutes(context, "antiphon.api.streams:Streams")

    def metrics() -> KeyScope | None:
        return ANYBODY if context.rules.public_metrics else ADMIN

    return [
        *_dialect_routes(context, "/v1"),
        *_stored_completions(context, "/v1"),
        *_native(context),
        ApiRoute("POST", "/v1/openchatml", _lazy(context, "antiphon.api.transcript.routes:OpenChatMLTurns"), INFERENCE),
        ApiRoute(
            "POST", "/v1/openchatml/{id}/cancel", _lazy(context, "antiphon.api.transcript.routes:CancelTurn"), INFERENCE
        ),
        ApiRoute("GET", "/v1/streams/{id}", streams("follow"), INFERENCE),
        ApiRoute("DELETE", "/v1/streams/{id}", streams("delete"), INFERENCE),
        ApiRoute("GET", "/health", health.ready, ANYBODY),
        ApiRoute("GET", "/readyz", health.ready, ANYBODY),
        ApiRoute("GET", "/livez", health.live, ANYBODY),
        ApiRoute("GET", "/ping", health.ready, ANYBODY),
        ApiRoute("GET", "/metrics", MetricsText(context).text, metrics, counted=False),
        ApiRoute("GET", "/version", health.version, ANYBODY),
    ]


def _native(context: Context) -> list[AnyRoute]:
    """Returns the routes that people use beside a chat."""
    info = LazyRoutes(context, "antiphon.api.native.routes:ShowTokenizer")
    return [
        ApiRoute("POST", "/v1/tokenize", _lazy(context, "antiphon.api.native.routes:Tokenize"), INFERENCE),
        ApiRoute("POST", "/v1/detokenize", _lazy(context, "antiphon.api.native.routes:Detokenize"), INFERENCE),
        ApiRoute("GET", "/v1/tokenizer_info", info("get"), INFERENCE),
        ApiRoute("POST", "/v1/render", _lazy(context, "antiphon.api.native.routes:Render"), INFERENCE),
        ApiSocket("/v1/parse", _lazy(context, "antiphon.api.native.parse_socket:ParseSocket"), INFERENCE),
        ApiRoute("POST", "/v1/parse", _lazy(context, "antiphon.api.native.routes:Parse"), INFERENCE),
        ApiRoute("POST", "/v1/convert", _lazy(context, "antiphon.conversion.route:Convert"), INFERENCE),
        ApiRoute("GET", "/v1/convert", _lazy(context, "antiphon.conversion.route:Forms"), INFERENCE),
        ApiRoute("POST", "/v1/schemas/check", _lazy(context, "antiphon.api.native.routes:CheckSchema"), INFERENCE),
        ApiRoute(
            "POST",
            "/v1/templates/check",
            _lazy(context, "antiphon.api.native.routes:CheckTemplate"),
            INFERENCE,
        ),
        ApiRoute("POST", "/v1/templates/try", _lazy(context, "antiphon.api.native.routes:TryTemplate"), INFERENCE),
    ]


def _lazy(context: Context, place: str) -> LazyRoute:
    return LazyRoutes(context, place)()
