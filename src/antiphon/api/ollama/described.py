"""Ollama's routes in /openapi.json."""

from __future__ import annotations

from typing import Any

from antiphon.api.openapi.parts import Described, operation, schema

from .schema import (
    OllamaChatAnswer,
    OllamaChatRequest,
    OllamaEmbedAnswer,
    OllamaEmbeddingsAnswer,
    OllamaEmbeddingsRequest,
    OllamaEmbedRequest,
    OllamaError,
    OllamaGenerateAnswer,
    OllamaGenerateRequest,
    OllamaModels,
    OllamaProgress,
    OllamaPullRequest,
    OllamaRunningModels,
    OllamaShown,
    OllamaShowRequest,
    OllamaVersion,
)

_KINDS = (
    OllamaChatRequest, OllamaChatAnswer, OllamaGenerateRequest, OllamaGenerateAnswer, OllamaEmbedRequest,
    OllamaEmbedAnswer, OllamaEmbeddingsRequest, OllamaEmbeddingsAnswer, OllamaShowRequest, OllamaShown,
    OllamaPullRequest, OllamaProgress, OllamaModels, OllamaRunningModels, OllamaVersion, OllamaError,
)  # fmt: skip


def _described(summary: str, answer: type, *, body: type | None = None, lines: bool = False) -> dict[str, Any]:
    """An operation, whose answer may be a line of JSON a change."""
    made = operation(summary, answer, body=body)
    made["responses"]["default"]["content"] = {"application/json": schema(OllamaError)}
    if lines:
        made["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": {"type": "string"}}
    return made


def _deletes() -> dict[str, Any]:
    made = _described("Deletes a model's file from the store.", OllamaProgress, body=OllamaPullRequest)
    made["responses"]["200"]["content"] = {"application/json": {"schema": {"type": "object"}}}
    return made


def _post(summary: str, answer: type, body: type, *, lines: bool = False) -> dict[str, Any]:
    return {"post": _described(summary, answer, body=body, lines=lines)}


DESCRIBED = Described(
    _KINDS,
    {
        "/api/chat": _post("Continues a conversation.", OllamaChatAnswer, OllamaChatRequest, lines=True),
        "/api/generate": _post("Answers a prompt.", OllamaGenerateAnswer, OllamaGenerateRequest, lines=True),
        "/api/embed": _post("Makes embeddings of texts.", OllamaEmbedAnswer, OllamaEmbedRequest),
        "/api/embeddings": _post("Makes the embedding of a text.", OllamaEmbeddingsAnswer, OllamaEmbeddingsRequest),
        "/api/show": _post("One model.", OllamaShown, OllamaShowRequest),
        "/api/pull": _post("Fetches a model of the catalog.", OllamaProgress, OllamaPullRequest, lines=True),
        "/api/delete": {"delete": _deletes()},
        "/api/tags": {"get": _described("The models that are here.", OllamaModels)},
        "/api/ps": {"get": _described("The models that are in memory.", OllamaRunningModels)},
        "/api/version": {"get": _described("The release of Ollama whose API this is.", OllamaVersion)},
    },
)
