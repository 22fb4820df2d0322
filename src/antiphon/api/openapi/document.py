"""The API described, from the same structs that read and write it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.completions.read import MAX_LOGPROBS
from antiphon.api.messages.blocks import KINDS as MESSAGE_BLOCKS
from antiphon.api.messages.read import MOST as MOST_TOOLS
from antiphon.api.native.templates import MAX_CONTROLS, MAX_TEMPLATE
from antiphon.api.wires import Wire
from antiphon.config import Limits
from antiphon.generation import BIAS, MAX_STOP_LENGTH, RANGES, Range
from antiphon.generation.plan import MAX_STOPS
from antiphon.http.context import Context
from antiphon.version import __version__
from antiphon.wire.definitions import NAME
from antiphon.wire.dialect import MAX_KEY, MAX_METADATA, MAX_VALUE, OPENAI, SESSION_IDS
from antiphon.wire.errors import ErrorBody
from antiphon.wire.names.table import KNOWN

from .openai import openai_routes
from .parts import REF, Described

# OpenAPI's description of a request's fields beyond their types: where numbers lie, how long texts and lists are.
#
# Each keyword speaks of one type only, so it may accompany any choice of types, null included.

Schema = dict[str, Any]
NULL: Schema = {"type": "null"}
_GENERATING = frozenset(
    {
        "ChatRequest", "CompletionRequest", "InteractiveRequest", "MessageTokensRequest", "MessagesRequest",
        "OllamaChatRequest", "OllamaGenerateRequest", "RenderRequest", "ResponsesRequest",
    }
)  # fmt: skip
PAIRS: Schema = {
    "maxProperties": MAX_METADATA,
    "propertyNames": {"maxLength": MAX_KEY},
    "additionalProperties": {"type": "string", "maxLength": MAX_VALUE},
}
"""Metadata that a caller stores with an object of its own."""


def _one_of(*names: str, kinds: tuple[str, ...]) -> Schema:
    """Just one of the fields is there."""
    return {
        "oneOf": [
            {
                "required": [name],
                "properties": {other: {"type": kind} if other == name else NULL for other in names},
            }
            for name, kind in zip(names, kinds, strict=True)
        ]
    }


def _there(name: str) -> Schema:
    return {"required": [name], "properties": {name: {"not": NULL}}}


def _for_roles(*roles: str, needs: str) -> Schema:
    """States the fields that a message of these roles must have; none is an assistant's, which alone has calls."""
    then = {"allOf": [_there(needs), {"properties": {"tool_calls": NULL}}]}
    return {"if": {"properties": {"role": {"enum": list(roles)}}, "required": ["role"]}, "then": then}


WHOLE: dict[str, Schema] = {
    "TokenizeRequest": _one_of("prompt", "messages", kinds=("string", "array")),
    "ParseRequest": _one_of("text", "ids", kinds=("string", "array")),
    "ChatMessage": {
        "allOf": [
            _for_roles("system", "developer", "user", needs="content"),
            _for_roles("tool", needs="tool_call_id"),
            _for_roles("function", needs="name"),
        ]
    },
    "ContentPart": {
        "properties": {"type": {"enum": ["text", "input_text", "output_text", "refusal"], "default": "text"}},
        "if": {"properties": {"type": {"const": "refusal"}}, "required": ["type"]},
        "then": _there("refusal"),
        "else": _there("text"),
    },
    "ChatRequest": {
        "if": {"properties": {"store": {"const": True}}, "required": ["store"]},
        "then": {"properties": {"metadata": PAIRS}},
    },
    "MessageParam": {"properties": {"role": {"enum": ["user", "assistant", "system"]}}},
    "InputBlock": {
        "properties": {"type": {"enum": [*MESSAGE_BLOCKS]}},
        "if": {"properties": {"type": {"const": "text"}}, "required": ["type"]},
        "then": _there("text"),
    },
    "Tool": {"allOf": [_there("function"), {"properties": {"type": {"const": "function"}}}]},
}
"""Keywords that relate the fields of an object to each other."""


def bound(schemas: dict[str, Schema], limits: Limits) -> dict[str, Schema]:
    """The schemas of requests with their bounds; others as they are."""
    common, own = _common(limits), _own(limits)
    for kind, keywords in WHOLE.items():
        if kind not in schemas:
            continue
        fields = schemas[kind].get("properties", {}) | keywords.get("properties", {})
        schemas[kind] |= {**keywords, "properties": fields}
    for kind, schema in schemas.items():
        is_request = kind.endswith(("Request", "Create", "Update")) or kind in own
        fields = {**common, **own.get(kind, {})} if is_request else {}
        for name, keywords in schema.get("properties", {}).items():
            found = fields.get(name)
            if found is not None:
                schema["properties"][name] = {**keywords, **found}
        if kind in _GENERATING:
            schema["properties"] = {**other_names(), **schema["properties"]}
    return schemas


def other_names() -> dict[str, Schema]:
    """The names of other servers that are honoured; what a refused one is, its error says."""
    meanings = {
        "limit": "Another name of the limit in tokens.", "constraint": "What the answer must be.",
        "thinking": "How the model thinks.",
    }  # fmt: skip
    return {
        row.name: {"description": meanings.get(row.use, f"Another name of {row.stands_for}.")}
        for row in KNOWN.values()
        if row.use in meanings or row.use == "same"
    }


def _common(limits: Limits) -> dict[str, Schema]:
    """By the names that mean the same wherever they occur."""
    text = {"minLength": 1, "maxLength": MAX_STOP_LENGTH}
    return {
        **{name: _within(allowed) for name, allowed in RANGES.items() if name != "logprobs"},
        "max_completion_tokens": _within(RANGES["max_tokens"]),
        "request_output_len": _within(RANGES["max_tokens"]),
        "top_logprobs": _within(RANGES["logprobs"]),
        "n": {"minimum": 1, "maximum": limits.max_n},
        "session_id": _within(SESSION_IDS),
        "stop": {**text, "maxItems": OPENAI.max_stops, "items": {"type": "string", **text}},
        "logit_bias": {
            "maxProperties": limits.max_logit_bias,
            "propertyNames": {"pattern": "^[0-9]{1,10}$"},
            "additionalProperties": {"type": "number", **_within(BIAS)},
        },
        "messages": {"minItems": 1, "maxItems": limits.max_messages},
        "tools": {"maxItems": OPENAI.max_tools},
        "stop_token_ids": {"maxItems": MAX_STOPS, "items": {"type": "integer", "minimum": 0}},
    }


def _own(limits: Limits) -> dict[str, dict[str, Schema]]:
    """By the request, and in it by the field."""
    ids = {"items": {"type": "integer", "minimum": 0}}
    chat: dict[str, Schema] = {
        "best_of": {"minimum": 1, "maximum": 1},
    }
    text = {"minLength": 1, "maxLength": MAX_STOP_LENGTH}
    ollama: dict[str, Schema] = {"stop": {**text, "items": {"type": "string", **text}}}
    return {
        "OllamaChatRequest": {**ollama, "messages": {"maxItems": limits.max_messages}, "tools": {}},
        "OllamaGenerateRequest": ollama,
        "OllamaEmbedRequest": {"input": {"maxItems": limits.max_inputs}, "dimensions": {"minimum": 1}},
        "ChatRequest": chat,
        "RenderRequest": chat,
        "CompletionRequest": {
            "best_of": {"minimum": 1, "maximum": limits.max_n},
            "logprobs": _within(Range(0, MAX_LOGPROBS)),
            "prompt": {"minLength": 1, "minItems": 1, "maxItems": limits.max_prompts},
            "explain_prefix": {"enum": [False, None]},
        },
        "EmbeddingRequest": {
            "input": {
                "minItems": 1,
                "maxItems": limits.max_inputs,
            },
            "dimensions": {"minimum": 1},
            "truncate_prompt_tokens": {"minimum": -1},
        },
        "RerankRequest": {
            "query": {"minLength": 1},
            "documents": {"minItems": 1, "maxItems": limits.max_inputs},
            "texts": {"minItems": 1, "maxItems": limits.max_inputs},
            "top_n": {"minimum": 0},
            "truncate_prompt_tokens": {"minimum": -1},
            "max_tokens_per_doc": {"minimum": 1},
        },
        "ScoreRequest": {
            "text_1": {"minItems": 1, "maxItems": limits.max_inputs},
            "text_2": {"minItems": 1, "maxItems": limits.max_inputs},
            "truncate_prompt_tokens": {"minimum": -1},
        },
        "EncodeRequest": {"input": {"minItems": 1, "maxItems": limits.max_inputs}},
        "ResponsesRequest": {
            "max_output_tokens": {"minimum": 1},
            "max_tool_calls": {"minimum": 0},
            "metadata": PAIRS,
        },
        "ChatCompletionUpdate": {"metadata": PAIRS},
        "ConversationCreate": {"metadata": PAIRS},
        "ConversationUpdate": {"metadata": PAIRS},
        "DetokenizeRequest": {"tokens": ids},
        "MessageTokensRequest": _messages(),
        "MessagesRequest": _messages(),
        "ParseRequest": {"ids": ids, "prompt_ids": ids},
        "TemplateCheckRequest": {"template": {"maxLength": MAX_TEMPLATE}, "controls": {"maxItems": MAX_CONTROLS}},
        "FunctionDefinition": {"name": {"pattern": f"^{NAME.pattern}$"}},
    }


def _messages() -> dict[str, Schema]:
    """Anthropic's, with more tools than OpenAI's."""
    text = {"minLength": 1, "maxLength": MAX_STOP_LENGTH}
    return {
        "tools": {"maxItems": MOST_TOOLS},
        "stop_sequences": {"maxItems": MAX_STOPS, "items": {"type": "string", **text}},
    }


def _within(allowed: Range) -> Schema:
    lowest = "exclusiveMinimum" if allowed.above else "minimum"
    return {lowest: allowed.low, "maximum": allowed.high}


class ApiDocument:
    """GET /openapi.json, made anew where the limits changed."""

    def __init__(self, context: Context, wires: Sequence[Wire]) -> None:
        self._context = context
        self._wires = tuple(wire.described for wire in wires)
        self._made: tuple[Limits, bytes] | None = None

    async def get(self, request: Request) -> Response:
        limits = self._context.limits
        if self._made is None or self._made[0] is not limits:
            self._made = limits, await asyncio.to_thread(document, limits, self._wires)
        return Response(self._made[1], media_type="application/json")


def document(limits: Limits, wires: Sequence[Described | str] = ()) -> bytes:
    """The OpenAPI 3.1 document of a server that bears so much, whose wires are described so (`Wire.described`)."""
    described: list[Described] = [resolve_name(one) if isinstance(one, str) else one for one in wires]
    parts = (openai_routes(), *described)
    kinds = dict.fromkeys((ErrorBody, *(kind for part in parts for kind in part.kinds)))
    _, components = msgspec.json.schema_components(kinds, ref_template=REF)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "Antiphon", "version": __version__},
            "paths": {path: item for part in parts for path, item in part.paths.items()},
            "components": {"schemas": bound(components, limits)},
        }
    )
