"""The wires that every server has beside OpenAI's routes: where they are. What answers there is imported later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from starlette.routing import Match, Route
from starlette.types import Scope

from antiphon.api.ollama.wire import OLLAMA
from antiphon.api.wires import Wire
from antiphon.batches.queue import going_on
from antiphon.http.context import Context
from antiphon.http.error_shapes import ANTHROPIC_ERRORS, ENDPOINT_ERRORS
from antiphon.http.gate.access import PREFIXES
from antiphon.http.lazy_route import LazyRoute, LazyRoutes
from antiphon.wire.dialect import OPENAI

HERE = "antiphon.api.routes"
VERSION = "anthropic-version"
"""The header that every client of Anthropic's API sends: who does gets the models in its words."""
ANTHROPIC = "/anthropic"
"""Where that API is alone, whatever else a path could mean."""
ENDPOINTS = "/api/2.0/serving-endpoints"


class SelectedRoute(Route):
    """A route for some of the requests that its path and methods fit; others are for who comes after."""

    def __init__(self, path: str, endpoint: LazyRoute, *, methods: list[str], takes: Callable[[Scope], bool]) -> None:
        super().__init__(path, endpoint, methods=methods)
        self._takes = takes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if self._takes(scope) else (Match.NONE, {})


def _marked(scope: Scope) -> bool:
    return any(name == VERSION.encode() for name, _ in scope.get("headers", ()))


def _is_head(scope: Scope) -> bool:
    return scope.get("method") == "HEAD"


def _messages(context: Context) -> list[Route]:
    messages = LazyRoutes(replace(context, dialect=OPENAI), f"{HERE}.messages:Messages")
    placed = [f"{ANTHROPIC}{prefix}" for prefix in PREFIXES]
    routes: list[Route] = [SelectedRoute("/", messages("alive"), methods=["HEAD"], takes=_is_head)]
    for prefix in (*PREFIXES, *placed):
        routes.append(Route(f"{prefix}/messages", messages("create"), methods=["POST"]))
        routes.append(Route(f"{prefix}/messages/count_tokens", messages("count"), methods=["POST"]))
    for prefix in PREFIXES:
        routes.append(SelectedRoute(f"{prefix}/models", messages("models.list"), methods=["GET"], takes=_marked))
        one = f"{prefix}/models/{{id:path}}"
        routes.append(SelectedRoute(one, messages("models.one"), methods=["GET"], takes=_marked))
    for prefix in placed:
        routes.append(Route(f"{prefix}/models", messages("models.list"), methods=["GET"]))
        routes.append(Route(f"{prefix}/models/{{id:path}}", messages("models.one"), methods=["GET"]))
    return routes


def _batches(context: Context) -> Sequence[Route]:
    if not context.batches.enabled:
        return []
    batches = LazyRoutes(context, f"{HERE}.batches:Batches")
    context.beside.append(partial(going_on, context, batches))
    placed = (*PREFIXES, *(f"{ANTHROPIC}{prefix}" for prefix in PREFIXES))
    return [
        *(route for prefix in PREFIXES for route in _files_and_batches(prefix, batches)),
        *(route for prefix in placed for route in _message_batches(f"{prefix}/messages/batches", batches)),
    ]


def _files_and_batches(prefix: str, batches: LazyRoutes) -> list[Route]:
    return [
        Route(f"{prefix}/files", batches("files.list"), methods=["GET"]),
        Route(f"{prefix}/files", batches("create_file"), methods=["POST"]),
        Route(f"{prefix}/files/{{id}}", batches("files.retrieve"), methods=["GET"]),
        Route(f"{prefix}/files/{{id}}", batches("files.delete"), methods=["DELETE"]),
        Route(f"{prefix}/files/{{id}}/content", batches("files.content"), methods=["GET"]),
        Route(f"{prefix}/batches", batches("batches.list"), methods=["GET"]),
        Route(f"{prefix}/batches", batches("create"), methods=["POST"]),
        Route(f"{prefix}/batches/{{id}}", batches("batches.retrieve"), methods=["GET"]),
        Route(f"{prefix}/batches/{{id}}/cancel", batches("batches.cancel"), methods=["POST"]),
    ]


def _message_batches(path: str, batches: LazyRoutes) -> list[Route]:
    return [
        Route(path, batches("messages.list"), methods=["GET"]),
        Route(path, batches("create_messages"), methods=["POST"]),
        Route(f"{path}/{{id}}", batches("messages.retrieve"), methods=["GET"]),
        Route(f"{path}/{{id}}", batches("messages.delete"), methods=["DELETE"]),
        Route(f"{path}/{{id}}/cancel", batches("messages.cancel"), methods=["POST"]),
        Route(f"{path}/{{id}}/results", batches("messages.results"), methods=["GET"]),
    ]


def _rerank(context: Context) -> list[Route]:
    """One endpoint a path, by which metrics tell them apart."""
    rerank, score = LazyRoutes(context, f"{HERE}.rerank:Rerank"), LazyRoutes(context, f"{HERE}.rerank:Score")
    ranked = (f"{prefix}/{name}" for prefix in PREFIXES for name in ("rerank", "reranking"))
    return [
        *(Route(path, rerank(), methods=["POST"]) for path in (*ranked, "/v2/rerank")),
        *(Route(f"{prefix}/score", score(), methods=["POST"]) for prefix in PREFIXES),
    ]


def _endpoints(context: Context) -> list[Route]:
    """MLflow's client lists them with a slash at the end, the SDK without."""
    endpoints = LazyRoutes(context, f"{HERE}.endpoints:ServingEndpoints")
    return [
        Route(ENDPOINTS, endpoints("list"), methods=["GET"]),
        Route(f"{ENDPOINTS}/", endpoints("list"), methods=["GET"]),
        Route(f"{ENDPOINTS}/{{name:path}}", endpoints("one"), methods=["GET"]),
    ]


BUILT_IN = (
    Wire(name="batches", routes=_batches, described=f"{HERE}.batches:DESCRIBED"),
    Wire(
        name="messages",
        routes=_messages,
        places=(*(f"{prefix}/messages" for prefix in PREFIXES), ANTHROPIC),
        shared_places=tuple(f"{prefix}/models" for prefix in PREFIXES),
        mark=VERSION,
        errors=ANTHROPIC_ERRORS,
        described=f"{HERE}.messages:DESCRIBED",
    ),
    OLLAMA,
    Wire(name="rerank", routes=_rerank, described=f"{HERE}.rerank:DESCRIBED"),
    Wire(name="serving-endpoints", routes=_endpoints, places=(ENDPOINTS,), errors=ENDPOINT_ERRORS),
)
