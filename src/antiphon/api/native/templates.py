"""Checks of chat templates: the request's format, and the findings as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from antiphon.api.chat.schema import AnswerMessage, ChatMessage, Tool
from antiphon.conversation.json import MessageJson
from antiphon.errors import Position, TemplateError, UnsupportedError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.replies.describe import Evidence, Found
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
from antiphon.formats.template.jinja import TemplateParts
from antiphon.formats.template.stability import made_of
from antiphon.generation import Model
from antiphon.tokens import Control
from antiphon.wire.errors import refused

from .schema import FoundIncident, RenderedPiece

# The check of a chat template: request and findings.


class TemplateCheckRequest(msgspec.Struct, kw_only=True):
    """The template of a ``model`` (absent: the default); or a ``template`` as text, for a model's vocabulary or none.

    ``controls`` are spellings of control tokens, in place of the model's; ``special_tokens`` those that templates use
    by name (``eos_token`` …); ``response_template`` is what the model's files say of replies.
    """

    model: str | None = None
    template: str | None = None
    special_tokens: dict[str, str] | None = None
    controls: list[str] | None = None
    response_template: Any = None


class ReadPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a reply: reasoning, an answer, or a call with its arguments as JSON."""

    kind: str
    text: str
    name: str | None = None
    call_id: str | None = None


class LostShape(msgspec.Struct, frozen=True, kw_only=True):
    """A shape of reply that is read otherwise than the template writes it."""

    shape: str
    reply: str
    expected: list[ReadPart]
    read: list[ReadPart]


class RepliesFound(msgspec.Struct, frozen=True, kw_only=True):
    """The source of the description of replies (``source``: in words), and the shapes that are read back however cut.

    ``unwritten``: shapes that the template does not write. ``evidence``: a call as each source has it.
    """

    origin: str
    source: str
    families: list[str]
    proven: list[str]
    failed: list[LostShape]
    unwritten: list[str]
    warnings: list[str]
    evidence: Evidence


class PromptChangeFound(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a prompt begins with the former one; if not, from which character on (and token, where known), and why.

    ``former`` and ``next`` are how the two go on from there. ``refused``: the template's own words.
    """

    turn: str
    stable: bool
    at: int | None = None
    token: int | None = None
    cause: str | None = None
    former: str | None = None
    next: str | None = None
    refused: str | None = None


class UnsafeFound(msgspec.Struct, frozen=True):
    """A construct that the sandbox refuses."""

    line: int
    what: str


class PromptBesideHarmony(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a template of Harmony: the ``same`` in Harmony, or from which character on it is not.

    ``template`` and ``harmony`` are how the two go on from there.
    """

    prompt: str
    same: bool
    at: int | None = None
    template: str | None = None
    harmony: str | None = None


class CheckedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """``ok``: nothing is lost; else ``lost`` has a sentence for each thing that is.

    ``arguments`` are the variables that only a request can give. ``prompts`` by name; where the template writes none,
    ``refused`` has its words. ``harmony``: of a template of Harmony, each beside that of a model with its controls.
    """

    name: str
    ok: bool
    lost: list[str]
    replies: RepliesFound
    changes: list[PromptChangeFound]
    variables: list[str]
    arguments: list[str]
    unsafe: list[UnsafeFound]
    prompts: dict[str, str]
    refused: dict[str, str]
    harmony: list[PromptBesideHarmony]


# One trial of a chat template as JSON: a conversation becomes a prompt, a reply becomes messages.


class TemplateTryRequest(TemplateCheckRequest, kw_only=True):
    """A template (or a ``model``, whatever it speaks), the ``messages`` that it writes, and a ``reply`` that is read.

    In ``reply`` the spelling of a control is the control.
    """

    messages: list[ChatMessage]
    tools: list[Tool] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reply: str | None = None


class ReadEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event of a reader, by its ``type``.

    ``started`` and ``ended`` have the ``message``, ``text`` has more of it; ``incident`` has its code and a text.
    """

    type: str
    message: MessageJson | None = None
    text: str | None = None
    incident: str | None = None


class ReadStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of the reply, text or a control, and its events; neither: the end of the reply."""

    text: str | None = None
    control: str | None = None
    events: list[ReadEvent]


class ReplyRead(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as ``/v1/parse`` answers it, and ``steps``, piece by piece."""

    message: AnswerMessage
    messages: list[MessageJson]
    incidents: list[FoundIncident]
    ended: str | None
    steps: list[ReadStep]


class TriedTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The prompt, and the reply where there is one. ``ids``, and the tokens of pieces, are a model's: else null.

    ``source`` is the text of the template, null where the model's format is none.
    """

    name: str
    source: str | None
    text: str
    pieces: list[RenderedPiece]
    ids: list[int] | None
    stop: list[str]
    reply: ReplyRead | None


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
    """Writes the facts known of a model's replies as JSON has them."""
    return RepliesFound(
        origin=found.origin,
        source=origin_words(found),
        families=list(found.families),
        proven=list(found.proof.proven),
        failed=[_lost(failure) for failure in found.proof.failed],
        unwritten=list(found.proof.unwritten),
        warnings=list(found.warnings),
        evidence=found.evidence,
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
