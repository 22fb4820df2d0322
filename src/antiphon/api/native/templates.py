"""Chat templates tried for who asks: the request's format, and what was found of it as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from antiphon.errors import Position, TemplateError, UnsupportedError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.replies.describe import Found
from antiphon.formats.replies.proof import Failure, Part
from antiphon.formats.replies.response_template import from_response_template
from antiphon.formats.template import (
    JinjaCache,
    JinjaFormat,
    Limits,
    PromptChange,
    TemplateCheck,
    TemplatedHarmony,
    jinja_format,
    origin_words,
)
from antiphon.formats.template.parts import TemplateParts
from antiphon.formats.template.stability import made_of
from antiphon.generation import Model
from antiphon.tokens import Control
from antiphon.wire.errors import refused

from .template_schema import (
    CheckedTemplate,
    LostShape,
    PromptBesideHarmony,
    PromptChangeFound,
    ReadPart,
    RepliesFound,
    TemplateCheckRequest,
    UnsafeFound,
)

MAX_TEMPLATE = 65_536
"""Characters of a template that a request may have checked."""
MAX_CONTROLS = 4096
_LIMITS = Limits(source=MAX_TEMPLATE, output=400_000, steps=100_000, total=500_000)
"""A check renders a template some 150 times, in fewer than 100,000 steps altogether for the largest that are known."""


def check_parts(wire: TemplateCheckRequest) -> None:
    """Raises `RequestError` for parts of a template that is not there: a model has its own."""
    if wire.template is None:
        for name in ("special_tokens", "controls", "response_template"):
            if getattr(wire, name) is not None:
                raise refused(name, "belongs to a template, and there is none.")


def given_template(parts: TemplateParts, response_template: object = None) -> JinjaFormat:
    """A request's own template as a format, within limits; ``response_template`` is what it says of replies.

    Raises `TemplateError`.
    """
    own = None if response_template is None else from_response_template(response_template)
    try:
        return made_of(msgspec.structs.replace(parts, response_template=own), JinjaCache(capacity=1, limits=_LIMITS))
    except TemplateError as error:
        if error.position is not None and error.position.line is not None:
            error.message += f" (line {error.position.line} of the template)"
        raise


def checked(check: TemplateCheck) -> CheckedTemplate:
    """The check as JSON has it."""
    return CheckedTemplate(
        name=check.name,
        ok=not check.lost,
        lost=list(check.lost),
        replies=found_replies(check.found),
        changes=[_change(change) for change in check.changes],
        variables=list(check.variables),
        arguments=list(check.arguments),
        unsafe=[UnsafeFound(each.line, each.what) for each in check.unsafe],
        prompts=dict(check.prompts),
        refused=dict(check.refused),
        harmony=[
            PromptBesideHarmony(
                prompt=each.prompt,
                same=each.same,
                at=each.at,
                template=each.template or None,
                harmony=each.harmony or None,
            )
            for each in check.harmony
        ],
    )


def template_of(
    name: str, format: Format, controls: Collection[Control], source: str | None, special: Mapping[str, str]
) -> JinjaFormat:
    """The Jinja template that writes this model's prompts; of one that speaks Harmony, that of its files.

    ``source`` is the text that its files have, ``special`` are the special tokens. Raises `UnsupportedError` for
    another format.
    """
    if isinstance(format, TemplatedHarmony):
        return format.template
    if isinstance(format, Harmony) and source is not None:
        return jinja_format(source, controls, special, name=f"{name}/chat_template")
    if not isinstance(format, JinjaFormat):
        raise UnsupportedError(
            f"model: {name!r} speaks {format.name}, which is no Jinja template",
            position=Position(path="model"),
            hint="Its replies are read by a description that ships with Antiphon; there is nothing to derive.",
        )
    return format


def parts_of(wire: TemplateCheckRequest, model: Model | None) -> TemplateParts:
    """The parts of the request's own template. Raises `RequestError`, `TemplateError` for more than are taken."""
    source = wire.template or ""
    if len(source) > MAX_TEMPLATE:
        raise TemplateError(
            f"the chat template has {len(source)} characters; at most {MAX_TEMPLATE} are possible",
            code="template_too_large",
        )
    if len(wire.controls or ()) > MAX_CONTROLS:
        raise refused("controls", f"at most {MAX_CONTROLS} are possible.")
    controls = [spelling for spelling in wire.controls or () if spelling]
    if wire.controls is None and model is not None:
        controls = [control.spelling for control in model.tokenizer.controls]
    return TemplateParts(source=source, controls=tuple(controls), special_tokens=wire.special_tokens or {})


def found_replies(found: Found) -> RepliesFound:
    """What is known of a model's replies, as JSON has it."""
    return RepliesFound(
        origin=found.origin,
        source=origin_words(found),
        families=list(found.families),
        proven=list(found.proof.proven),
        failed=[_lost(failure) for failure in found.proof.failed],
        unwritten=list(found.proof.unwritten),
        warnings=list(found.warnings),
    )


def _lost(failure: Failure) -> LostShape:
    return LostShape(
        shape=failure.shape, reply=failure.reply, expected=_parts(failure.expected), read=_parts(failure.read)
    )


def _parts(parts: Sequence[Part]) -> list[ReadPart]:
    return [
        ReadPart(kind=part.kind, text=part.text, name=part.name or None, call_id=part.call_id or None) for part in parts
    ]


def _change(change: PromptChange) -> PromptChangeFound:
    return PromptChangeFound(
        turn=change.turn,
        stable=change.stable,
        at=change.at,
        token=change.token,
        cause=change.cause,
        former=change.former or None,
        next=change.next or None,
        refused=change.refused or None,
    )
