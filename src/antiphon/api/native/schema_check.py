"""Checks of JSON Schemas: what of one is enforced and when, and how far a text conforms to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from antiphon.conversation import JsonSchema
from antiphon.errors import ConfigError, RequestError, UnsupportedError
from antiphon.errors.extras import extra
from antiphon.grammar.grammar import Json
from antiphon.isolation import Task
from antiphon.structs import ready
from antiphon.wire.json import encode

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar, Vocabulary
    from antiphon.grammar.schema.keywords import Keyword


# The checks as JSON.


class SchemaCheckRequest(msgspec.Struct, kw_only=True):
    """``schema`` is a JSON Schema; ``text``, an answer that is to be followed by it.

    ``strict``: what cannot be enforced while sampling is refused; ``compact``: no blanks are admitted. Both are as in
    ``response_format``.
    """

    schema: JsonSchema
    text: str | None = None
    strict: bool | None = None
    compact: bool | None = None


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
    """Admissible text: ``text``, with what must follow its first character; or each character from that to ``to``."""

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


PATH = "schema"
MOST_TEXT = 65_536
"""Characters of a text that is followed."""
MOST_KEYWORDS = 512
"""Keywords of each kind that are listed."""
MOST_ADMITTED = 16
FOLLOWED = 0.5
"""Seconds of processor time that following a text may take."""


CHECK = Task("antiphon.api.native.schema_check:check", "the check of the schema", "schema",
             prepare="antiphon.api.native.schema_check:prepare")  # fmt: skip


def check(piece: bytes) -> bytes:
    """Checks what a request says, in a process of its own."""
    return encode(checked(msgspec.json.decode(piece, type=ready(SchemaCheckRequest))))


def prepare() -> None:
    """Makes what all checks need; where an extra is not installed each of them says so."""
    with suppress(UnsupportedError):
        _vocabulary()


@cache
def _vocabulary() -> Vocabulary:
    try:
        with extra("local", "a grammar"):
            from antiphon.grammar.admitted import byte_vocabulary  # llguidance is an extra

            return byte_vocabulary()
    except ConfigError as error:
        raise UnsupportedError(error.message, hint=error.hint) from None


def checked(wire: SchemaCheckRequest) -> SchemaChecked:
    """Checks the request's schema and text. Raises `RequestError`."""
    vocabulary = _vocabulary()
    try:
        return _answer(wire, _compiled(wire, vocabulary, strict=bool(wire.strict)), None)
    except RequestError as error:
        return _answer(wire, _without_strict(wire, vocabulary), _refused(error))


def _without_strict(wire: SchemaCheckRequest, vocabulary: Vocabulary) -> CompiledGrammar | None:
    """The grammar of a schema that only ``strict`` refuses; None of another."""
    if not wire.strict:
        return None
    try:
        return _compiled(wire, vocabulary, strict=False)
    except RequestError:
        return None


def _compiled(wire: SchemaCheckRequest, vocabulary: Vocabulary, *, strict: bool) -> CompiledGrammar:
    from antiphon.grammar.compiler import compile_grammar  # llguidance is an extra

    return compile_grammar(Json(wire.schema, PATH, strict, any_whitespace=not wire.compact), vocabulary)


def _refused(error: RequestError) -> SchemaRefused:
    path = (error.param or "").removeprefix(PATH)
    return SchemaRefused(code=error.code, message=error.message, hint=error.hint, path=path)


def _answer(wire: SchemaCheckRequest, grammar: CompiledGrammar | None, refused: SchemaRefused | None) -> SchemaChecked:
    if grammar is None:
        return SchemaChecked(ok=False, enforced=[], judged=[], unused=[], refused=refused, engine=None, text=None)
    from antiphon.grammar.schema import keywords  # jsonschema-rs is of the same extra

    schema = grammar.schemas[PATH]
    nothing = schema.engine is True and schema.schema is not True
    split = keywords(wire.schema, schema.relaxed, nothing_enforced=nothing and bool(schema.relaxed))
    return SchemaChecked(
        ok=refused is None,
        enforced=_listed(split.enforced),
        judged=_listed(split.judged),
        unused=_listed(split.unused),
        refused=refused,
        engine=None if schema.engine == wire.schema else schema.engine,
        text=None if wire.text is None else _followed(grammar, wire.text),
    )


def _refuse(constant: str) -> None:
    """``NaN`` and infinities, which Python reads and JSON does not have."""
    raise ValueError(constant)


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _listed(found: Iterable[Keyword]) -> list[FoundKeyword]:
    return [FoundKeyword(keyword=one.keyword, path=one.path) for one in (*found,)[:MOST_KEYWORDS]]


def _followed(grammar: CompiledGrammar, text: str) -> TextFollowed:
    from antiphon.grammar.admitted import follow  # llguidance is an extra

    until = time.process_time() + FOLLOWED
    found = follow(grammar, text, most=MOST_ADMITTED, is_late=lambda: time.process_time() > until)
    whole = found.fits == len(text)
    return TextFollowed(
        fits=found.fits,
        unexpected=None if whole else text[found.fits],
        complete=found.complete,
        admitted=[AdmittedText(text=one.text, to=one.to) for one in found.admitted],
        more=found.more,
        others=found.others,
        fault=grammar.schemas[PATH].fault(text) if _is_json(text) else None,
        gave_up=found.gave_up,
    )
