"""OpenAI's routes, and those of the plain server beside them."""

from __future__ import annotations

from typing import Any

from antiphon.api.chat.archive import (
    ChatCompletionList,
    ChatCompletionUpdate,
    DeletedChatCompletion,
    StoredChatCompletion,
)
from antiphon.api.chat.schema import ChatChunk, ChatCompletion, ChatRequest
from antiphon.api.completions.schema import Completion, CompletionRequest
from antiphon.api.embeddings.wire import EmbeddingList, EmbeddingRequest
from antiphon.api.interactive.wire import InteractiveAnswer, InteractiveRequest
from antiphon.api.models.wire import ModelCard, ModelList
from antiphon.api.native.schema import (
    ConversionForms,
    Converted,
    ConvertRequest,
    Detokenized,
    DetokenizeRequest,
    Parsed,
    ParsedPart,
    ParseRequest,
    Rendered,
    RenderRequest,
    TokenizeRequest,
    TokenizerInfo,
    Tokens,
)
from antiphon.api.native.schema_check import SchemaChecked, SchemaCheckRequest
from antiphon.api.native.templates import CheckedTemplate, TemplateCheckRequest, TemplateTryRequest, TriedTemplate
from antiphon.api.native.write import Encoded, EncodeRequest
from antiphon.api.responses.item_schema import ItemList
from antiphon.api.responses.items import MOST, USUAL
from antiphon.api.responses.schema import (
    CompactedResponse,
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
from antiphon.api.streams import DeletedStream
from antiphon.http.recorded import RESUMABLE
from antiphon.http.transcript_runs import CancelledTranscript, TranscriptCancel
from antiphon.wire.errors import ErrorBody

from .parts import Described, events_of, named, operation, plain, schema

_KINDS = (
    ChatRequest, ChatCompletion, ChatChunk, InteractiveRequest, InteractiveAnswer, CompletionRequest, Completion,
    EmbeddingRequest, EmbeddingList, ModelCard, ModelList, TokenizeRequest, Tokens, DetokenizeRequest, Detokenized,
    TokenizerInfo,
    RenderRequest, Rendered, ParseRequest, Parsed, ParsedPart, ResponsesRequest, Response, CompactedResponse,
    DeletedResponse,
    TokensRequest, TokenCount, Conversation, ConversationCreate, ConversationUpdate, DeletedConversation, ItemsCreate,
    ItemList, TemplateCheckRequest, CheckedTemplate, TemplateTryRequest, TriedTemplate, ConvertRequest, Converted,
    ConversionForms, SchemaCheckRequest, SchemaChecked, EncodeRequest, Encoded, StoredChatCompletion,
    ChatCompletionList, ChatCompletionUpdate, DeletedChatCompletion, TranscriptCancel, CancelledTranscript,
    DeletedStream,
)  # fmt: skip


def openai_routes() -> Described:
    return Described(
        _KINDS,
        {
            "/v1/models": {"get": operation("The models that may be requested.", ModelList)},
            "/v1/models/{id}": {
                "get": operation("One model.", ModelCard),
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            },
            "/v1/chat/completions": {
                "get": _listed(),
                "post": _resumable("Continues a conversation.", ChatCompletion, ChatRequest, ChatChunk),
            },
            **_stored_chat(),
            "/v1/chat/interactive": {"post": _interactive()},
            "/v1/openchatml": {"post": _transcript()},
            "/v1/openchatml/{id}/cancel": {
                "post": operation("Cancels an answer, or one call.", CancelledTranscript, body=TranscriptCancel),
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            },
            "/v1/completions": {"post": _resumable("Continues texts.", Completion, CompletionRequest, Completion)},
            "/v1/embeddings": {"post": operation("Makes embeddings of texts.", EmbeddingList, body=EmbeddingRequest)},
            "/v1/encode": {"post": operation("The ids of texts.", Encoded, body=EncodeRequest)},
            "/v1/tokenize": {"post": operation("The ids of a text or a chat.", Tokens, body=TokenizeRequest)},
            "/v1/detokenize": {"post": operation("The text of ids.", Detokenized, body=DetokenizeRequest)},
            "/v1/tokenizer_info": {
                "get": operation("The vocabulary of a model.", TokenizerInfo),
                "parameters": [{"name": "model", "in": "query", "schema": {"type": "string"}}],
            },
            "/v1/render": {"post": operation("The prompt of a chat request.", Rendered, body=RenderRequest)},
            "/v1/parse": {"post": _parse()},
            "/v1/convert": {
                "get": operation("The forms of conversations.", ConversionForms),
                "post": operation("A conversation in another form.", Converted, body=ConvertRequest),
            },
            "/v1/schemas/check": {
                "post": operation("What of a schema is enforced, and when.", SchemaChecked, body=SchemaCheckRequest)
            },
            "/v1/templates/check": {
                "post": operation("What is understood of a chat template.", CheckedTemplate, body=TemplateCheckRequest)
            },
            "/v1/templates/try": {
                "post": operation("A prompt and a reply of a template.", TriedTemplate, body=TemplateTryRequest)
            },
            **_stored(),
            **{
                f"/{name}": {"get": plain(summary)}
                for name, summary in (
                    ("health", "Whether requests are taken now."),
                    ("readyz", "Whether requests are taken now."),
                    ("ping", "Whether requests are taken now."),
                    ("livez", "Whether the process answers."),
                    ("version", "Which version this is."),
                )
            },
        },
    )


def _resumable(summary: str, answer: type, body: type, events: type) -> dict[str, Any]:
    """An operation whose stream can be resumed where its client requests that."""
    described = operation(summary, answer, body=body, events=events)
    described["parameters"] = [{"name": RESUMABLE, "in": "header", "schema": {"type": "boolean"}}]
    where = {"description": "The path of the stream, where it can be resumed.", "schema": {"type": "string"}}
    described["responses"]["200"]["headers"] = {"x-antiphon-resume": where}
    return described


def _interactive() -> dict[str, Any]:
    """A session's turn; its stream is a line of JSON an answer."""
    described = operation("Continues a session.", InteractiveAnswer, body=InteractiveRequest)
    described["responses"]["200"]["content"]["application/x-ndjson"] = {"schema": {"type": "string"}}
    return described


def _transcript() -> dict[str, Any]:
    """OpenChatML in and out; not JSON."""
    text = {"schema": {"type": "string"}}
    content = {"text/x-openchatml": text, "text/event-stream": events_of()}
    return {
        "summary": "Continues an OpenChatML transcript.",
        "parameters": [
            {"name": "stream", "in": "query", "schema": {"type": "boolean"}},
            {"name": RESUMABLE, "in": "header", "schema": {"type": "boolean"}},
        ],
        "requestBody": {"required": True, "content": {"text/x-openchatml": text}},
        "responses": {
            "200": {"description": "The transcript with the turn, or its events.", "content": content},
            "default": {"description": "An error.", "content": {"application/json": schema(ErrorBody)}},
        },
    }


def _listed() -> dict[str, Any]:
    """The stored chat completions."""
    described = operation("Stored completions.", ChatCompletionList)
    pairs = {"type": "object", "additionalProperties": {"type": "string"}}
    by = {"name": "metadata", "in": "query", "style": "deepObject", "explode": True, "schema": pairs}
    described["parameters"] = [*_page(), {"name": "model", "in": "query", "schema": {"type": "string"}}, by]
    return described


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
            "parameters": [named("id")],
            "get": operation("One stored completion.", StoredChatCompletion),
            "post": operation("Changes its metadata.", StoredChatCompletion, body=ChatCompletionUpdate),
            "delete": operation("Deletes it.", DeletedChatCompletion),
        },
        "/v1/chat/completions/{id}/messages": {
            "parameters": [named("id")],
            "get": {**operation("What it answers.", ItemList), "parameters": _page()},
        },
    }


def _parse() -> dict[str, Any]:
    """A reply at once, or in parts."""
    parsed = operation("The messages of a reply, or what a part adds to them.", Parsed, body=ParseRequest)
    kinds = [schema(kind)["schema"] for kind in (Parsed, ParsedPart)]
    parsed["responses"]["200"]["content"]["application/json"] = {"schema": {"anyOf": kinds}}
    return parsed


def _stream() -> dict[str, Any]:
    """A stream that can be resumed: its events again, and its end."""
    events = {"description": "Its events.", "content": {"text/event-stream": events_of()}}
    error = {"description": "An error.", "content": {"application/json": schema(ErrorBody)}}
    after = {"name": "starting_after", "in": "query", "schema": {"type": "integer", "minimum": 0}}
    last = {"name": "last-event-id", "in": "header", "schema": {"type": "integer", "minimum": 0}}
    return {
        "parameters": [named("id")],
        "get": {
            "summary": "The events of a stream, after a number.",
            "parameters": [after, last],
            "responses": {"200": events, "default": error},
        },
        "delete": operation("Ends a stream, and deletes its events.", DeletedStream),
    }


def _stored() -> dict[str, Any]:
    """Responses and conversations."""
    one, item = [named("id")], [named("id"), named("item")]
    made = operation("Makes a response.", Response, body=ResponsesRequest)
    one_item = operation("One item.", ItemList)
    one_item["responses"]["200"]["content"]["application/json"] = {"schema": {"type": "object"}}
    made["responses"]["200"]["content"]["text/event-stream"] = events_of()
    return {
        "/v1/streams/{id}": _stream(),
        "/v1/responses": {"post": made},
        "/v1/responses/compact": {
            "post": operation("Compacts a conversation.", CompactedResponse, body=ResponsesRequest)
        },
        "/v1/responses/input_tokens": {"post": operation("Counts a prompt.", TokenCount, body=TokensRequest)},
        "/v1/responses/{id}": {
            "parameters": one,
            "get": operation("One response.", Response),
            "delete": operation("Forgets a response.", DeletedResponse),
        },
        "/v1/responses/{id}/cancel": {"parameters": one, "post": operation("Stops a response.", Response)},
        "/v1/responses/{id}/input_items": {"parameters": one, "get": operation("What was sent.", ItemList)},
        "/v1/conversations": {"post": operation("Makes one.", Conversation, body=ConversationCreate)},
        "/v1/conversations/{id}": {
            "parameters": one,
            "get": operation("One conversation.", Conversation),
            "post": operation("Changes its metadata.", Conversation, body=ConversationUpdate),
            "delete": operation("Forgets it and its items.", DeletedConversation),
        },
        "/v1/conversations/{id}/items": {
            "parameters": one,
            "get": operation("What is in it.", ItemList),
            "post": operation("Adds items.", ItemList, body=ItemsCreate),
        },
        "/v1/conversations/{id}/items/{item}": {
            "parameters": item,
            "get": one_item,
            "delete": operation("Takes an item out.", Conversation),
        },
    }
