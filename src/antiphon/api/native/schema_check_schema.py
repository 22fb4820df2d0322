"""JSON Schemas tried as JSON: what of one is enforced and when, and how far a text keeps to it."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.conversation import JsonSchema


class SchemaCheckRequest(msgspec.Struct, kw_only=True):
    """``schema`` is a JSON Schema; ``text``, an answer that is to be followed by it.

    ``strict``: what cannot be enforced while sampling is refused, as in ``response_format``.
    """

    schema: JsonSchema
    text: str | None = None
    strict: bool | None = None


class FoundKeyword(msgspec.Struct, frozen=True, kw_only=True):
    """A keyword, and its place in the schema (``.properties.a.pattern``)."""

    keyword: str
    path: str


class SchemaRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request with this schema is refused, and the place in it."""

    code: str
    message: str
    hint: str | None
    path: str


class AdmittedText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may come: ``text``, with what must follow its first character; or each character from that to ``to``."""

    text: str
    to: str | None = None


class TextFollowed(msgspec.Struct, frozen=True, kw_only=True):
    """How far the grammar admits a text.

    The first ``fits`` characters are admitted. ``unexpected`` is the character behind them, null where all of the text
    is admitted; ``complete``: the answer may end behind them. ``admitted`` has what may come there, at most a few;
    ``others``: characters beyond ASCII too. ``fault`` is why the value of a text that is JSON does not fit
    the schema, however it is written; null of other texts.
    ``gave_up``: the grammar came to a limit there.
    """

    fits: int
    unexpected: str | None
    complete: bool
    admitted: list[AdmittedText]
    more: int
    others: bool
    fault: str | None
    gave_up: bool


class SchemaChecked(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: a request may have the schema. ``enforced`` while sampling, ``judged`` when the answer is whole.

    ``unused``: without effect. ``engine`` is the schema that the engine is shown, null where it is the same.
    """

    ok: bool
    enforced: list[FoundKeyword]
    judged: list[FoundKeyword]
    unused: list[FoundKeyword]
    refused: SchemaRefused | None
    engine: Any
    text: TextFollowed | None
