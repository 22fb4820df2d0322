"""Which path has which route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from antiphon.api.wires import Wire
from antiphon.http.context import Context
from antiphon.http.gate.access import PREFIXES
from antiphon.http.lazy_route import LazyRoute, LazyRoutes
from antiphon.wire.dialect import Dialect

from .chat import ChatCompletions
from .health import Health
from .metrics import MetricsText
from .models import Models

AnyRoute = Route | WebSocketRoute
HERE = "antiphon.api.routes"


def all_routes(context: Context, dialects: Sequence[Dialect], wires: Sequence[Wire]) -> Iterator[AnyRoute]:
    """Those of the wires, of the dialects at their places, and the plain ones; the first that fits a path has it.

    Chats are answered from the start, and the server is looked after; what answers all else is imported when it does.
    """
    for wire in wires:
        yield from wire.routes(context)
    for dialect in dialects:
        for place in dialect.places:
            yield from _placed(context, dialect, place)
    described = LazyRoutes(context, "antiphon.api.openapi.document:ApiDocument", wires)
    for prefix in PREFIXES:
        yield from _routes(context, prefix)
        yield Route(f"{prefix}/openapi.json", described("get"), methods=["GET"])


def _placed(context: Context, dialect: Dialect, place: str) -> list[AnyRoute]:
    """The routes of a dialect at a place of its own, beside the server's."""
    context = replace(context, dialect=dialect)
    tasks: dict[str, ASGIApp] = {
        "messages": ChatCompletions(context),
        "prompt": _lazy(context, "completions:Completions"),
        "input": _lazy(context, "embeddings:MakeEmbeddings"),
    }
    invocations = LazyRoutes(context, f"{HERE}.invocations:Invocations", tasks)
    return [
        *_dialect_routes(context, place),
        Route(f"{place}/{{endpoint:path}}/invocations", invocations(), methods=["POST"]),
        *_stored_completions(context, place),
    ]


def _dialect_routes(context: Context, prefix: str) -> list[AnyRoute]:
    """The routes whose words differ between dialects."""
    models = Models(context)
    return [
        Route(f"{prefix}/models", models.list, methods=["GET"]),
        Route(f"{prefix}/models/{{id:path}}", models.one, methods=["GET"]),
        Route(f"{prefix}/chat/completions", ChatCompletions(context), methods=["POST"]),
        Route(f"{prefix}/chat/interactive", _lazy(context, "interactive:InteractiveChat"), methods=["POST"]),
        Route(f"{prefix}/completions", _lazy(context, "completions:Completions"), methods=["POST"]),
        Route(f"{prefix}/encode", _lazy(context, "encode:Encode"), methods=["POST"]),
        Route(f"{prefix}/embeddings", _lazy(context, "embeddings:MakeEmbeddings"), methods=["POST"]),
        *_responses(context, f"{prefix}/responses"),
        *_conversations(context, f"{prefix}/conversations"),
    ]


def _responses(context: Context, path: str) -> list[AnyRoute]:
    responses = LazyRoutes(context, f"{HERE}.responses:Responses")
    return [
        WebSocketRoute(path, responses("socket")),
        Route(path, responses("create"), methods=["POST"]),
        Route(f"{path}/compact", responses("compact"), methods=["POST"]),
        Route(f"{path}/input_tokens", responses("count"), methods=["POST"]),
        Route(f"{path}/{{id}}", responses("retrieve"), methods=["GET"]),
        Route(f"{path}/{{id}}", responses("delete"), methods=["DELETE"]),
        Route(f"{path}/{{id}}/cancel", responses("cancel"), methods=["POST"]),
        Route(f"{path}/{{id}}/input_items", responses("input_items"), methods=["GET"]),
    ]


def _conversations(context: Context, path: str) -> list[AnyRoute]:
    conversations, one = LazyRoutes(context, f"{HERE}.conversations:Conversations"), f"{path}/{{id}}"
    return [
        Route(path, conversations("create"), methods=["POST"]),
        Route(one, conversations("retrieve"), methods=["GET"]),
        Route(one, conversations("update"), methods=["POST"]),
        Route(one, conversations("delete"), methods=["DELETE"]),
        Route(f"{one}/items", conversations("items"), methods=["GET"]),
        Route(f"{one}/items", conversations("add"), methods=["POST"]),
        Route(f"{one}/items/{{item}}", conversations("item"), methods=["GET"]),
        Route(f"{one}/items/{{item}}", conversations("delete_item"), methods=["DELETE"]),
    ]


def _stored_completions(context: Context, prefix: str) -> list[AnyRoute]:
    stored = LazyRoutes(context, f"{HERE}.stored_chat:StoredCompletions")
    path, one = f"{prefix}/chat/completions", f"{prefix}/chat/completions/{{id}}"
    return [
        Route(path, stored("list"), methods=["GET"]),
        Route(one, stored("retrieve"), methods=["GET"]),
        Route(one, stored("update"), methods=["POST"]),
        Route(one, stored("delete"), methods=["DELETE"]),
        Route(f"{one}/messages", stored("messages"), methods=["GET"]),
    ]


def _routes(context: Context, prefix: str) -> list[AnyRoute]:
    health, streams = Health(context), LazyRoutes(context, f"{HERE}.streams:Streams")
    return [
        *_dialect_routes(context, prefix),
        *_stored_completions(context, prefix),
        *_native(context, prefix),
        Route(f"{prefix}/openchatml", _lazy(context, "openchatml:OpenChatMLTurns"), methods=["POST"]),
        Route(f"{prefix}/openchatml/{{id}}/cancel", _lazy(context, "openchatml:CancelTurn"), methods=["POST"]),
        Route(f"{prefix}/streams/{{id}}", streams("follow"), methods=["GET"]),
        Route(f"{prefix}/streams/{{id}}", streams("delete"), methods=["DELETE"]),
        Route(f"{prefix}/health", health.ready, methods=["GET"]),
        Route(f"{prefix}/readyz", health.ready, methods=["GET"]),
        Route(f"{prefix}/livez", health.live, methods=["GET"]),
        Route(f"{prefix}/ping", health.ready, methods=["GET"]),
        Route(f"{prefix}/metrics", MetricsText(context).text, methods=["GET"]),
        Route(f"{prefix}/version", health.version, methods=["GET"]),
    ]


def _native(context: Context, prefix: str) -> list[AnyRoute]:
    """What people use beside a chat."""
    info = LazyRoutes(context, f"{HERE}.native:TokenizerInfo")
    return [
        Route(f"{prefix}/tokenize", _lazy(context, "native:Tokenize"), methods=["POST"]),
        Route(f"{prefix}/detokenize", _lazy(context, "native:Detokenize"), methods=["POST"]),
        Route(f"{prefix}/tokenizer_info", info("get"), methods=["GET"]),
        Route(f"{prefix}/render", _lazy(context, "native:Render"), methods=["POST"]),
        Route(f"{prefix}/parse", _lazy(context, "native:Parse"), methods=["POST"]),
        Route(f"{prefix}/convert", _lazy(context, "convert:Convert"), methods=["POST"]),
        Route(f"{prefix}/convert", _lazy(context, "convert:Forms"), methods=["GET"]),
        Route(f"{prefix}/schemas/check", _lazy(context, "schemas:CheckSchema"), methods=["POST"]),
        Route(f"{prefix}/templates/check", _lazy(context, "templates:CheckTemplate"), methods=["POST"]),
        Route(f"{prefix}/templates/try", _lazy(context, "templates:TryTemplate"), methods=["POST"]),
    ]


def _lazy(context: Context, place: str) -> LazyRoute:
    return LazyRoutes(context, f"{HERE}.{place}")()
