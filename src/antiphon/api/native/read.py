"""Requests for prompts and replies without a turn → the pieces that they are about."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.schema import ChatRequest
from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import Position, UnsupportedError
from antiphon.generation import Model, check_conversation, check_numbers, without_idle_arguments
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, Tokenizer
from antiphon.wire.errors import refused
from antiphon.wire.names.table import KNOWN

from .schema import ParseRequest, TokenizeRequest


def prompt_pieces(wire: TokenizeRequest, model: Model, reading: Reading) -> list[Piece]:
    """The pieces of a text as a prompt of this model has them, or of a chat. Raises `RequestError`."""
    if (wire.prompt is None) == (wire.messages is None):
        raise refused("prompt", "either prompt or messages must be there.", code="missing_required_parameter")
    if wire.chat_template is not None:
        hint = KNOWN["chat_template"].hint
        raise UnsupportedError("chat_template cannot be honoured.", position=Position(path="chat_template"), hint=hint)
    if wire.prompt is None:
        return chat_pieces(_chat_of(wire), model, reading, opens_reply=wire.add_generation_prompt is not False)
    if wire.add_special_tokens is False and wire.prompt in model.special_tokens.values():
        control = Control(wire.prompt)
        return [wire.prompt if model.tokenizer.control_id(control) is None else control]
    if model.embedding is None or wire.add_special_tokens is False:
        return [wire.prompt]
    text = Message(role=Role.USER, text=wire.prompt)
    return list(model.format.render(Conversation((text,)), reply_as=None))


def chat_pieces(wire: ChatRequest, model: Model, reading: Reading, *, opens_reply: bool) -> list[Piece]:
    """The very prompt that a chat completion of this request would have."""
    turn = without_idle_arguments(model, to_turn(wire, reading))
    check_numbers(turn)
    check_conversation(model, turn)
    reply_as = Role.ASSISTANT if opens_reply else None
    return list(model.format.render(turn.conversation, reply_as=reply_as, history=turn.history))


def reply_pieces(wire: ParseRequest, model: Model) -> list[Piece]:
    """The pieces of the reply that is to be read. Raises `RequestError`."""
    if (wire.text is None) == (wire.ids is None):
        raise refused("text", "either text or ids must be there.", code="missing_required_parameter")
    if wire.ids is not None:
        return pieces_of(wire.ids, "ids", model.tokenizer)
    scanner = ControlScanner(model.format.controls)
    return [*scanner.feed(wire.text or ""), *scanner.close()]


def pieces_of(ids: Sequence[int], path: str, tokenizer: Tokenizer) -> list[Piece]:
    """The pieces of ids that are at ``path``. Raises `RequestError` for one that the vocabulary lacks."""
    known_ids(ids, path, tokenizer)
    decoder = PieceDecoder(tokenizer)
    # One by one: an incident's position counts ids.
    return [piece for id in ids for piece in decoder.feed((id,))] + decoder.close()


def known_ids(ids: Sequence[int], path: str, tokenizer: Tokenizer) -> None:
    """Raises `RequestError` at the first id that is not of the vocabulary."""
    for i, id in enumerate(ids):
        if not 0 <= id < tokenizer.size:
            raise refused(f"{path}[{i}]", f"the vocabulary has no token {id}; its ids are 0 … {tokenizer.size - 1}.")


def _chat_of(wire: TokenizeRequest) -> ChatRequest:
    return ChatRequest(
        messages=wire.messages or [],
        tools=wire.tools,
        add_generation_prompt=wire.add_generation_prompt,
        continue_final_message=wire.continue_final_message,
        chat_template_kwargs=wire.chat_template_kwargs,
    )
