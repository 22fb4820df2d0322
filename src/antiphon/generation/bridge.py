"""The ids of a prompt that goes on with a turn whose ids are known: those ids, and the ids of only what is new.

A template writes a call anew in its own spelling, and a text can be cut into tokens in more than one way. Where what
the template writes in place of a reply means what the reply meant, the reply's own ids stand there. Where it means
something else (it drops the reasoning of a turn that is over, it moves a text) the template is followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, takewhile
from operator import is_
from typing import Literal

import msgspec

from antiphon.conversation import Channel, Conversation, Message, MessageEnded, ParserEvent, Role
from antiphon.errors import AntiphonError
from antiphon.formats import HistoryPolicy
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.tokens import Control, Piece, decode, spell

from .model import Model, stop_ids
from .reply import as_history, is_object, meaning
from .request import TurnRequest
from .sequences import Remembered, common

LONGEST_OPENING = 256
"""Characters of what opens a reply behind its header, as an empty thought."""
LONGEST_MARK = 32
"""Tokens on either side of a place in which a mark of reasoning is looked for."""


def bridged(
    model: Model, former: Remembered, request: TurnRequest, prompt: Sequence[Piece]
) -> tuple[tuple[int, ...], tuple[Piece, ...]] | None:
    """The ids of ``former`` that the prompt goes on with, and its pieces behind them.

    None where the prompt begins otherwise, or has something else in the reply's place.
    """
    asked = _rendered(model, former.request)
    if asked is None:
        return None
    shown = _as_written(former, request)
    prompt = prompt if shown is request else _rendered(model, shown) or ()
    before, rest = _place(model, former, asked, prompt) or ((), ())
    for written in _replies(model, former, shown, before, rest) if rest else ():
        ids, length = _up_to_end(model, former.ids, written)
        new = _behind(rest, written[:length])
        if new is not None:
            return ids, new
    return None


def _as_written(former: Remembered, request: TurnRequest) -> TurnRequest:
    """The request with the reply so that any template writes it where it stands: its ids stand there in the end.

    Its calls and their results have the model's own ids, and {} where a template could not write their arguments.
    """
    own, first, behind = dict(former.own_ids), len(former.request.conversation.messages), len(former.messages)
    conversation = request.conversation
    reply = (_writable(one) for one in conversation.messages[first:behind])
    written = [*conversation.messages[:first], *reply, *conversation.messages[behind:]]
    if own:
        written[first:] = (replace(one, call_id=own.get(one.call_id or "", one.call_id)) for one in written[first:])
    if all(map(is_, written, conversation.messages)):
        return request
    return replace(request, conversation=replace(conversation, messages=tuple(written)))


def _writable(message: Message) -> Message:
    return replace(message, text="{}") if message.is_call and not is_object(message.text) else message


def _place(
    model: Model, former: Remembered, asked: Sequence[Piece], prompt: Sequence[Piece]
) -> tuple[Sequence[Piece], Sequence[Piece]] | None:
    """The prompt up to where the reply begins, and behind that; None where it does not go on with ``asked``.

    A history need not have all that opened the reply, as an empty thought; or it has the header of a turn that went on.
    """
    size = _shared(asked, prompt)
    (_, opened), (before, rest) = _split(asked, size), _split(prompt, size)
    opens = len(spell(opened)) <= LONGEST_OPENING and not any(_ends(model, piece) for piece in opened)
    if not opens or _said(model, former, before, opened)[1]:
        return None
    if not opened and isinstance(model.format, ReplyFormat) and spell(rest).startswith(model.format.replies.anchor):
        header, rest = _split(rest, len(model.format.replies.anchor))
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


def _replies(
    model: Model, former: Remembered, request: TurnRequest, before: Sequence[Piece], rest: Sequence[Piece]
) -> Iterator[Sequence[Piece]]:
    """Readings of the reply's place: the prompt itself up to the reply's end; or the reply as a last message.

    Most templates end it by a stop. Formats of frames do not, and write more in the same turn.
    """
    reply = _read(model, former, before, rest)
    if reply and len(reply) < len(rest):
        yield reply
    messages = request.conversation.messages[: len(former.messages)]
    told = _rendered(model, replace(request, conversation=replace(request.conversation, messages=messages)), open=False)
    reply = _read(model, former, before, (told and _behind(told, before)) or ())
    if reply:
        yield reply


def _rendered(model: Model, request: TurnRequest, *, open: bool = True) -> tuple[Piece, ...] | None:
    """The pieces; None where the template writes no such history, as one that ends with a reply."""
    reply_as = Role.ASSISTANT if open else None
    with suppress(AntiphonError):
        return tuple(model.format.render(request.conversation, reply_as=reply_as, history=request.history))
    return None


def _read(model: Model, former: Remembered, before: Sequence[Piece], pieces: Sequence[Piece]) -> Sequence[Piece] | None:
    """The pieces up to a stop; None where they are read otherwise than the reply was."""
    reply, meanings = _said(model, former, before, pieces)
    return reply if meanings == _meanings(map(_writable, as_history(former.reply))) else None


def _said(
    model: Model, former: Remembered, before: Sequence[Piece], pieces: Sequence[Piece]
) -> tuple[list[Piece], list[tuple[str, str]]]:
    """The pieces that are read as a reply behind ``before``, up to a stop or all; and its meanings."""
    parser = model.format.parser(prompt=before, tools=former.request.conversation.offered)
    events: list[ParserEvent] = []
    reply: list[Piece] = []
    for piece in _cut_at_stops(pieces, model.format.stops):
        events += parser.feed((piece,))
        reply.append(piece)
        if parser.ended is not None and _ends(model, piece):
            break
    events += parser.close()
    return reply, _meanings(event.message for event in events if isinstance(event, MessageEnded))


def _cut_at_stops(pieces: Iterable[Piece], stops: Iterable[Control | str]) -> Iterator[Piece]:
    """The pieces, texts cut behind the stops that they spell, where a vocabulary has those as texts."""
    behind = "|".join(f"(?<={re.escape(stop)})" for stop in stops if isinstance(stop, str) and stop)
    for piece in pieces:
        if isinstance(piece, str) and behind:
            yield from filter(None, re.split(behind, piece))
        else:
            yield piece


def _ends(model: Model, piece: Piece) -> bool:
    """Whether a stop ends with the piece."""
    texts = tuple(stop for stop in model.format.stops if isinstance(stop, str) and stop)
    return piece.endswith(texts) if isinstance(piece, str) else piece in model.format.stops


def _meanings(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """The meanings of the messages. Templates trim texts, and write no empty ones."""
    trimmed = ((kind, text.strip()) for kind, text in map(meaning, messages))
    return [(kind, text) for kind, text in trimmed if text]


def _up_to_end(model: Model, ids: tuple[int, ...], written: Sequence[Piece]) -> tuple[tuple[int, ...], int]:
    """The ids without their end, and how many of the pieces they stand for: the template writes the end.

    In a history Harmony ends with <|end|> the answer that its model ended with <|return|>.
    """
    ends = _end_ids(model)
    place = max((i for i, piece in enumerate(written) if isinstance(piece, Control)), default=0)
    end, behind = written[place], written[place + 1 :]
    if not isinstance(end, Control) or "".join(map(str, behind)).strip():
        return (ids[:-1] if ids[-1] in ends else ids), len(written)
    id = model.tokenizer.control_id(end)
    ids = ids[:-1] if ids[-1] != id and ids[-1] in ends else ids
    return (ids[:-1] if ids[-1] == id else ids), place


def _end_ids(model: Model) -> frozenset[int]:
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


# How much of an earlier prompt and its reply a prompt goes on with, and what ended that.

Cause = Literal[
    "tools", "response_format", "date", "reasoning_effort", "arguments", "message", "reasoning", "tokens", "end",
    "rewritten", "dropped", "template",
]  # fmt: skip
"""The part that changed. ``reasoning`` is no longer there, ``tokens``: the same text in other tokens. By the template:
``end``: it ends the reply otherwise; ``rewritten``: it writes an earlier part otherwise once more
follows, or in another place or channel; ``dropped``: it leaves out what was said; ``template``: it writes other texts."""
Encode = Callable[[TurnRequest, bool], Sequence[int]]
"""The ids of a request's prompt; with the start of a reply, or without. Raises `AntiphonError`."""


class PrefixLoss(msgspec.Struct, frozen=True):
    """The first id ``at`` which a prompt is another one; it is in message ``message``, or in none."""

    at: int
    cause: Cause
    message: int | None = None


class PrefixReport(msgspec.Struct, frozen=True):
    """The first ``kept`` ids are those of the earlier prompt with its reply, which had ``former``; None: there is none.

    ``lost`` None: all of it was kept.
    """

    kept: int
    former: int | None = None
    lost: PrefixLoss | None = None


def prefix_report(
    former: Remembered | None, request: TurnRequest, ids: Sequence[int], encode: Encode, model: Model
) -> PrefixReport:
    """Compares the prompt ``ids`` of ``request`` with a ``former`` one."""
    if former is None:
        return PrefixReport(0)
    kept = common(former.ids, ids)
    if kept == len(former.ids):
        return PrefixReport(kept, kept)
    look = _Look(former, request, ids, kept, encode, model)
    return PrefixReport(kept, len(former.ids), look.loss())


class _Look(msgspec.Struct, frozen=True):
    """Finds a cause by trial: the one that, put back to what it was, lets the prompt keep more."""

    former: Remembered
    request: TurnRequest
    ids: Sequence[int]
    kept: int
    encode: Encode
    model: Model

    def loss(self) -> PrefixLoss:
        for cause, earlier in self._put_back():
            if self._keeps_more(earlier):
                return PrefixLoss(self.kept, cause)
        return self._in_history()

    def _put_back(self) -> Iterator[tuple[Cause, TurnRequest]]:
        """The request with one of its settings as it was, where that was another."""
        old, now = self.former.request.conversation, self.request.conversation
        before, settings = old.settings, now.settings
        trials: dict[Cause, Conversation] = {
            "tools": replace(now, tools=old.tools, builtins=old.builtins),
            "response_format": replace(now, response_format=old.response_format),
            "date": replace(now, settings=replace(settings, current_date=before.current_date)),
            "reasoning_effort": replace(now, settings=replace(settings, reasoning_effort=before.reasoning_effort)),
            "arguments": replace(now, settings=replace(settings, template_kwargs=before.template_kwargs)),
        }
        for cause, trial in trials.items():
            if trial != now:
                yield cause, replace(self.request, conversation=trial)

    def _in_history(self) -> PrefixLoss:
        """The loss is in the messages, or in how they are written."""
        old, new = self._old, self.request.conversation.messages
        place = self._place()
        lost, found = (self._text(ids[self.kept :]) for ids in (self.former.ids, self.ids))
        if lost and lost == found:
            return PrefixLoss(self.kept, "tokens", place)
        if self.kept == len(self.former.ids) - 1 and self.former.ids[-1] in _end_ids(self.model):
            return PrefixLoss(self.kept, "end", place)
        changed = next((i for i, one in enumerate(old) if i >= len(new) or not _is_same(one, new[i])), None)
        if changed is not None and self._keeps_more(self._with(old)):
            return PrefixLoss(
                self.kept, "reasoning" if old[changed].channel == Channel.ANALYSIS else "message", changed
            )
        thought = place is not None and old[place].channel == Channel.ANALYSIS
        if thought or self._opens_thought() or self._keeps_more(replace(self.request, history=HistoryPolicy.KEEP_ALL)):
            return PrefixLoss(self.kept, "reasoning", place)
        return PrefixLoss(self.kept, self._of_template(), place)

    def _opens_thought(self) -> bool:
        """Whether a mark of reasoning was lost, where a template leaves out an empty thought."""
        region = self.model.format.replies.reasoning if isinstance(self.model.format, ReplyFormat) else None
        start = max(0, self.kept - LONGEST_MARK)
        was, now = (self._spelled(ids[start : self.kept + LONGEST_MARK]) for ids in (self.former.ids, self.ids))
        return region is not None and was.count(region.open.strip()) > now.count(region.open.strip())

    def _of_template(self) -> Cause:
        """The template's part in it, where no message changed."""
        asked, prompt = (
            _rendered(self.model, self.former.request),
            _rendered(self.model, _as_written(self.former, self.request)),
        )
        place = _place(self.model, self.former, asked, prompt) if asked and prompt else None
        if place is None:
            return "rewritten"
        said = Counter(text for _, text in _meanings(map(_writable, as_history(self.former.reply))))
        written = Counter(text for _, text in _said(self.model, self.former, *place)[1])
        if written == said:  # in another order, or another channel
            return "rewritten"
        return "dropped" if written < said else "template"

    @property
    def _old(self) -> tuple[Message, ...]:
        return *self.former.request.conversation.messages, *self.former.reply

    def _with(self, messages: Sequence[Message]) -> TurnRequest:
        """The request with ``messages`` in place of as many of its own."""
        conversation = self.request.conversation
        more = conversation.messages[len(messages) :]
        return replace(self.request, conversation=replace(conversation, messages=(*messages, *more)))

    def _keeps_more(self, request: TurnRequest) -> bool:
        with suppress(AntiphonError):
            return common(self.former.ids, self.encode(request, True)) > self.kept
        return False

    def _text(self, ids: Sequence[int]) -> str:
        """The text of the ids before the first control."""
        text = takewhile(lambda id: not isinstance(self.model.tokenizer.piece(id), Control), ids)
        return decode(self.model.tokenizer, list(text))

    def _spelled(self, ids: Sequence[int]) -> str:
        pieces = map(self.model.tokenizer.piece, ids)
        return b"".join(p.spelling.encode() if isinstance(p, Control) else p for p in pieces).decode(errors="replace")

    def _place(self) -> int | None:
        """The message of the earlier conversation in which the prompts part; None where it is in none of them."""
        low, high = 0, len(self._old)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._reaches(middle + 1) else (middle + 1, high)
        return low if low < len(self._old) else None

    def _reaches(self, count: int) -> bool:
        """Whether the first ``count`` messages of the earlier conversation have what was lost."""
        former = self.former.request
        conversation = replace(former.conversation, messages=self._old[:count])
        with suppress(AntiphonError):
            ids = self.encode(replace(former, conversation=conversation), False)
            return len(ids) > self.kept <= common(ids, self.former.ids)
        return False


def _is_same(one: Message, other: Message) -> bool:
    """Whether both say the same of what a prompt shows."""
    return (one.role, one.channel, one.recipient, one.text) == (other.role, other.channel, other.recipient, other.text)
