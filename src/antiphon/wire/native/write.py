"""What the layer does by itself, without an engine: tokenize, render, parse."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.conversation import Conversation, Incident, Message, MessageEnded, ParserEvent, Role
from antiphon.conversation.json import message_json
from antiphon.generation import Model, check_conversation, check_numbers
from antiphon.generation.plan import stop_ids
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer, decode, encode_pieces, spell
from antiphon.wire.chat.read import Reading, to_turn
from antiphon.wire.chat.schema import ChatRequest
from antiphon.wire.chat.write import answer_message
from antiphon.wire.errors import refused
from antiphon.wire.projection import whole

from .schema import (
    FoundIncident,
    Parsed,
    ParseRequest,
    Rendered,
    RenderedPiece,
    RenderRequest,
    TokenizeRequest,
    Tokens,
)


def tokenize(wire: TokenizeRequest, model: Model, reading: Reading) -> Tokens:
    """The ids of a text as a prompt of this model has them, or of a chat."""
    if (wire.prompt is None) == (wire.messages is None):
        raise refused("prompt", "either prompt or messages must be there.", code="missing_required_parameter")
    if wire.prompt is None:
        pieces = _chat_pieces(_chat_of(wire), model, reading, opens_reply=wire.add_generation_prompt is not False)
    elif model.embedding is None or wire.add_special_tokens is False:
        pieces = [wire.prompt]
    else:
        text = Message(role=Role.USER, text=wire.prompt)
        pieces = list(model.format.render(Conversation((text,)), reply_as=None))
    ids = encode_pieces(pieces, model.tokenizer)
    return Tokens(
        count=len(ids),
        max_model_len=model.context,
        tokens=ids,
        token_strs=[decode(model.tokenizer, [id]) for id in ids] if wire.return_token_strs else None,
    )


def render(wire: RenderRequest, model: Model, reading: Reading) -> Rendered:
    """The prompt of a chat request."""
    pieces = _chat_pieces(wire, model, reading, opens_reply=wire.add_generation_prompt is not False)
    return Rendered(
        model=model.name,
        format=model.format.name,
        text=spell(pieces),
        pieces=[_piece(piece) for piece in pieces],
        ids=encode_pieces(pieces, model.tokenizer),
        stop_token_ids=sorted(stop_ids(model) | model.engine.info.end_ids),
        stop=[stop for stop in model.format.stops if isinstance(stop, str)],
    )


def parse(wire: ParseRequest, model: Model) -> Parsed:
    """A reply as messages. Raises `ParseError` only for ``strict``."""
    if (wire.text is None) == (wire.ids is None):
        raise refused("text", "either text or ids must be there.", code="missing_required_parameter")
    known_ids(wire.ids or (), "ids", model.tokenizer)
    known_ids(wire.prompt_ids or (), "prompt_ids", model.tokenizer)
    prompt = _pieces_of(wire.prompt_ids or (), model.tokenizer)
    parser = model.format.parser(reply_as=Role.ASSISTANT, prompt=prompt, strict=bool(wire.strict))
    if wire.ids is None:
        scanner = ControlScanner(model.format.controls)
        pieces = [*scanner.feed(wire.text or ""), *scanner.close()]
    else:
        pieces = _pieces_of(wire.ids, model.tokenizer)
    events: list[ParserEvent] = [*parser.feed(pieces), *parser.close()]
    return Parsed(
        model=model.name,
        format=model.format.name,
        message=answer_message(whole(events, expose_reasoning=True)),
        messages=[message_json(event.message) for event in events if isinstance(event, MessageEnded)],
        incidents=[FoundIncident(e.code, e.position, e.text) for e in events if isinstance(e, Incident)],
        ended=parser.ended,
    )


def known_ids(ids: Sequence[int], path: str, tokenizer: Tokenizer) -> None:
    """Raises `RequestError` at the first id that is not of the vocabulary."""
    for i, id in enumerate(ids):
        if not 0 <= id < tokenizer.size:
            raise refused(f"{path}[{i}]", f"the vocabulary has no token {id}; its ids are 0 … {tokenizer.size - 1}.")


def _chat_of(wire: TokenizeRequest) -> ChatRequest:
    return ChatRequest(
        messages=wire.messages or [],
        tools=wire.tools,
        continue_final_message=wire.continue_final_message,
        chat_template=wire.chat_template,
        chat_template_kwargs=wire.chat_template_kwargs,
    )


def _chat_pieces(wire: ChatRequest, model: Model, reading: Reading, *, opens_reply: bool) -> list[Piece]:
    """The very prompt that a chat completion of this request would have."""
    turn = to_turn(wire, reading)
    check_numbers(turn)
    check_conversation(model, turn)
    reply_as = Role.ASSISTANT if opens_reply else None
    return list(model.format.render(turn.conversation, reply_as=reply_as, history=turn.history))


def _pieces_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[Piece]:
    decoder = PieceDecoder(tokenizer)
    # One by one: an incident's position counts ids.
    return [piece for id in ids for piece in decoder.feed((id,))] + decoder.close()


def _piece(piece: Piece) -> RenderedPiece:
    return RenderedPiece(control=piece.spelling) if isinstance(piece, Control) else RenderedPiece(text=str(piece))
