"""POST /v1/convert: a conversation from one form to another, what is lost on the way, and what is wrong with it.

GET /v1/convert: the forms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.api.native.schema import ConversionFinding, ConversionForms, Converted, ConvertRequest, FoundLoss
from antiphon.catalog.known_formats import known_formats
from antiphon.conversation import Loss
from antiphon.errors import FormatError, NotFoundError, Position, RequestError, TemplateError, TokenError
from antiphon.formats.openchatml import Finding, validate
from antiphon.http.context import Context
from antiphon.http.post import Post, PostRoute
from antiphon.isolation import Task
from antiphon.structs import ready
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from . import SOURCES, TARGETS
from .convert import Conversion, source_named, target_named
from .detect import form_of
from .harmony import harmony_findings

# Answer to a request that converts a conversation: the other form, losses, and faults.

CONVERT = Task("antiphon.conversion.route:work", "the conversion", "input", processor=1.3, memory=512 * 2**20)
MOST_LISTED = 500
"""Losses, warnings and findings of each conversion that are listed."""

_FAULTS = (FormatError, RequestError, TemplateError, TokenError, RecursionError)


def work(piece: bytes) -> bytes:
    """Converts what a request says, in a process of its own."""
    return encode(converted(msgspec.json.decode(piece, type=ready(ConvertRequest))))


def converted(wire: ConvertRequest) -> Converted:
    """Converts the input. An input with faults is an answer too; raises `NotFoundError` for unknown forms."""
    _check_names(wire)
    data = wire.input.encode("utf-8", "surrogatepass")
    found, form, output = _Found(), wire.source, None
    try:
        form = form or form_of(data)
        output = _output(wire, form, data, found)
    except _FAULTS as error:
        return found.answer(form, wire.to, findings=_findings(form, data, error))
    warnings = () if wire.to else islice(_validated(form, data), MOST_LISTED)
    return found.answer(form, wire.to, output=output, findings=list(map(_finding, warnings)))


@dataclass(slots=True)
class _Found:
    """Reports of a conversion while it runs."""

    lost: int = 0
    losses: list[FoundLoss] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def lose(self, loss: Loss) -> None:
        self.lost += 1
        if self.lost <= MOST_LISTED:
            self.losses.append(FoundLoss(**asdict(loss)))

    def warn(self, warning: str) -> None:
        if len(self.warnings) < MOST_LISTED:
            self.warnings.append(warning)

    def answer(
        self, form: str | None, to: str | None, *, findings: list[ConversionFinding], output: str | None = None
    ) -> Converted:
        return Converted(
            ok=all(one.warning for one in findings),
            source=form,
            to=to,
            output=output,
            lost=self.lost,
            losses=self.losses,
            warnings=self.warnings,
            findings=findings,
        )


def _output(wire: ConvertRequest, form: str, data: bytes, found: _Found) -> str | None:
    """The input in the other form; None where it is only to be read."""
    if wire.to is None:
        source = source_named(form, lenient=bool(wire.lenient))
        source.feed(data)
        for _ in source.close():
            pass
        return None
    run = Conversion(
        to=wire.to, source=form, lenient=bool(wire.lenient), on_loss=found.lose, on_warning=found.warn
    ).run([data])
    return b"".join(run).decode("utf-8", "replace")


def _check_names(wire: ConvertRequest) -> None:
    for path, name, lookup in (("to", wire.to, target_named), ("from", wire.source, source_named)):
        if name is None:
            continue
        try:
            lookup(name)
        except NotFoundError as error:
            error.position = Position(path=path)
            raise


def _findings(form: str | None, data: bytes, error: Exception) -> list[ConversionFinding]:
    """All that is wrong with the input, where its form has a validator; else the error that ended the reading."""
    if form is not None and isinstance(error, FormatError):
        found = [_finding(one) for one in islice(_validated(form, data), MOST_LISTED)]
        if any(not one.warning for one in found):
            return found
    if isinstance(error, RecursionError):
        return [ConversionFinding(code="invalid_value", message="the input is nested too deeply")]
    assert isinstance(error, FormatError | RequestError | TemplateError | TokenError)
    hint = None if error.hint is None else error.hint.replace("--lenient", "lenient").replace("--from", "from")
    return [_finding(Finding(error.code, error.message, error.position or Position(), hint))]


def _validated(form: str, data: bytes) -> Iterator[Finding]:
    if form == "openchatml":
        return iter(validate([data], fragment=True))
    return harmony_findings([data]) if form == "harmony" else iter(())


def _finding(found: Finding) -> ConversionFinding:
    place = asdict(found.position)
    return ConversionFinding(code=found.code, message=found.message, hint=found.hint, warning=found.warning, **place)


MOST_CHARACTERS = 2 * 2**20
"""Longest input, in characters; half a second of work."""


class Forms:
    """The names of all forms; templates take long to import, the first time."""

    def __init__(self, context: Context) -> None:
        """They are the same in every context."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        formats = await asyncio.to_thread(known_formats)
        templates = sorted(name for name in formats.names if name not in TARGETS)
        found = ConversionForms(source=list(SOURCES), to=list(TARGETS), templates=templates)
        await Response(encode(found), media_type="application/json")(scope, receive, send)


class Convert(PostRoute):
    async def answer(self, post: Post) -> None:
        wire = await post.read(ConvertRequest)
        if len(wire.input) > MOST_CHARACTERS:
            raise refused("input", f"has {len(wire.input)} characters; at most {MOST_CHARACTERS} are converted.")
        answer = await post.context.isolation.run(CONVERT, encode(wire), owner=post.tenant.owner)
        await post.send_response(Response(answer, media_type="application/json"))
