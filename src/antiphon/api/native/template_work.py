"""Chat templates of requests, checked and tried in processes of their own, which render what no server may."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date

import msgspec
from msgspec.structs import replace as replace_fields

from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.schema import ChatRequest
from antiphon.api.chat.write import answer_message
from antiphon.config import Limits
from antiphon.conversation import Incident, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.conversation.json import message_json
from antiphon.errors import FormatError, Position, RequestError, TemplateError
from antiphon.formats import Format
from antiphon.formats.format import strictly
from antiphon.formats.template import JinjaFormat, PromptChange, check_template
from antiphon.formats.template.jinja import TemplateParts
from antiphon.formats.template.stability import common_tokens, made_of
from antiphon.generation import Model
from antiphon.generation.reader import with_channels
from antiphon.isolation import Isolation, Task
from antiphon.structs import ready
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces, spell
from antiphon.wire.dialect import OPENAI
from antiphon.wire.errors import refused
from antiphon.wire.json import encode
from antiphon.wire.projection import whole

from .schema import FoundIncident, RenderedPiece
from .templates import (
    CheckedTemplate,
    ReadEvent,
    ReadStep,
    ReplyRead,
    TemplateCheckRequest,
    TemplateTryRequest,
    TriedTemplate,
    check_parts,
    checked,
    given_template,
    parts_of,
    template_of,
)
from .write import ids_of, piece_with_tokens

# A chat template tried on one conversation: its prompt piece by piece, and a reply read piece by piece.

MOST_REPLY = 32_768
"""Characters of a reply that are read."""
MOST_MESSAGES = 200
_WORDS = re.compile(r"\s*\S{1,8}|\s+")
"""Pieces of a text where no vocabulary cuts it."""


def tried_own(wire: TemplateTryRequest, model: Model, reading: Reading) -> TriedTemplate:
    """The prompt of the request's messages by the model's own format, and its reply.

    Raises `RequestError`, `RenderError`.
    """
    check_sizes(wire)
    check_parts(wire)
    reply = None if wire.reply is None else reply_pieces(wire.reply, model.format.controls, model.tokenizer)
    found = tried(wire, model.format, reading, reply)
    return with_tokens(found, _prompt(wire, model.format, reading), model)


def tried(wire: TemplateTryRequest, format: Format, reading: Reading, reply: Sequence[Piece] | None) -> TriedTemplate:
    """The prompt of the request's messages in a format, and what is read of a reply in pieces. No tokens are in it."""
    prompt = _prompt(wire, format, reading)
    return TriedTemplate(
        name=format.name,
        source=format.source if isinstance(format, JinjaFormat) else None,
        text=spell(prompt),
        pieces=[piece_with_tokens(piece, None) for piece in prompt],
        ids=None,
        stop=list(map(str, format.stops)),
        reply=None if reply is None else _read(reply, format, prompt),
    )


def with_tokens(found: TriedTemplate, prompt: Sequence[Piece], model: Model) -> TriedTemplate:
    """The same with the tokens of the model's vocabulary. Raises `ContextError`."""
    pieces = [piece_with_tokens(piece, model.tokenizer) for piece in prompt]
    return replace_fields(found, pieces=pieces, ids=ids_of(prompt, model, "messages"))


def check_sizes(wire: TemplateTryRequest) -> None:
    """Raises `RequestError` for more than is tried."""
    if len(wire.messages) > MOST_MESSAGES:
        raise refused("messages", f"there are {len(wire.messages)} messages; at most {MOST_MESSAGES} are tried.")
    if len(wire.reply or "") > MOST_REPLY:
        raise refused("reply", f"has {len(wire.reply or '')} characters; at most {MOST_REPLY} are read.")


def _prompt(wire: TemplateTryRequest, format: Format, reading: Reading) -> list[Piece]:
    turn = to_turn(chat_of(wire), reading)
    for name in sorted((wire.chat_template_kwargs or {}).keys() - set(format.arguments)):
        message = f"{name[:64]!r} is no argument of the template."
        raise refused("chat_template_kwargs", message, code="bad_template_kwargs")
    reply_as = None if wire.add_generation_prompt is False else Role.ASSISTANT
    try:
        return list(strictly(format.render(turn.conversation, reply_as=reply_as, history=turn.history)))
    except (FormatError, TemplateError) as error:
        raise RequestError(
            error.message, code=error.code, position=Position(path="messages"), hint=error.hint
        ) from None


def chat_of(wire: TemplateTryRequest) -> ChatRequest:
    """The chat request that has the trial's messages."""
    return ChatRequest(
        messages=wire.messages,
        tools=wire.tools,
        continue_final_message=wire.continue_final_message,
        chat_template_kwargs=wire.chat_template_kwargs,
    )


def _read(reply: Sequence[Piece], format: Format, prompt: Sequence[Piece]) -> ReplyRead:
    parser = format.parser(reply_as=Role.ASSISTANT, prompt=prompt)
    events: list[ParserEvent] = []
    steps: list[ReadStep] = []
    for piece in (*reply, None):
        said = parser.close() if piece is None else parser.feed((piece,))
        events += said
        steps.append(_step(piece, said))
    return ReplyRead(
        message=answer_message(whole(with_channels(events, format), expose_reasoning=True)),
        messages=[message_json(event.message) for event in events if isinstance(event, MessageEnded)],
        incidents=[FoundIncident(e.code, e.position, e.text) for e in events if isinstance(e, Incident)],
        ended=parser.ended,
        steps=steps,
    )


def reply_pieces(reply: str, controls: Iterable[Control], tokenizer: Tokenizer | None) -> list[Piece]:
    """The reply as an engine would give it: token by token, or a few characters at a time."""
    return list(_cut(reply, controls, tokenizer))


def _cut(reply: str, controls: Iterable[Control], tokenizer: Tokenizer | None) -> Iterator[Piece]:
    scanner = ControlScanner(controls)
    scanned: list[Piece] = [*scanner.feed(reply), *scanner.close()]
    if tokenizer is None:
        for piece in scanned:
            yield from (piece,) if isinstance(piece, Control) else _WORDS.findall(piece)
        return
    decoder = PieceDecoder(tokenizer)
    for id in encode_pieces(scanned, tokenizer):
        yield from decoder.feed((id,))
    yield from decoder.close()


def _step(piece: Piece | None, said: Sequence[ParserEvent]) -> ReadStep:
    events = [_event(one) for one in said]
    if isinstance(piece, Control):
        return ReadStep(control=piece.spelling, events=events)
    return ReadStep(text=piece, events=events)


def _event(event: ParserEvent) -> ReadEvent:
    match event:
        case MessageStarted(message):
            return ReadEvent(type="started", message=message_json(message))
        case TextDelta(text):
            return ReadEvent(type="text", text=text)
        case MessageEnded(message):
            return ReadEvent(type="ended", message=message_json(message))
        case Incident(code, _, text):
            return ReadEvent(type="incident", incident=code, text=text)


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
    """Checks the request's template, or the model's. Raises `RequestError`, `TemplateError`.

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
    found = check_template(format, cuts="many")
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
