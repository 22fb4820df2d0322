"""The wires that every server has beside OpenAI's routes: where they are. What answers there is imported later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from starlette.routing import Match
from starlette.types import Scope

from antiphon.http.context import Context
from antiphon.http.lazy_route import LazyRoute, LazyRoutes
from antiphon.http.route import ANYBODY, INFERENCE, MODELS, ApiRoute, Needed
from antiphon.wire.dialect import OPENAI

from .batches.queue import going_on
from .errors import ANTHROPIC_ERRORS, ENDPOINT_ERRORS, OLLAMA_ERRORS
from .wires import Wire

# Ollama's API as one wire: where its routes are, and the shape of its errors.

PLACE = "/api"


def _routes(context: Context) -> list[ApiRoute]:
    def route(place: str) -> LazyRoute:
        return LazyRoutes(context, place)()

    lists = LazyRoutes(context, "antiphon.api.ollama.models:OllamaLists")
    return [
        ApiRoute("GET", "/", lists("root"), ANYBODY),
        ApiRoute("GET", f"{PLACE}/version", lists("version"), ANYBODY),
        ApiRoute("GET", f"{PLACE}/tags", lists("tags"), INFERENCE),
        ApiRoute("GET", f"{PLACE}/ps", lists("ps"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/show", route("antiphon.api.ollama.models:OllamaShow"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/chat", route("antiphon.api.ollama.generate:OllamaChat"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/generate", route("antiphon.api.ollama.generate:OllamaGenerate"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/embed", route("antiphon.api.ollama.generate:OllamaEmbed"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/embeddings", route("antiphon.api.ollama.generate:OllamaEmbeddings"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/pull", route("antiphon.api.ollama.models:OllamaPull"), MODELS),
        ApiRoute("DELETE", f"{PLACE}/delete", route("antiphon.api.ollama.models:OllamaDelete"), MODELS),
    ]


OLLAMA = Wire(
    name="ollama",
    routes=_routes,
    places=(PLACE,),
    errors=OLLAMA_ERRORS,
    described="antiphon.api.ollama.described:DESCRIBED",
)


VERSION = "anthropic-version"
"""The header that every client of Anthropic's API sends: who does gets the models in its words."""
ANTHROPIC = "/anthropic"
"""The prefix under which only that API answers."""
ENDPOINTS = "/api/2.0/serving-endpoints"


class SelectedRoute(ApiRoute):
    """A route for some of the requests that its path and methods fit; others are for who comes after."""

    def __init__(
        self, methods: str, path: str, endpoint: LazyRoute, scope: Needed, *, takes: Callable[[Scope], bool]
    ) -> None:
        super().__init__(methods, path, endpoint, scope)
        self._takes = takes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if self._takes(scope) else (Match.NONE, {})


def _marked(scope: Scope) -> bool:
    return any(name == VERSION.encode() for name, _ in scope.get("headers", ()))


def _messages(context: Context) -> list[ApiRoute]:
    messages = LazyRoutes(replace(context, dialect=OPENAI), "antiphon.api.messages.routes:Messages")
    listed, one, alone = messages("models.list"), messages("models.one"), f"{ANTHROPIC}/v1"
    return [
        SelectedRoute("HEAD", "/", messages("alive"), ANYBODY, takes=lambda scope: scope.get("method") == "HEAD"),
        *(ApiRoute("POST", f"{base}/messages", messages("create"), INFERENCE) for base in ("/v1", alone)),
        *(ApiRoute("POST", f"{base}/messages/count_tokens", messages("count"), INFERENCE) for base in ("/v1", alone)),
        SelectedRoute("GET", "/v1/models", listed, INFERENCE, takes=_marked),
        SelectedRoute("GET", "/v1/models/{id:path}", one, INFERENCE, takes=_marked),
        ApiRoute("GET", f"{alone}/models", listed, INFERENCE),
        ApiRoute("GET", f"{alone}/models/{{id:path}}", one, INFERENCE),
    ]


def _batches(context: Context) -> Sequence[ApiRoute]:
    if not context.batches.enabled:
        return []
    batches = LazyRoutes(context, "antiphon.api.batches.routes:Batches")
    context.beside.append(partial(going_on, context, batches))
    return [
        *_messages_files(batches),
        *_files_and_batches(batches),
        *_message_batches("/v1/messages/batches", batches),
        *_message_batches(f"{ANTHROPIC}/v1/messages/batches", batches),
    ]


def _messages_files(batches: LazyRoutes) -> list[ApiRoute]:
    """Both APIs have them at one path."""
    made = (
        ("GET", "", batches("messages_files.list")),
        ("POST", "", batches("create_messages_file")),
        ("GET", "/{id}", batches("messages_files.retrieve")),
        ("DELETE", "/{id}", batches("messages_files.delete")),
        ("GET", "/{id}/content", batches("messages_files.content")),
    )
    return [
        *(SelectedRoute(method, f"/v1/files{path}", one, INFERENCE, takes=_marked) for method, path, one in made),
        *(ApiRoute(method, f"{ANTHROPIC}/v1/files{path}", one, INFERENCE) for method, path, one in made),
    ]


def _files_and_batches(batches: LazyRoutes) -> list[ApiRoute]:
    return [
        ApiRoute("GET", "/v1/files", batches("files.list"), INFERENCE),
        ApiRoute("POST", "/v1/files", batches("create_file"), INFERENCE),
        ApiRoute("GET", "/v1/files/{id}", batches("files.retrieve"), INFERENCE),
        ApiRoute("DELETE", "/v1/files/{id}", batches("files.delete"), INFERENCE),
        ApiRoute("GET", "/v1/files/{id}/content", batches("files.content"), INFERENCE),
        ApiRoute("GET", "/v1/batches", batches("batches.list"), INFERENCE),
        ApiRoute("POST", "/v1/batches", batches("create"), INFERENCE),
        ApiRoute("GET", "/v1/batches/{id}", batches("batches.retrieve"), INFERENCE),
        ApiRoute("POST", "/v1/batches/{id}/cancel", batches("batches.cancel"), INFERENCE),
    ]


def _message_batches(path: str, batches: LazyRoutes) -> list[ApiRoute]:
    return [
        ApiRoute("GET", path, batches("messages.list"), INFERENCE),
        ApiRoute("POST", path, batches("create_messages"), INFERENCE),
        ApiRoute("GET", f"{path}/{{id}}", batches("messages.retrieve"), INFERENCE),
        ApiRoute("DELETE", f"{path}/{{id}}", batches("messages.delete"), INFERENCE),
        ApiRoute("POST", f"{path}/{{id}}/cancel", batches("messages.cancel"), INFERENCE),
        ApiRoute("GET", f"{path}/{{id}}/results", batches("messages.results"), INFERENCE),
    ]


def _rerank(context: Context) -> list[ApiRoute]:
    """One endpoint a path, by which metrics tell them apart."""
    rerank, score = (
        LazyRoutes(context, "antiphon.api.rerank.routes:Rerank"),
        LazyRoutes(context, "antiphon.api.rerank.routes:Score"),
    )
    return [
        *(ApiRoute("POST", path, rerank(), INFERENCE) for path in ("/v1/rerank", "/v1/reranking", "/v2/rerank")),
        ApiRoute("POST", "/v1/score", score(), INFERENCE),
    ]


def _middles(context: Context) -> list[ApiRoute]:
    context = replace(context, dialect=OPENAI)
    fim = LazyRoutes(context, "antiphon.api.completions.routes:FimCompletions")
    infill = LazyRoutes(context, "antiphon.api.completions.routes:Infill")
    return [
        ApiRoute("POST", "/v1/fim/completions", fim(), INFERENCE),
        ApiRoute("POST", "/v1/infill", infill(), INFERENCE),
    ]


def _vllm(context: Context) -> list[ApiRoute]:
    def route(path: str, place: str) -> ApiRoute:
        return ApiRoute("POST", path, LazyRoutes(context, f"antiphon.api.vllm.{place}")(), INFERENCE)

    return [
        route("/v1/chat/completions/render", "render:RenderChat"),
        route("/v1/completions/render", "render:RenderCompletions"),
        route("/v1/messages/render", "render:RenderMessages"),
        route("/v1/responses/render", "render:RenderResponses"),
        route("/v1/chat/completions/derender", "derender:DerenderChat"),
        route("/v1/completions/derender", "derender:DerenderCompletions"),
        route("/inference/v1/generate", "generate:Generate"),
    ]


def _endpoints(context: Context) -> list[ApiRoute]:
    """MLflow's client lists them with a slash at the end, the SDK without."""
    endpoints = LazyRoutes(context, "antiphon.api.dialects.endpoint_routes:ServingEndpoints")
    return [
        ApiRoute("GET", ENDPOINTS, endpoints("list"), INFERENCE),
        ApiRoute("GET", f"{ENDPOINTS}/", endpoints("list"), INFERENCE),
        ApiRoute("GET", f"{ENDPOINTS}/{{name:path}}", endpoints("one"), INFERENCE),
    ]


BUILT_IN = (
    Wire(name="batches", routes=_batches, described="antiphon.api.batches.routes:DESCRIBED"),
    Wire(
        name="messages",
        routes=_messages,
        places=("/v1/messages", ANTHROPIC),
        shared_places=("/v1/models", "/v1/files"),
        mark=VERSION,
        errors=ANTHROPIC_ERRORS,
        described="antiphon.api.messages.routes:DESCRIBED",
    ),
    OLLAMA,
    Wire(name="vllm", routes=_vllm, described="antiphon.api.vllm.schema:DESCRIBED"),
    Wire(name="middles", routes=_middles, described="antiphon.api.completions.routes:DESCRIBED"),
    Wire(name="rerank", routes=_rerank, described="antiphon.api.rerank.routes:DESCRIBED"),
    Wire(name="serving-endpoints", routes=_endpoints, places=(ENDPOINTS,), errors=ENDPOINT_ERRORS),
)
