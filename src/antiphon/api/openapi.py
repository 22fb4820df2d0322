"""The API described, from the same structs that read and write it."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from antiphon.config import Limits
from antiphon.version import __version__
from antiphon.wire.bounds import bound
from antiphon.wire.chat.schema import ChatChunk, ChatCompletion, ChatRequest
from antiphon.wire.chat.stored import (
    ChatCompletionList,
    ChatCompletionUpdate,
    DeletedChatCompletion,
    StoredChatCompletion,
)
from antiphon.wire.completions.schema import Completion, CompletionRequest
from antiphon.wire.embeddings.schema import EmbeddingList, EmbeddingRequest
from antiphon.wire.errors import ErrorBody
from antiphon.wire.interactive.schema import InteractiveAnswer, InteractiveRequest
from antiphon.wire.models import ModelCard, ModelList
from antiphon.wire.native.encoding import Encoded, EncodeRequest
from antiphon.wire.native.schema import (
    Detokenized,
    DetokenizeRequest,
    Parsed,
    ParseRequest,
    Rendered,
    RenderRequest,
    TokenizeRequest,
    TokenizerInfo,
    Tokens,
)
from antiphon.wire.native.template_schema import CheckedTemplate, TemplateCheckRequest
from antiphon.wire.responses.item_schema import ItemList
from antiphon.wire.responses.listing import MOST, USUAL
from antiphon.wire.responses.schema import (
    Conversation,
    ConversationCreate,
    ConversationUpdate,
    DeletedConversation,
    DeletedResponse,
    ItemsCreate,
    Response,
    ResponsesRequest,
    TokenCount,
    TokensRequest,
)
from antiphon.wire.transcript.schema import CancelledTranscript, TranscriptCancel

_KINDS = (
    ChatRequest, ChatCompletion, ChatChunk, InteractiveRequest, InteractiveAnswer, CompletionRequest, Completion,
    EmbeddingRequest, EmbeddingList, ModelCard, ModelList, TokenizeRequest, Tokens, DetokenizeRequest, Detokenized,
    TokenizerInfo,
    RenderRequest, Rendered, ParseRequest, Parsed, ErrorBody, ResponsesRequest, Response, DeletedResponse,
    TokensRequest, TokenCount, Conversation, ConversationCreate, ConversationUpdate, DeletedConversation, ItemsCreate,
    ItemList, TemplateCheckRequest, CheckedTemplate, EncodeRequest, Encoded, StoredChatCompletion, ChatCompletionList,
    ChatCompletionUpdate, DeletedChatCompletion, TranscriptCancel, CancelledTranscript,
)  # fmt: skip
_REF = "#/components/schemas/{name}"


@cache
def document(limits: Limits) -> bytes:
    """The OpenAPI 3.1 document of a server that bears so much."""
    _, components = msgspec.json.schema_components(_KINDS, ref_template=_REF)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Antiphon", "version": __version__},
            "paths": {
                "/v1/models": {"get": _operation("The models that may be requested.", ModelList)},
                "/v1/models/{id}": {
                    "get": _operation("One model.", ModelCard),
                    "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                },
                "/v1/chat/completions": {
                    "get": _listed(),
                    "post": _operation(
                        "Goes on with a conversation.", ChatCompletion, body=ChatRequest, events=ChatChunk
                    ),
                },
                **_stored_chat(),
                "/v1/chat/interactive": {"post": _interactive()},
                "/v1/openchatml": {"post": _transcript()},
                "/v1/openchatml/{id}/cancel": {
                    "post": _operation("Cancels an answer, or one call.", CancelledTranscript, body=TranscriptCancel),
                    "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
                },
                "/v1/completions": {
                    "post": _operation("Goes on with texts.", Completion, body=CompletionRequest, events=Completion)
                },
                "/v1/embeddings": {"post": _operation("Makes vectors of texts.", EmbeddingList, body=EmbeddingRequest)},
                "/v1/encode": {"post": _operation("The ids of texts.", Encoded, body=EncodeRequest)},
                "/v1/tokenize": {"post": _operation("The ids of a text or a chat.", Tokens, body=TokenizeRequest)},
                "/v1/detokenize": {"post": _operation("The text of ids.", Detokenized, body=DetokenizeRequest)},
                "/v1/tokenizer_info": {
                    "get": _operation("The vocabulary of a model.", TokenizerInfo),
                    "parameters": [{"name": "model", "in": "query", "schema": {"type": "string"}}],
                },
                "/v1/render": {"post": _operation("The prompt of a chat request.", Rendered, body=RenderRequest)},
                "/v1/parse": {"post": _operation("The messages of a reply.", Parsed, body=ParseRequest)},
                "/v1/templates/check": {
                    "post": _operation(
                        "What is understood of a chat template.", CheckedTemplate, body=TemplateCheckRequest
                    )
                },
                **_stored(),
                **{
                    f"/{name}": {"get": _plain(summary)}
                    for name, summary in (
                        ("health", "Whether requests are taken now."),
                        ("readyz", "Whether requests are taken now."),
                        ("ping", "Whether requests are taken now."),
                        ("livez", "Whether the process answers."),
                        ("version", "Which version this is."),
                    )
                },
            },
            "components": {"schemas": bound(components, limits)},
        }
    )


def _interactive() -> dict[str, Any]:
    """A session's turn; its stream is a line of JSON an answer."""
    operation = _operation("Goes on with a session.", InteractiveAnswer, body=InteractiveRequest)
    operation["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": {"type": "string"}}
    return operation


def _transcript() -> dict[str, Any]:
    """OpenChatML in and out; not JSON."""
    text = {"schema": {"type": "string"}}
    content = {"text/x-openchatml": text, "text/event-stream": _events()}
    return {
        "summary": "Goes on with an OpenChatML transcript.",
        "parameters": [{"name": "stream", "in": "query", "schema": {"type": "boolean"}}],
        "requestBody": {"required": True, "content": {"text/x-openchatml": text}},
        "responses": {
            "200": {"description": "The transcript with the turn, or its events.", "content": content},
            "default": {"description": "An error.", "content": {"application/json": _schema(ErrorBody)}},
        },
    }


def _listed() -> dict[str, Any]:
    """The stored chat completions."""
    operation = _operation("Stored completions.", ChatCompletionList)
    pairs = {"type": "object", "additionalProperties": {"type": "string"}}
    by = {"name": "metadata", "in": "query", "style": "deepObject", "explode": True, "schema": pairs}
    operation["parameters"] = [*_page(), {"name": "model", "in": "query", "schema": {"type": "string"}}, by]
    return operation


def _page() -> list[dict[str, Any]]:
    """The part of a list that is requested."""
    fields: dict[str, dict[str, Any]] = {
        "after": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
        "order": {"enum": ["asc", "desc"]},
    }
    return [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]


def _stored_chat() -> dict[str, Any]:
    """One stored chat completion."""
    return {
        "/v1/chat/completions/{id}": {
            "parameters": [_named("id")],
            "get": _operation("One stored completion.", StoredChatCompletion),
            "post": _operation("Changes its metadata.", StoredChatCompletion, body=ChatCompletionUpdate),
            "delete": _operation("Deletes it.", DeletedChatCompletion),
        },
        "/v1/chat/completions/{id}/messages": {
            "parameters": [_named("id")],
            "get": {**_operation("What it answers.", ItemList), "parameters": _page()},
        },
    }


def _stored() -> dict[str, Any]:
    """Responses and conversations."""
    one, item = [_named("id")], [_named("id"), _named("item")]
    made = _operation("Makes a response.", Response, body=ResponsesRequest)
    one_item = _operation("One item.", ItemList)
    one_item["responses"]["200"]["content"]["application/json"] = {"schema": {"type": "object"}}
    made["responses"]["200"]["content"]["text/event-stream"] = _events()
    return {
        "/v1/responses": {"post": made},
        "/v1/responses/input_tokens": {"post": _operation("Counts a prompt.", TokenCount, body=TokensRequest)},
        "/v1/responses/{id}": {
            "parameters": one,
            "get": _operation("One response.", Response),
            "delete": _operation("Forgets a response.", DeletedResponse),
        },
        "/v1/responses/{id}/cancel": {"parameters": one, "post": _operation("Stops a response.", Response)},
        "/v1/responses/{id}/input_items": {"parameters": one, "get": _operation("What was sent.", ItemList)},
        "/v1/conversations": {"post": _operation("Makes one.", Conversation, body=ConversationCreate)},
        "/v1/conversations/{id}": {
            "parameters": one,
            "get": _operation("One conversation.", Conversation),
            "post": _operation("Changes its metadata.", Conversation, body=ConversationUpdate),
            "delete": _operation("Forgets it and its items.", DeletedConversation),
        },
        "/v1/conversations/{id}/items": {
            "parameters": one,
            "get": _operation("What is in it.", ItemList),
            "post": _operation("Adds items.", ItemList, body=ItemsCreate),
        },
        "/v1/conversations/{id}/items/{item}": {
            "parameters": item,
            "get": one_item,
            "delete": _operation("Takes an item out.", Conversation),
        },
    }


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _operation(summary: str, answer: type, *, body: type | None = None, events: type | None = None) -> dict[str, Any]:
    content = {"application/json": _schema(answer)}
    if events is not None:
        content["text/event-stream"] = _events(events)
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {"description": "An error.", "content": {"application/json": _schema(ErrorBody)}},
        },
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": _schema(body)}}
    return operation


def _events(kind: type | None = None) -> dict[str, Any]:
    """A stream, by one of its events, whose data is JSON (the last one's is ``[DONE]``)."""
    content: dict[str, Any] = {"contentMediaType": "application/json"}
    if kind is not None:
        content["contentSchema"] = {"anyOf": [_schema(kind)["schema"], _schema(ErrorBody)["schema"]]}
    data = {"type": "string", "anyOf": [{"const": "[DONE]"}, content]}
    return {"schema": {"type": "object", "properties": {"data": data}, "required": ["data"]}}


def _plain(summary: str) -> dict[str, Any]:
    error = {"description": "Not now.", "content": {"application/json": _schema(ErrorBody)}}
    return {"summary": summary, "responses": {"200": {"description": "Yes."}, "503": error}}


def _schema(kind: type) -> dict[str, Any]:
    return {"schema": {"$ref": _REF.format(name=kind.__name__)}}
