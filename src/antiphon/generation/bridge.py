"""The ids of a prompt that goes on with a turn whose ids are known: those ids, and the ids of only what is new.

A template writes a call anew in its own spelling, and a text can be cut into tokens in more than one way. Where what
the template writes in place of a reply means what the reply meant, the reply's own ids stand there. Where it means
something else (it drops the reasoning of a turn that is over, it moves a text) the template is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from antiphon.conversation import Message, MessageEnded
from antiphon.errors import AntiphonError
from antiphon.formats import Format
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
    format, history = model.format, request.history
    messages = request.conversation.messages[: len(former.messages)]
    try:
        asked = tuple(format.render(former.request.conversation, history=history))
        told = tuple(format.render(replace(request.conversation, messages=messages), reply_as=None, history=history))
    except AntiphonError:  # It can write no history that ends with a reply.
        return None
    written = _behind(told, asked)
    if not written or not _means(model.format, former, asked, written):
        return None
    ids, length = _up_to_end(model, former.ids, written)
    rest = _behind(prompt, (*asked, *written[:length]))
    return None if rest is None else (ids, rest)


def _means(format: Format, former: Remembered, asked: Sequence[Piece], written: Sequence[Piece]) -> bool:
    """Whether what the template wrote in place of the reply is read as the reply was."""
    parser = format.parser(prompt=asked, tools=former.request.conversation.offered)
    events = [*parser.feed(written), *parser.close()]
    read = [event.message for event in events if isinstance(event, MessageEnded)]
    return _meanings(read) == _meanings(as_history(former.reply))


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
