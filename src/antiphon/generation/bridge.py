"""The ids of a prompt that goes on with a turn whose ids are known: those ids, and the ids of only what is new.

A template writes a call anew in its own spelling, and a text can be cut into tokens in more than one way. Where what
the template writes in place of a reply means what the reply meant, the reply's own ids stand there. Where it means
something else (it drops the reasoning of a turn that is over, it moves a text) the template is followed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from operator import is_

from antiphon.conversation import End, Message, MessageEnded, ParserEvent, Role, ToolSpec
from antiphon.conversation.calls import fits_template
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.format import last_events
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.tokens import Control, Piece, spell

from .model import Model, stop_ids
from .reply import as_history, bundled, meaning
from .request import TurnRequest
from .sequences import Remembered, common, digest

LONGEST_OPENING = 256
"""Characters of what opens a reply behind its header, as an empty thought."""
LONGEST_END = 64
"""Tokens at a reply's end in which its end is looked for."""
LONGEST_TAIL = 12
"""Characters of a reply's end that are looked for in what the template writes of it."""


def can_keep(model: Model, request: TurnRequest) -> bool:
    """Whether a later prompt may begin with the ids of the request's turn."""
    return request.raw is None and "return_token_ids" in model.engine.info.honours


def is_kept(model: Model, request: TurnRequest) -> bool:
    """Whether they are kept however they were sampled: templates seldom write calls as they were."""
    asked = request.return_token_ids or request.explain_prefix
    return can_keep(model, request) and bool(asked or request.tenant.affinity or request.conversation.offered)


def bridged(
    model: Model, former: Remembered, request: TurnRequest, prompt: Sequence[Piece]
) -> tuple[tuple[int, ...], tuple[Piece, ...]] | None:
    """The ids of ``former`` that the prompt goes on with, and its pieces behind them.

    None where the prompt begins otherwise, or has something else in the reply's place.
    """
    asked = rendered(model, beginning(request, former.asked))
    if asked is None or digest(asked) != former.prompt:
        return None
    for bare in (False, True) if any(one.is_call for one in former.reply) else (False,):
        shown = as_written(former, request, bare=bare)
        pieces = prompt if shown is request else rendered(model, shown) or ()
        before, rest = place_of_reply(model.format, request.conversation.offered, asked, pieces) or ((), ())
        if rest and (written := _written(model, former, shown, before, rest, bare=bare)):
            ids, length = _up_to_end(model, former, written)
            return ids, _split(rest, length)[1]
    return None


def goes_on(model: Model, former: Remembered, ids: Sequence[int]) -> bool:
    """Whether a prompt has the ids of ``former`` already, with its end or with another one that the template writes."""
    last, end = len(former.ids) - 1, former.ids[-1]
    if former.ids[:last] != tuple(ids[:last]):
        return False
    return ids[last : last + 1] == (end,) or (end in end_ids(model) and end not in ids[last : last + LONGEST_END])


def as_written(former: Remembered, request: TurnRequest, *, bare: bool = False) -> TurnRequest:
    """The request with the reply so that any template writes it where it stands: its ids stand there in the end.

    Its calls and their results have the model's own ids, and {} where a template could not write their arguments, or
    for all of them where it would not be read back as it writes them (``bare``): their values were compared before.
    """
    own, first, behind = dict(former.own_ids), former.asked, former.length
    conversation = request.conversation
    reply = (_writable(one, bare=bare) for one in conversation.messages[first:behind])
    written = [*conversation.messages[:first], *reply, *conversation.messages[behind:]]
    if own:
        written[first:] = (replace(one, call_id=own.get(one.call_id or "", one.call_id)) for one in written[first:])
    if all(map(is_, written, conversation.messages)):
        return request
    return replace(request, conversation=replace(conversation, messages=tuple(written)))


def _writable(message: Message, *, bare: bool) -> Message:
    return replace(message, text="{}") if message.is_call and (bare or not fits_template(message.text)) else message


def place_of_reply(
    format: Format, offered: Collection[ToolSpec | str], asked: Sequence[Piece], prompt: Sequence[Piece]
) -> tuple[Sequence[Piece], Sequence[Piece]] | None:
    """The prompt up to where the reply begins, and behind that; None where it does not go on with ``asked``.

    A history need not have all that opened the reply, as an empty thought; or it has the header of a turn that went on.
    """
    size = _shared(asked, prompt)
    (_, opened), (before, rest) = _split(asked, size), _split(prompt, size)
    opens = len(spell(opened)) <= LONGEST_OPENING and not any(piece in format.stops for piece in opened)
    if not opens or said(format, offered, before, opened)[1]:
        return None
    if not opened and isinstance(format, ReplyFormat) and spell(rest).startswith(format.replies.anchor):
        header, rest = _split(rest, len(format.replies.anchor))
        before = (*before, *header)
    return before, rest


def _shared(one: Sequence[Piece], other: Sequence[Piece]) -> int:
    """How many characters of spelling both begin with; a control is there whole or not at all."""
    shared = 0
    for mine, its in zip(_joined(one), _joined(other), strict=False):
        if mine != its:
            both = isinstance(mine, str) and isinstance(its, str)
            return shared + (common(str(mine), str(its)) if both else 0)
        shared += len(str(mine))
    return shared


def _split(pieces: Sequence[Piece], size: int) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The pieces before and behind ``size`` characters of spelling; a control is not cut."""
    for i, piece in enumerate(pieces):
        if size < len(str(piece)):
            cut = (piece[:size], piece[size:]) if isinstance(piece, str) else ("", piece)
            return (*pieces[:i], cut[0]), (cut[1], *pieces[i + 1 :])
        size -= len(str(piece))
    return tuple(pieces), ()


def _written(
    model: Model,
    former: Remembered,
    request: TurnRequest,
    before: Sequence[Piece],
    rest: Sequence[Piece],
    *,
    bare: bool,
) -> Sequence[Piece]:
    """The pieces that the template writes in the reply's place; none where that means something else.

    It is read in the prompt itself up to the reply's end, as most templates end it by a stop; else as a last message,
    for formats of frames do not, and write more in the same turn.
    """
    cut, meant = former.reply[-1].end is End.NONE, meanings_of(former.reply, bare=bare)
    format, offered = model.format, request.conversation.offered
    reply, meanings = said(format, offered, before, rest, cut=cut)
    if meanings == meant and len(spell(reply)) < len(spell(rest)):
        return reply
    told = rendered(model, beginning(request, former.length), open=False)
    reply, meanings = said(format, offered, before, (told and _behind(told, before)) or (), cut=cut)
    return reply if meanings == meant and reply and _behind(rest, reply) is not None else ()


def beginning(request: TurnRequest, count: int) -> TurnRequest:
    """The request with the first ``count`` of its messages."""
    conversation = request.conversation
    return replace(request, conversation=replace(conversation, messages=conversation.messages[:count]))


def rendered(model: Model, request: TurnRequest, *, open: bool = True) -> tuple[Piece, ...] | None:
    """The pieces; None where the template writes no such history, as one that ends with a reply."""
    reply_as = Role.ASSISTANT if open else None
    with suppress(AntiphonError):
        return tuple(model.format.render(request.conversation, reply_as=reply_as, history=request.history))
    return None


def said(
    format: Format,
    offered: Collection[ToolSpec | str],
    before: Sequence[Piece],
    pieces: Sequence[Piece],
    *,
    cut: bool = False,
) -> tuple[list[Piece], list[tuple[str, str]]]:
    """The pieces that are read as a reply behind ``before``, up to a stop or all; and its meanings.

    ``cut``: it is read as one that a limit ended there, and not the model.
    """
    parser = format.parser(prompt=before, tools=offered)
    events: list[ParserEvent] = []
    reply: list[Piece] = []
    for piece in _cut_at_stops(pieces, format.stops):
        reply.append(piece)
        if cut and piece in format.stops:
            break
        events += parser.feed((piece,))
        if parser.ended is not None and piece in format.stops:
            break
    events += last_events(parser, cut=cut)
    return reply, _meanings(event.message for event in events if isinstance(event, MessageEnded))


def _cut_at_stops(pieces: Iterable[Piece], stops: Iterable[Control | str]) -> Iterator[Piece]:
    """The pieces; stops that a vocabulary has as texts are pieces of their own."""
    spelled = "|".join(re.escape(stop) for stop in stops if isinstance(stop, str) and stop)
    for piece in pieces:
        if isinstance(piece, str) and spelled:
            yield from filter(None, re.split(f"({spelled})", piece))
        else:
            yield piece


def _meanings(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """The meanings of the messages. Templates trim texts, write no empty ones, and may have one place for several."""
    trimmed = ((kind, text.strip()) for kind, text in map(meaning, bundled([*messages])))
    return [(kind, text) for kind, text in trimmed if text]


def meanings_of(reply: Sequence[Message], *, bare: bool = False) -> list[tuple[str, str]]:
    """The meanings of a reply as later turns see it, and `as_written` gives it to the template."""
    return _meanings(_writable(message, bare=bare) for message in as_history(reply))


def _up_to_end(model: Model, former: Remembered, written: Sequence[Piece]) -> tuple[tuple[int, ...], int]:
    """The ids without their end, and how many characters of ``written`` they stand for: the template writes the end.

    In a history Harmony ends with <|end|> the answer that its model ended with <|return|>. A reply that we ended need
    not have the marks that close its call.
    """
    ids, last = former.ids, former.reply[-1]
    own = ids[:-1] if ids[-1] in end_ids(model) else ids
    least = 1 if last.is_call and last.end is not End.NONE else 3  # a text may end with any character
    text, said = spell(written), spelled(model, own[-LONGEST_END:])
    place = max((i for i, piece in enumerate(written) if isinstance(piece, Control)), default=-1)
    end = written[place] if place >= 0 and not spell(written[place + 1 :]).strip() else None
    limit = len(text if end is None else spell(written[:place]))
    if isinstance(end, Control) and ids[-1] == model.tokenizer.control_id(end):
        return ids[:-1], limit
    for tail in (said[-LONGEST_TAIL:], said[-LONGEST_TAIL:].rstrip()):
        for size in range(len(tail), least - 1, -1):
            if (at := text.rfind(tail[-size:], 0, limit)) >= 0:
                return own, at + size
    return own, limit


def spelled(model: Model, ids: Sequence[int]) -> str:
    """The text of the ids, controls by their spelling."""
    pieces = map(model.tokenizer.piece, ids)
    return b"".join(p.spelling.encode() if isinstance(p, Control) else p for p in pieces).decode(errors="replace")


def end_ids(model: Model) -> frozenset[int]:
    """The ids of what ends a reply: of the format's stops, and of the engine's."""
    return stop_ids(model.format, model.tokenizer) | model.engine.info.end_ids


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
