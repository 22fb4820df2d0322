"""Ollama's API as one wire: where its routes are, and the shape of its errors."""

from __future__ import annotations

from starlette.routing import Route

from antiphon.api.wires import Wire
from antiphon.http.context import Context
from antiphon.http.error_shapes import OLLAMA_ERRORS
from antiphon.http.lazy_route import LazyRoute, LazyRoutes

PLACE = "/api"


def _routes(context: Context) -> list[Route]:
    def route(place: str) -> LazyRoute:
        return LazyRoutes(context, f"antiphon.api.ollama.{place}")()

    lists = LazyRoutes(context, "antiphon.api.ollama.models:OllamaLists")
    return [
        Route("/", lists("root"), methods=["GET"]),
        Route(f"{PLACE}/version", lists("version"), methods=["GET"]),
        Route(f"{PLACE}/tags", lists("tags"), methods=["GET"]),
        Route(f"{PLACE}/ps", lists("ps"), methods=["GET"]),
        Route(f"{PLACE}/show", route("models:OllamaShow"), methods=["POST"]),
        Route(f"{PLACE}/chat", route("generate:OllamaChat"), methods=["POST"]),
        Route(f"{PLACE}/generate", route("generate:OllamaGenerate"), methods=["POST"]),
        Route(f"{PLACE}/embed", route("embed:OllamaEmbed"), methods=["POST"]),
        Route(f"{PLACE}/embeddings", route("embed:OllamaEmbeddings"), methods=["POST"]),
        Route(f"{PLACE}/pull", route("pull:OllamaPull"), methods=["POST"]),
        Route(f"{PLACE}/delete", route("pull:OllamaDelete"), methods=["DELETE"]),
    ]


OLLAMA = Wire(
    name="ollama",
    routes=_routes,
    places=(PLACE,),
    errors=OLLAMA_ERRORS,
    described="antiphon.api.ollama.described:DESCRIBED",
)
