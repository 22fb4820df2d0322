"""Which path has which route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from antiphon.api.openapi.document import document
from antiphon.api.wires import Wire
from antiphon.config import Limits
from antiphon.http.context import Context
from antiphon.http.gate.access import PREFIXES
from antiphon.wire.dialect import Dialect

from .chat import ChatCompletions
from .completions import Completions
from .conversations import Conversations
from .embeddings import MakeEmbeddings
from .encode import Encode
from .health import Health
from .interactive import InteractiveChat
from .invocations import Invocations
from .metrics import MetricsText
from .models import Models
from .native import native_routes
from .openchatml import openchatml_routes
from .responses import Responses
from .stored_chat import StoredCompletions
from .streams import Streams

AnyRoute = Route | WebSocketRoute


def all_routes(context: Context, dialects: Sequence[Dialect], wires: Sequence[Wire]) -> Iterator[AnyRoute]:
    """Those of the wires, of the dialects at their places, and the plain ones; the first that fits a path has it."""
    for wire in wires:
        yield from wire.routes(context)
    for dialect in dialects:
        for place in dialect.places:
            yield from _placed(context, dialect, place)
    described = ApiDocument(context, wires)
    for prefix in PREFIXES:
        yield from _routes(context, prefix)
        yield Route(f"{prefix}/openapi.json", described.get, methods=["GET"])


def _placed(context: Context, dialect: Dialect, place: str) -> list[AnyRoute]:
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
        *StoredCompletions(context).routes(place),
    ]


def _dialect_routes(context: Context, prefix: str) -> list[AnyRoute]:
    """The routes whose words differ between dialects."""
    models = Models(context)
    return [
        Route(f"{prefix}/models", models.list, methods=["GET"]),
        Route(f"{prefix}/models/{{id:path}}", models.one, methods=["GET"]),
        Route(f"{prefix}/chat/completions", ChatCompletions(context), methods=["POST"]),
        Route(f"{prefix}/chat/interactive", InteractiveChat(context), methods=["POST"]),
        Route(f"{prefix}/completions", Completions(context), methods=["POST"]),
        Route(f"{prefix}/encode", Encode(context), methods=["POST"]),
        Route(f"{prefix}/embeddings", MakeEmbeddings(context), methods=["POST"]),
        *Responses(context).routes(prefix),
        *Conversations(context).routes(prefix),
    ]


def _routes(context: Context, prefix: str) -> list[AnyRoute]:
    health = Health(context)
    return [
        *_dialect_routes(context, prefix),
        *StoredCompletions(context).routes(prefix),
        *native_routes(context, prefix),
        *openchatml_routes(context, prefix),
        *Streams(context).routes(prefix),
        Route(f"{prefix}/health", health.ready, methods=["GET"]),
        Route(f"{prefix}/readyz", health.ready, methods=["GET"]),
        Route(f"{prefix}/livez", health.live, methods=["GET"]),
        Route(f"{prefix}/ping", health.ready, methods=["GET"]),
        Route(f"{prefix}/metrics", MetricsText(context).text, methods=["GET"]),
        Route(f"{prefix}/version", health.version, methods=["GET"]),
    ]


class ApiDocument:
    """GET /openapi.json, made anew where the limits changed."""

    def __init__(self, context: Context, wires: Sequence[Wire]) -> None:
        self._context = context
        self._wires = tuple(wire.described for wire in wires)
        self._made: tuple[Limits, bytes] | None = None

    async def get(self, request: Request) -> Response:
        limits = self._context.limits
        if self._made is None or self._made[0] is not limits:
            self._made = limits, document(limits, self._wires)
        return Response(self._made[1], media_type="application/json")
