"""Chat templates of requests, checked and tried in processes of their own, which render what no server may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import msgspec

from antiphon.api.chat.read import Reading, to_turn
from antiphon.config import Limits
from antiphon.formats.template import JinjaFormat, PromptChange, check_template
from antiphon.formats.template.parts import TemplateParts
from antiphon.formats.template.remaking import made_of
from antiphon.formats.template.stability import common_tokens
from antiphon.generation import Model
from antiphon.isolation import Isolation, Task
from antiphon.structs import ready
from antiphon.tokens import Control, Piece
from antiphon.wire.dialect import OPENAI
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from .schema import RenderedPiece
from .template_schema import CheckedTemplate, TemplateCheckRequest
from .template_try_schema import TemplateTryRequest, TriedTemplate
from .templates import check_parts, checked, given_template, parts_of, template_of
from .templates_tried import chat_of, check_sizes, reply_pieces, tried, with_tokens
from .write import piece_with_tokens

CHECK = Task("antiphon.api.native.template_work:check", "the check of the template", "template", processor=1.3)
TRY = Task("antiphon.api.native.template_work:try_out", "the trial of the template", "template", processor=1.0)

_ANY = replace(OPENAI, max_stops=None, max_tools=None)
"""How a request is read that the server has read already."""


class CheckWork(msgspec.Struct, frozen=True, kw_only=True):
    """A check. ``own``: the template is that of a model; else a request's, with its ``response_template``."""

    parts: TemplateParts
    own: bool
    response_template: object = None
    prompts: bool = False
    """Whether the prompts that change are to come along, for a vocabulary to find the token."""


class CheckDone(msgspec.Struct, frozen=True, kw_only=True):
    """``prompts``: of each change, the pieces of both prompts, where they differ."""

    checked: CheckedTemplate
    prompts: list[tuple[list[RenderedPiece], list[RenderedPiece]] | None]


class TryWork(msgspec.Struct, frozen=True, kw_only=True):
    """A trial: the request, and the reply as a model's vocabulary cuts it."""

    parts: TemplateParts
    request: TemplateTryRequest
    reply: list[RenderedPiece] | None
    limits: Limits
    today: date | None
    in_order: bool


async def checked_template(
    wire: TemplateCheckRequest, model: Model | None, isolated: Isolation, owner: str
) -> CheckedTemplate:
    """What is found of the request's template, or of the model's. Raises `RequestError`, `TemplateError`.

    Takes seconds of work, and a bounded number of them, in another process.
    """
    check_parts(wire)
    if wire.template is None and model is not None:
        parts = template_of(
            model.name, model.format, model.tokenizer.controls, model.chat_template, model.special_tokens
        ).parts
    elif wire.template is None:
        raise refused("template", "either template or model must be there.", code="missing_required_parameter")
    else:
        parts = parts_of(wire, model)
    own, prompts = wire.template is None, model is not None
    work = CheckWork(parts=parts, own=own, response_template=wire.response_template, prompts=prompts)
    done = msgspec.json.decode(await isolated.run(CHECK, encode(work), owner=owner), type=ready(CheckDone))
    if model is None:
        return done.checked
    changes = [
        change if pair is None else msgspec.structs.replace(change, token=_token(pair, model))
        for change, pair in zip(done.checked.changes, done.prompts, strict=True)
    ]
    return msgspec.structs.replace(done.checked, changes=changes)


async def tried_template(
    wire: TemplateTryRequest, model: Model | None, reading: Reading, isolated: Isolation, owner: str
) -> TriedTemplate:
    """The prompt of the messages by the request's own template, and its reply, both made in another process.

    Raises `RequestError`, `TemplateError`.
    """
    check_sizes(wire)
    to_turn(chat_of(wire), reading)
    parts = parts_of(wire, model)
    controls = list(map(Control, parts.controls))
    reply = None if wire.reply is None else reply_pieces(wire.reply, controls, model.tokenizer if model else None)
    work = TryWork(
        parts=parts,
        request=wire,
        reply=None if reply is None else _listed(reply),
        limits=reading.limits,
        today=reading.today,
        in_order=reading.dialect.tools_answer_in_order,
    )
    found = msgspec.json.decode(await isolated.run(TRY, encode(work), owner=owner), type=ready(TriedTemplate))
    return found if model is None else with_tokens(found, _pieces(found.pieces), model)


def check(piece: bytes) -> bytes:
    """Checks a template, in a process of its own."""
    work = msgspec.json.decode(piece, type=ready(CheckWork))
    format = _format(work.parts, own=work.own, response_template=work.response_template)
    found = check_template(format)
    prompts = [_pair(change) if work.prompts else None for change in found.changes]
    return encode(CheckDone(checked=checked(found), prompts=prompts))


def try_out(piece: bytes) -> bytes:
    """Tries a template, in a process of its own."""
    work = msgspec.json.decode(piece, type=ready(TryWork))
    dialect = replace(_ANY, tools_answer_in_order=work.in_order)
    format = _format(work.parts, own=False, response_template=work.request.response_template)
    reply = None if work.reply is None else _pieces(work.reply)
    return encode(tried(work.request, format, Reading(dialect, work.limits, work.today), reply))


def _format(parts: TemplateParts, *, own: bool, response_template: object) -> JinjaFormat:
    return made_of(parts) if own else given_template(parts, response_template)


def _pair(change: PromptChange) -> tuple[list[RenderedPiece], list[RenderedPiece]] | None:
    return None if change.prompts is None else (_listed(change.prompts[0]), _listed(change.prompts[1]))


def _token(pair: tuple[list[RenderedPiece], list[RenderedPiece]], model: Model) -> int:
    return common_tokens([_pieces(pair[0]), _pieces(pair[1])], model.tokenizer)


def _listed(pieces: Sequence[Piece]) -> list[RenderedPiece]:
    return [piece_with_tokens(piece, None) for piece in pieces]


def _pieces(listed: Sequence[RenderedPiece]) -> list[Piece]:
    return [Control(piece.control) if piece.control is not None else piece.text or "" for piece in listed]
