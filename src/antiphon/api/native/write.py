"""Prompts and replies without a turn, as they are answered: tokenized, rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, takewhile

import msgspec

from antiphon.api.chat.messages import place_of
from antiphon.api.chat.read import Reading, to_turn
from antiphon.api.chat.schema import ChatMessage, ChatRequest
from antiphon.conversation import Conversation, Message, Role
from antiphon.conversation.calls import plainly_named
from antiphon.errors import ContextError, Position, UnsupportedError
from antiphon.formats.format import incidents_of
from antiphon.formats.template import JinjaFormat, TemplatedHarmony
from antiphon.generation import Model, check_conversation, check_numbers, normalized
from antiphon.generation.model import stop_ids
from antiphon.generation.plan import ids_within, prompt_of
from antiphon.generation.sampled import Tracer, Written
from antiphon.tokens import Control, Piece, PieceDecoder, Tokenizer, decode, encode_pieces, spell
from antiphon.wire.errors import refused
from antiphon.wire.names.table import KNOWN
from antiphon.wire.names.translate import PromptFields

from .schema import (
    AddedToken,
    Detokenized,
    DetokenizeRequest,
    NextTurn,
    PieceToken,
    Rendered,
    RenderedPiece,
    RenderRequest,
    TemplateChange,
    TokenizeRequest,
    TokenizerInfo,
    Tokens,
)

MOST_OWNED = 256
"""Frames whose owners are told. Where each reply is found by its own prompt, so many take two to four seconds."""

# Requests for prompts without a turn → the pieces that they are about.


def prompt_pieces(wire: TokenizeRequest, model: Model, reading: Reading) -> list[Piece]:
    """The pieces of a text as a prompt of this model has them, or of a chat. Raises `RequestError`."""
    if (wire.prompt is None) == (wire.messages is None):
        raise refused("prompt", "either prompt or messages must be there.", code="missing_required_parameter")
    if wire.chat_template is not None:
        hint = KNOWN["chat_template"].hint
        raise UnsupportedError("chat_template cannot be honoured.", position=Position(path="chat_template"), hint=hint)
    if wire.prompt is None:
        return [*chat_prompt(_chat_of(wire), model, reading, opens_reply=wire.add_generation_prompt is not False)]
    if wire.add_special_tokens is False and wire.prompt in model.special_tokens.values():
        control = Control(wire.prompt)
        return [wire.prompt if model.tokenizer.control_id(control) is None else control]
    if model.embedding is None or wire.add_special_tokens is False:
        return [wire.prompt]
    text = Message(role=Role.USER, text=wire.prompt)
    return list(model.format.render(Conversation((text,)), reply_as=None))


def chat_prompt(wire: ChatRequest, model: Model, reading: Reading, *, opens_reply: bool) -> Iterator[Piece]:
    """The very prompt that a chat completion of this request would have."""
    turn = normalized(model, to_turn(wire, reading))
    check_numbers(turn)
    check_conversation(model, turn)
    return prompt_of(model, turn, opens_reply=opens_reply)


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


def tokenize(wire: TokenizeRequest, model: Model, reading: Reading) -> Tokens:
    """The ids of a text as a prompt of this model has them, or of a chat."""
    ids = ids_of(prompt_pieces(wire, model, reading), model, "messages" if wire.prompt is None else "prompt")
    return Tokens(
        count=len(ids),
        max_model_len=model.context,
        tokens=ids,
        token_strs=[decode(model.tokenizer, [id]) for id in ids] if wire.return_token_strs else None,
        token_bytes=[_hex(id, model.tokenizer) for id in ids] if wire.return_token_bytes else msgspec.UNSET,
    )


def tokenizer_info(model: Model) -> TokenizerInfo:
    """The vocabulary of a model, and the template that it is spoken to in."""
    special, controls = model.special_tokens, model.tokenizer.controls
    return TokenizerInfo(
        vocab_size=model.tokenizer.size,
        model_max_length=model.context,
        bos_token=special.get("bos_token"),
        eos_token=special.get("eos_token"),
        unk_token=special.get("unk_token"),
        pad_token=special.get("pad_token"),
        additional_special_tokens=[control.spelling for control in controls],
        added_tokens_decoder={str(id): AddedToken(content=control.spelling) for control, id in controls.items()},
        chat_template=_template_text(model),
    )


def _template_text(model: Model) -> str | None:
    match model.format:
        case TemplatedHarmony(template=own) | (JinjaFormat() as own):
            return own.source
        case _:
            return model.chat_template


def render(wire: RenderRequest, model: Model, reading: Reading, note: Callable[[str], None]) -> Rendered:
    """The prompt of a chat request; ``note`` gets the code of each incident of its history."""
    if wire.return_owners:
        _check_whole(wire)
    opens_reply = wire.add_generation_prompt is not False and not wire.return_owners
    prompt = chat_prompt(wire, model, reading, opens_reply=opens_reply)
    for incident in incidents_of(prompt):
        note(incident.code)
    pieces = list(prompt)
    rendered = Rendered(
        model=model.name,
        format=model.format.name,
        text=spell(pieces),
        ids=ids_of(pieces, model, "messages"),
        pieces=[piece_with_tokens(piece, model.tokenizer if wire.return_piece_tokens else None) for piece in pieces],
        stop_token_ids=sorted(stop_ids(model.format, model.tokenizer) | model.engine.info.end_ids),
        stop=[stop for stop in model.format.stops if isinstance(stop, str)],
    )
    return _with_owners(rendered, wire, model, reading) if wire.return_owners else rendered


def _check_whole(wire: RenderRequest) -> None:
    """Raises `RequestError` where owners are requested of what is no whole conversation, or without tokens."""
    whole = wire.add_generation_prompt is False or (wire.messages and wire.messages[-1].role == "assistant")
    if wire.add_generation_prompt or wire.continue_final_message or not whole:
        hint = "Send add_generation_prompt false, and no continue_final_message."
        raise refused("return_owners", "owners are those of a whole conversation, with no reply begun.", hint=hint)
    if wire.return_piece_tokens is False:
        raise refused("return_piece_tokens", "owners are those of tokens.", hint="Leave it out.")


def _with_owners(rendered: Rendered, wire: RenderRequest, model: Model, reading: Reading) -> Rendered:
    """The conversation as a model is trained on it instead. Raises `RequestError` for more than `MOST_OWNED` frames."""
    turn = normalized(model, to_turn(wire, reading))
    messages = turn.conversation.messages
    if len(messages) > MOST_OWNED:
        what = f"there are {len(messages)} texts and calls; owners are told of at most {MOST_OWNED}."
        raise refused("messages", what, hint="Send fewer.")
    conversation = replace(turn.conversation, messages=plainly_named(messages) if model.format.framed else messages)
    tracer = Tracer(model.format, model.tokenizer, history=turn.history)
    written = tracer.trace(conversation)
    check_length(len(written.ids), "messages", model)
    kept = tracer.kept(conversation, written)
    frames = {passage.message for passage in written.passages} | {change.message for change in written.changes}
    places = {i: place_of(i, wire.messages) if i >= 0 else None for i in frames}
    return msgspec.structs.replace(
        rendered,
        text=spell(written.pieces),
        ids=[*written.ids],
        pieces=[*_owned_pieces(written, places, model.tokenizer)],
        changes=[TemplateChange(change.kind, places[change.message], str(change)) for change in written.changes],
        next_turn=NextTurn(kept.count, kept.cause) if kept else None,
    )


def _owned_pieces(written: Written, places: Mapping[int, int | None], tokenizer: Tokenizer) -> Iterator[RenderedPiece]:
    """The pieces with their tokens: a control has one, a text those before the next control."""
    tokens = [
        PieceToken(
            id, _hex(id, tokenizer), one.owner.name.lower(), one.part.name.lower() if one.part else None,
            places[one.message], one.sampled,
        )
        for one in written.passages
        for id in written.ids[one.start : one.end]
    ]  # fmt: skip
    at = 0
    for piece in written.pieces:
        if isinstance(piece, Control):
            yield RenderedPiece(control=piece.spelling, tokens=tokens[at : at + 1])
            at += 1
            continue
        own = [*takewhile(lambda token: isinstance(tokenizer.piece(token.id), bytes), islice(tokens, at, None))]
        yield RenderedPiece(text=str(piece), tokens=own)
        at += len(own)


def detokenize(wire: DetokenizeRequest, model: Model) -> Detokenized:
    """The text of ids. Raises `RequestError` for one that the vocabulary lacks, or for more than a context holds."""
    check_length(len(wire.tokens), "tokens", model)
    known_ids(wire.tokens, "tokens", model.tokenizer)
    return Detokenized(decode(model.tokenizer, wire.tokens))


def ids_of(pieces: Sequence[Piece], model: Model, path: str) -> list[int]:
    """The ids of a prompt. Raises `ContextError` for one that no context of this model holds."""
    ids = ids_within(model, pieces, model.context)
    if ids is None:
        raise _too_long(path, model)
    return list(ids)


def check_length(tokens: int, path: str, model: Model) -> None:
    """Raises `ContextError` for more tokens than the model's context holds."""
    if tokens > model.context:
        raise _too_long(path, model)


def _too_long(path: str, model: Model) -> ContextError:
    return ContextError(
        f"{path}: there are more than the {model.context} tokens that the context of {model.name!r} holds",
        position=Position(path=path),
        hint="Send less.",
    )


def piece_with_tokens(piece: Piece, tokenizer: Tokenizer | None) -> RenderedPiece:
    """The piece, with its tokens where there is a tokenizer: each piece is encoded by itself, in a prompt too."""
    tokens = None
    if tokenizer is not None:
        tokens = [PieceToken(id, _hex(id, tokenizer)) for id in encode_pieces([piece], tokenizer)]
    if isinstance(piece, Control):
        return RenderedPiece(control=piece.spelling, tokens=tokens)
    return RenderedPiece(text=str(piece), tokens=tokens)


def _hex(id: int, tokenizer: Tokenizer) -> str:
    """The bytes of a token, those of a control's spelling."""
    spelled = tokenizer.piece(id)
    return (spelled.spelling.encode() if isinstance(spelled, Control) else spelled).hex()


# LMDeploy's way to get the ids of texts.


class EncodeRequest(PromptFields, kw_only=True):
    """The body of POST /v1/encode: one text or several.

    ``do_preprocess`` makes each the user's message of a chat; else it is a prompt as it stands. ``add_bos`` false: a
    prompt without what the model's vocabulary puts around a text.
    """

    input: str | list[str]
    model: str | None = None
    do_preprocess: bool | None = None
    add_bos: bool | None = None


class Encoded(msgspec.Struct, frozen=True):
    """Ids and how many they are; of several texts, a list of each."""

    input_ids: list[int | list[int]]
    length: int | list[int]


def encode_texts(wire: EncodeRequest, model: Model, reading: Reading) -> Encoded:
    """The ids of the texts as prompts of this model. Raises `RequestError`, of a text that no context holds too."""
    if isinstance(wire.input, str):
        ids = ids_of(_pieces(wire.input, wire, model, reading), model, "input")
        return Encoded([*ids], len(ids))
    most = reading.limits.max_inputs
    if not 1 <= len(wire.input) <= most:
        raise refused("input", f"there are {len(wire.input)} inputs; from 1 to {most} are possible.")
    several = [ids_of(_pieces(text, wire, model, reading), model, f"input[{i}]") for i, text in enumerate(wire.input)]
    return Encoded([*several], [len(ids) for ids in several])


def _pieces(text: str, wire: EncodeRequest, model: Model, reading: Reading) -> list[Piece]:
    if not wire.do_preprocess:
        return prompt_pieces(TokenizeRequest(prompt=text, add_special_tokens=wire.add_bos), model, reading)
    if wire.add_bos is False:
        raise UnsupportedError(
            "add_bos cannot be honoured: a later round's prompt is that of all rounds.",
            position=Position(path="add_bos"),
            hint="Send the messages to /v1/tokenize.",
        )
    chat = ChatRequest(messages=[ChatMessage(role="user", content=text)])
    return [*chat_prompt(chat, model, reading, opens_reply=True)]
