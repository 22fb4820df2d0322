"""Ollama's API as one wire: where its routes are, and the shape of its errors."""

from __future__ import annotations

from antiphon.api.errors import OLLAMA_ERRORS
from antiphon.api.wires import Wire
from antiphon.http.context import Context
from antiphon.http.lazy_route import LazyRoute, LazyRoutes
from antiphon.http.route import ANYBODY, INFERENCE, MODELS, ApiRoute

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
        ApiRoute("POST", f"{PLACE}/embed", route("antiphon.api.ollama.embed:OllamaEmbed"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/embeddings", route("antiphon.api.ollama.embed:OllamaEmbeddings"), INFERENCE),
        ApiRoute("POST", f"{PLACE}/pull", route("antiphon.api.ollama.pull:OllamaPull"), MODELS),
        ApiRoute("DELETE", f"{PLACE}/delete", route("antiphon.api.ollama.pull:OllamaDelete"), MODELS),
    ]


OLLAMA = Wire(
    name="ollama",
    routes=_routes,
    places=(PLACE,),
    errors=OLLAMA_ERRORS,
    described="antiphon.api.ollama.described:DESCRIBED",
)
