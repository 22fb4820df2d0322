"""JSON Schemas (2020-12) of the header, the JSON projection and the streaming events, made of the tables in the code.

``docs/schemas`` has them as files. They describe what to write: a reader takes a header whose settings are out of
range, and refuses these on use (A-O31).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from antiphon.conversation import Channel, End, FinishReason, ReasoningEffort, Role

from .document import VERSION
from .events import REASONING_DELTA
from .head import INTENTS
from .spelling import CONTROLS

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VERSION: Schema = {"type": "string", "pattern": r"^[12]\.[0-9]+$"}
_WORD: Schema = {"type": "string", "minLength": 1}


def _named(name: str, title: str, schema: Schema) -> Schema:
    return {"$schema": _DIALECT, "$id": f"urn:openchatml:{VERSION}:{name}", "title": title, **schema}


def _closed(required: Iterable[str], properties: Schema) -> Schema:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def _object(**properties: Schema | bool) -> Schema:
    return {"type": "object", "properties": properties}


def _one_of(words: Iterable[str]) -> Schema:
    return {"enum": [str(word) for word in words]}


def _words(of: Schema) -> Schema:
    """A list of words, or one word alone."""
    return {"anyOf": [of, {"type": "array", "items": of}]}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _number(least: float, most: float | None = None, *, whole: bool = False) -> Schema:
    limits: Schema = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer" if whole else "number", **limits}


_CHANNEL = _one_of(Channel)

SETTINGS = _object(
    temperature=_number(0, 2),
    top_p={"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    top_k=_number(-1, whole=True),
    min_p=_number(0, 1),
    seed={"type": "integer"},
    max_tokens=_number(1, whole=True),
    stop=_words(_WORD),
    reasoning_effort=_one_of(ReasoningEffort),
    builtin_tools=_words(_WORD),
)
"""``generation_settings``; a parser ignores keys that it does not know, here and in the whole header (OCM-25)."""

_KEYS: Schema = {
    "model": {"type": "string"},
    "generation_settings": SETTINGS,
    "capabilities": _object(
        roles=_words(_WORD),
        channels=_words(_CHANNEL),
        tokens=_words(_one_of(control.spelling for control in CONTROLS)),
        streaming=_words(_WORD),
    ),
    "profiles": _object(
        harmony=_object(
            enabled={"type": "boolean"},
            encoding={"type": "string"},
            require_channels=_words(_CHANNEL),
            tool_calls_in=_words(_CHANNEL),
            builtins_in=_words(_CHANNEL),
        )
    ),
}

# YAML reads 2.2 without quotes as a number.
_WRITTEN_VERSION: Schema = {"anyOf": [_VERSION, {"type": "number", "minimum": 1, "exclusiveMaximum": 3}]}
HEADER = _named(
    "header",
    "The header of an OpenChatML transcript",
    {"type": "object", "required": ["version"], **_object(version=_WRITTEN_VERSION, **_KEYS)},
)

_CALL = _closed(
    ["recipient", "arguments"],
    {
        "id": _or_null(_WORD),
        "recipient": _WORD,
        "content_type": _or_null(_WORD),
        "arguments": {"type": "string"},
    },
)
_OF_A_CALL: Schema = {"name": _WORD, "constrain": {"type": "boolean"}, "channel": {"type": "null"}}
_OF_A_BODY: Schema = {
    **_OF_A_CALL,
    "to": _WORD,
    "call_id": _WORD,
    "content_type": _WORD,
    "end": _one_of(end for end in End if end is not End.CALL),
}
_TEXT: Schema = {"type": "string"}
_NOTHING: Schema = {"type": "null"}


def _frame(required: Iterable[str], properties: Schema) -> Schema:
    """A message object: its keys as always, but for ``properties``."""
    keys: Schema = {
        "role": _one_of(Role),
        "channel": _or_null(_CHANNEL),
        "content": _NOTHING,
        "tool_call": _NOTHING,
        "thinking": _NOTHING,
        "intent": _or_null(_one_of(INTENTS)),
    }
    return _closed(["role", *required], {**keys, **properties})


_ASSISTANT: Schema = {"const": str(Role.ASSISTANT)}
_REPLY: Schema = {
    "if": {"properties": {"role": {"const": str(Role.TOOL)}}},
    "then": {"required": ["ocm"], "properties": {"ocm": {"required": ["name"]}}},
}
"""A tool's reply names its tool (OCM-67)."""
_UNWRITTEN: Schema = {
    "if": {"required": ["ocm"], "properties": {"ocm": {"required": ["channel"]}}},
    "then": {"properties": {"channel": {"enum": [str(Channel.FINAL), None]}}},
}
"""The channel of a frame that has none written (OCM-54)."""

_MESSAGE: Schema = {
    "oneOf": [
        {**_frame(["content"], {"content": _TEXT, "ocm": _closed([], _OF_A_BODY)}), "allOf": [_REPLY, _UNWRITTEN]},
        _frame(
            ["thinking", "channel"],
            {"role": _ASSISTANT, "channel": {"const": str(Channel.ANALYSIS)}, "thinking": _TEXT,
             "ocm": _closed([], {key: of for key, of in _OF_A_BODY.items() if key != "channel"})},
        ),
        {
            **_frame(["tool_call"], {"role": _ASSISTANT, "tool_call": _CALL, "ocm": _closed([], _OF_A_CALL)}),
            "allOf": [_UNWRITTEN],
        },
        {"$ref": "#/$defs/turn"},
    ]
}  # fmt: skip
_TURN: Schema = {
    **_frame(
        [],
        {
            "role": _ASSISTANT,
            "content": _or_null(_TEXT),
            "thinking": _or_null(_TEXT),
            "tool_call": _or_null(_CALL),
            "ocm": _closed([], {}),
        },
    ),
    "anyOf": [
        {"properties": {one: {"not": _NOTHING}, other: {"not": _NOTHING}}, "required": [one, other]}
        for one, other in (("thinking", "content"), ("thinking", "tool_call"), ("content", "tool_call"))
    ],
}
"""Several bodies of an assistant in one object: each is a frame of its own (§10)."""

PROJECTION = _named(
    "projection",
    "An OpenChatML transcript, or one message of it, as JSON",
    {
        "anyOf": [{"$ref": "#/$defs/transcript"}, {"$ref": "#/$defs/message"}],
        "$defs": {
            "transcript": _closed(
                ["messages"],
                {
                    "version": _VERSION,
                    "header": _object(version=False, **_KEYS),
                    "messages": {"type": "array", "items": {"$ref": "#/$defs/message"}},
                },
            ),
            "message": _MESSAGE,
            "turn": _TURN,
        },
    },
)


def _event(type: str, **fields: Schema) -> Schema:
    counted = {"message_id": _WORD, "seq": _number(0, whole=True)}
    return _closed(["type", *counted, *fields], {"type": {"const": type}, **counted, **fields})


_REASON = _one_of(FinishReason)
_ERROR = {"code": _WORD, "message": _TEXT}
_NULLABLE_WORD = _or_null(_WORD)
"""A reader gives no id to a call that has none; a server always does."""

EVENTS = _named(
    "events",
    "A streaming event of OpenChatML",
    {
        "oneOf": [
            _event(
                "frame.start",
                role=_one_of([Role.ASSISTANT, Role.TOOL]),
                channel=_NULLABLE_WORD,
                text=_TEXT,
                **dict.fromkeys(("to", "call_id", "name", "intent", "content_type", "constrain"), _NULLABLE_WORD),
            ),
            _event(
                "frame.end",
                end=_one_of(end for end in End if end is not End.NONE),
                content_type=_NULLABLE_WORD,
                constrain=_NULLABLE_WORD,
            ),
            _event("response.delta", channel=_one_of([Channel.FINAL, Channel.COMMENTARY]), delta=_WORD),
            _event("response.delta.flush"),
            _event("response.done", end_reason={"anyOf": [_one_of([End.RETURN]), _REASON]}),
            _event("response.done", end_reason={"const": End.CALL.value}, call_id=_NULLABLE_WORD),
            _event(
                "tool.call",
                call_id=_NULLABLE_WORD,
                recipient=_TEXT,
                channel=_TEXT,
                content_type={"type": ["string", "null"]},
            ),
            _event("tool.call.delta", call_id=_NULLABLE_WORD, delta=_WORD),
            _event("tool.reply", call_id=_WORD, name=_WORD, channel=_TEXT, content=_TEXT),
            _event("response.cancel", reason=_REASON),
            _event("tool.cancel", call_id=_WORD, reason=_TEXT),
            _event(REASONING_DELTA, channel=_TEXT, delta=_TEXT),
            # One that no message has caused has no id and no number.
            {
                **_event("error", **_ERROR, reason=_REASON, call_id=_NULLABLE_WORD),
                "required": ["type", "code", "message"],
                "dependentRequired": {"message_id": ["seq"], "seq": ["message_id"]},
            },
        ]
    },
)

SCHEMAS = {"header": HEADER, "projection": PROJECTION, "events": EVENTS}
"""The three schemas by their name, which is the end of their ``$id``."""
