"""JSON Schemas tried for who asks: what of one is enforced and when, and how far a text keeps to it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from antiphon.errors import ConfigError, RequestError, UnsupportedError
from antiphon.errors.extras import extra
from antiphon.grammar.grammar import Json

from .schema_check_schema import (
    AdmittedText,
    FoundKeyword,
    SchemaChecked,
    SchemaCheckRequest,
    SchemaRefused,
    TextFollowed,
)

if TYPE_CHECKING:  # llguidance is an extra
    from antiphon.grammar.compiler import CompiledGrammar, Vocabulary
    from antiphon.grammar.schema.keywords import Keyword

PATH = "schema"
MOST_TEXT = 65_536
"""Characters of a text that is followed."""
MOST_KEYWORDS = 512
"""Keywords of each kind that are listed."""
MOST_ADMITTED = 16
SECONDS = 5.0
"""That a check may take; one that takes longer is refused, and its thread is the next one's when it is over."""


class SchemaChecks:
    """Checks schemas two at a time, beside the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(2, "schema-check")

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        from antiphon.grammar.admitted import byte_vocabulary  # llguidance is an extra

        return byte_vocabulary()

    async def check(self, wire: SchemaCheckRequest) -> SchemaChecked:
        """What is found of the request's schema and text. Raises `RequestError`."""
        work = asyncio.get_running_loop().run_in_executor(self._threads, self.checked, wire)
        try:
            return await asyncio.wait_for(work, SECONDS)
        except TimeoutError:
            raise RequestError(
                f"the schema takes more than {SECONDS:.0f} seconds to check",
                code="invalid_grammar",
                hint="Send a smaller schema, or one with simpler patterns.",
            ) from None

    def checked(self, wire: SchemaCheckRequest) -> SchemaChecked:
        """The same in this thread, without a limit of time but the compiler's."""
        try:
            with extra("local", "a grammar"):
                vocabulary = self._vocabulary
        except ConfigError as error:
            raise UnsupportedError(error.message, hint=error.hint) from None
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

    return compile_grammar(Json(wire.schema, PATH, strict), vocabulary)


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

    until = time.monotonic() + SECONDS / 4
    found = follow(grammar, text, most=MOST_ADMITTED, is_late=lambda: time.monotonic() > until)
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
