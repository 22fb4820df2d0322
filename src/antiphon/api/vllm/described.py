"""The part of the API document that describes vLLM's routes."""

from __future__ import annotations

from typing import Any

from antiphon.api.messages.schema import MessagesRequest
from antiphon.api.openapi.parts import Described, operation, schema
from antiphon.api.responses.schema import ResponsesRequest

from .schema import (
    DerenderChatRequest,
    DerenderCompletionRequest,
    DerenderedChat,
    DerenderedChunk,
    DerenderedCompletion,
    DerenderedPart,
    Generated,
    GenerateRequest,
    RenderChatRequest,
    RenderCompletionRequest,
)


def _either(summary: str, answers: tuple[type, type], body: type) -> dict[str, Any]:
    """A route whose answer is whole, or a chunk."""
    described = operation(summary, answers[0], body=body)
    kinds = [schema(kind)["schema"] for kind in answers]
    described["responses"]["200"]["content"]["application/json"] = {"schema": {"anyOf": kinds}}
    return described


def _several(summary: str, answer: type, body: type) -> dict[str, Any]:
    described = operation(summary, answer, body=body)
    listed = {"schema": {"type": "array", "items": schema(answer)["schema"]}}
    described["responses"]["200"]["content"]["application/json"] = listed
    return described


DESCRIBED = Described(
    (
        RenderChatRequest, RenderCompletionRequest, GenerateRequest, Generated, DerenderChatRequest, DerenderedChat,
        DerenderedChunk, DerenderCompletionRequest, DerenderedCompletion, DerenderedPart,
    ),
    {
        "/v1/chat/completions/render": {
            "post": operation("A chat as a request of ids.", GenerateRequest, body=RenderChatRequest)
        },
        "/v1/messages/render": {
            "post": operation("A message's prompt as a request of ids.", GenerateRequest, body=MessagesRequest)
        },
        "/v1/responses/render": {
            "post": operation("A response's prompt as a request of ids.", GenerateRequest, body=ResponsesRequest)
        },
        "/v1/completions/render": {
            "post": _several("Prompts as requests of ids.", GenerateRequest, RenderCompletionRequest)
        },
        "/v1/chat/completions/derender": {
            "post": _either("A reply of ids as a chat.", (DerenderedChat, DerenderedChunk), DerenderChatRequest)
        },
        "/v1/completions/derender": {
            "post": _either(
                "Replies of ids as completions.", (DerenderedCompletion, DerenderedPart), DerenderCompletionRequest
            )
        },
        "/inference/v1/generate": {
            "post": operation("Samples behind ids.", Generated, body=GenerateRequest, events=Generated)
        },
    },
)  # fmt: skip
