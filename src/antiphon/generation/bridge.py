"""The ids of a prompt that goes on with a turn whose ids are known: those ids, and the ids of only what is new.

A template writes a call anew in its own spelling, and a text can be cut into tokens in more than one way. Where what
the template writes in place of a reply means what the reply meant, the reply's own ids stand there. Where it means
something else (it drops the reasoning of a turn that is over, it moves a text) the template is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from antiphon.conversation import Message, MessageEnded, ParserEvent, Role
from antiphon.errors import AntiphonError
from antiphon.tokens import Control, Piece

from .model import Model, stop_ids
from .reply import as_history, meaning
from .request import TurnRequest
from .sequences import Remembered


def bridged(
    model: Model, former: Remembered, request: TurnRequest, prompt: Sequence[Piece]
) -> tuple[tuple[int, ...], tuple[Piece, ...]] | None:
    """The ids of ``former`` that the prompt goes on with, and its pieces behind them.

    None where the prompt begins otherwise, or has something else in the reply's place.
    """
    asked = _rendered(model, former.request)
    rest = None if asked is None else _behind(prompt, asked)
    if asked is None or rest is None:
        return None
    for written in _replies(model, former, request, asked, rest):
        ids, length = _up_to_end(model, former.ids, written)
        new = _behind(rest, written[:length])
        if new is not None:
            return ids, new
    return None


def _replies(
    model: Model, former: Remembered, request: TurnRequest, asked: Sequence[Piece], rest: Sequence[Piece]
) -> Iterator[Sequence[Piece]]:
    """What may stand in the reply's place: the prompt itself up to the reply's end; or the reply as a last message.

    Most templates end it by a stop. Formats of frames do not, and write more in the same turn.
    """
    reply = _read(model, former, asked, rest)
    if reply and len(reply) < len(rest):
        yield reply
    messages = request.conversation.messages[: len(former.messages)]
    told = _rendered(model, replace(request, conversation=replace(request.conversation, messages=messages)), open=False)
    reply = _read(model, former, asked, (told and _behind(told, asked)) or ())
    if reply:
        yield reply


def _rendered(model: Model, request: TurnRequest, *, open: bool = True) -> tuple[Piece, ...] | None:
    """None where the template writes no such history, as one that ends with a reply."""
    reply_as = Role.ASSISTANT if open else None
    with suppress(AntiphonError):
        return tuple(model.format.render(request.conversation, reply_as=reply_as, history=request.history))
    return None


def _read(model: Model, former: Remembered, asked: Sequence[Piece], pieces: Sequence[Piece]) -> Sequence[Piece] | None:
    """The pieces up to a stop; None where they are read otherwise than the reply was."""
    parser = model.format.parser(prompt=asked, tools=former.request.conversation.offered)
    events: list[ParserEvent] = []
    for count, piece in enumerate(pieces, 1):
        events += parser.feed((piece,))
        if parser.ended is not None and piece in model.format.stops:
            pieces = pieces[:count]
            break
    read = [event.message for event in (*events, *parser.close()) if isinstance(event, MessageEnded)]
    return pieces if _meanings(read) == _meanings(as_history(former.reply)) else None


def _meanings(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """What the messages say. Templates trim texts, and write no empty ones."""
    trimmed = ((kind, text.strip()) for kind, text in map(meaning, messages))
    return [(kind, text) for kind, text in trimmed if text]


def _up_to_end(model: Model, ids: tuple[int, ...], written: Sequence[Piece]) -> tuple[tuple[int, ...], int]:
    """The ids without their end, and how many of the pieces they stand for: the template writes the end.

    In a history Harmony ends with <|end|> the answer that its model ended with <|return|>.
    """
    ends = stop_ids(model.format, model.tokenizer) | model.engine.info.end_ids
    place = max((i for i, piece in enumerate(written) if isinstance(piece, Control)), default=0)
    end, behind = written[place], written[place + 1 :]
    if not isinstance(end, Control) or "".join(map(str, behind)).strip():
        return (ids[:-1] if ids[-1] in ends else ids), len(written)
    id = model.tokenizer.control_id(end)
    ids = ids[:-1] if ids[-1] != id and ids[-1] in ends else ids
    return (ids[:-1] if ids[-1] == id else ids), place


def _behind(pieces: Sequence[Piece], first: Sequence[Piece]) -> tuple[Piece, ...] | None:
    """The pieces behind ``first``; None where they do not begin with it, however the texts of both are cut."""
    whole, start = _joined(pieces), _joined(first)
    if not start:
        return tuple(whole)
    last = start.pop()
    here = whole[len(start)] if whole[: len(start)] == start and len(whole) > len(start) else None
    if here == last:
        return tuple(whole[len(start) + 1 :])
    if isinstance(here, str) and isinstance(last, str) and here.startswith(last):
        return (here[len(last) :], *whole[len(start) + 1 :])
    return None


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces, texts that stand beside each other as one."""
    joined: list[Piece] = []
    for are_texts, run in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        texts = [*run]
        joined += ["".join(map(str, texts))] if are_texts and len(texts) > 1 else texts
    return [piece for piece in joined if piece != ""]
