"""Ollama's API as one wire: its routes, the shape of its errors, and its part of /openapi.json."""

from __future__ import annotations

from starlette.routing import Route

from antiphon.api.wires import Wire
from antiphon.http.context import Context
from antiphon.http.error_shapes import OLLAMA_ERRORS

from .described import DESCRIBED
from .embed import OllamaEmbed, OllamaEmbeddings
from .generate import OllamaChat, OllamaGenerate
from .models import OllamaLists, OllamaShow
from .pull import OllamaDelete, OllamaPull, Unoffered

PLACE = "/api"


def _routes(context: Context) -> list[Route]:
    lists, unoffered = OllamaLists(context), Unoffered(context)
    return [
        Route("/", lists.root, methods=["GET"]),
        Route(f"{PLACE}/version", lists.version, methods=["GET"]),
        Route(f"{PLACE}/tags", lists.tags, methods=["GET"]),
        Route(f"{PLACE}/ps", lists.ps, methods=["GET"]),
        Route(f"{PLACE}/show", OllamaShow(context), methods=["POST"]),
        Route(f"{PLACE}/chat", OllamaChat(context), methods=["POST"]),
        Route(f"{PLACE}/generate", OllamaGenerate(context), methods=["POST"]),
        Route(f"{PLACE}/embed", OllamaEmbed(context), methods=["POST"]),
        Route(f"{PLACE}/embeddings", OllamaEmbeddings(context), methods=["POST"]),
        Route(f"{PLACE}/pull", OllamaPull(context), methods=["POST"]),
        Route(f"{PLACE}/delete", OllamaDelete(context), methods=["DELETE"]),
        *(Route(f"{PLACE}/{name}", unoffered, methods=["POST"]) for name in ("create", "copy", "push")),
        Route(f"{PLACE}/blobs/{{digest}}", unoffered, methods=["POST", "HEAD"]),
    ]


OLLAMA = Wire(name="ollama", routes=_routes, places=(PLACE,), errors=OLLAMA_ERRORS, described=DESCRIBED)
