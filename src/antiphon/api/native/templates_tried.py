"""A chat template tried on one conversation: its prompt piece by piece, and a reply read piece by piece."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.schema import ChatRequest
from antiphon.api.chat.write import answer_message
from antiphon.conversation import Incident, MessageEnded, MessageStarted, ParserEvent, Role, TextDelta
from antiphon.conversation.json import message_json
from antiphon.errors import FormatError, Position, RequestError, TemplateError
from antiphon.formats import Format
from antiphon.formats.template import JinjaFormat
from antiphon.generation import Model
from antiphon.generation.reader import with_channels
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer, encode_pieces, spell
from antiphon.wire.errors import refused
from antiphon.wire.projection import whole

from .schema import FoundIncident
from .template_try_schema import ReadEvent, ReadStep, ReplyRead, TemplateTryRequest, TriedTemplate
from .templates import check_parts
from .write import ids_of, piece_with_tokens

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
    return replace(found, pieces=pieces, ids=ids_of(prompt, model, "messages"))


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
        return list(format.render(turn.conversation, reply_as=reply_as, history=turn.history))
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
