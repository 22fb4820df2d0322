"""The ids of a prompt that goes on with a turn whose ids are known: those ids, and the ids of only what is new.

A template writes a call anew in its own spelling, and a text can be cut into tokens in more than one way. Where what
the template writes in place of a reply means what the reply meant, the reply's own ids stand there. Where it means
something else (it drops the reasoning of a turn that is over, it moves a text) the template is followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, takewhile
from typing import Literal

import msgspec

from antiphon.conversation import Channel, Conversation, Message, MessageEnded, ParserEvent, Role
from antiphon.errors import AntiphonError
from antiphon.formats import HistoryPolicy
from antiphon.tokens import Control, Piece, Tokenizer, decode

from .model import Model, stop_ids
from .reply import as_history, meaning
from .request import TurnRequest
from .sequences import Remembered, Sequences, common, digest


def bridged(
    model: Model, former: Remembered, request: TurnRequest, prompt: Sequence[Piece]
) -> tuple[tuple[int, ...], tuple[Piece, ...]] | None:
    """The ids of ``former`` that the prompt goes on with, and its pieces behind them.

    None where the prompt begins otherwise, or has something else in the reply's place.
    """
    asked = _rendered(model, _beginning(request, former.asked))
    rest = None if asked is None or digest(asked) != former.prompt else _behind(prompt, asked)
    if asked is None or rest is None:
        return None
    for written in _replies(model, former, request, asked, rest):
        ids, length = _up_to_end(model, former.ids, written)
        new = _behind(rest, written[:length])
        if new is not None:
            return ids, new
    return None


def goes_on(model: Model, former: Remembered, ids: Sequence[int]) -> bool:
    """Whether a prompt has the ids of ``former`` already, but for its end, which the template writes."""
    last = len(former.ids) - (former.ids[-1] in _ends(model))
    return tuple(ids[:last]) == former.ids[:last]


def _ends(model: Model) -> frozenset[int]:
    return stop_ids(model.format, model.tokenizer) | model.engine.info.end_ids


def _replies(
    model: Model, former: Remembered, request: TurnRequest, asked: Sequence[Piece], rest: Sequence[Piece]
) -> Iterator[Sequence[Piece]]:
    """Readings of the reply's place: the prompt itself up to the reply's end; or the reply as a last message.

    Most templates end it by a stop. Formats of frames do not, and write more in the same turn.
    """
    reply = _read(model, former, request, asked, rest)
    if reply and len(reply) < len(rest):
        yield reply
    told = _rendered(model, _beginning(request, former.length), open=False)
    reply = _read(model, former, request, asked, (told and _behind(told, asked)) or ())
    if reply:
        yield reply


def _beginning(request: TurnRequest, count: int) -> TurnRequest:
    """The request with the first ``count`` of its messages."""
    conversation = request.conversation
    return replace(request, conversation=replace(conversation, messages=conversation.messages[:count]))


def _rendered(model: Model, request: TurnRequest, *, open: bool = True) -> tuple[Piece, ...] | None:
    """The pieces; None where the template writes no such history, as one that ends with a reply."""
    reply_as = Role.ASSISTANT if open else None
    with suppress(AntiphonError):
        return tuple(model.format.render(request.conversation, reply_as=reply_as, history=request.history))
    return None


def _read(
    model: Model, former: Remembered, request: TurnRequest, asked: Sequence[Piece], pieces: Sequence[Piece]
) -> Sequence[Piece] | None:
    """The pieces up to a stop; None where they are read otherwise than the reply was."""
    parser = model.format.parser(prompt=asked, tools=request.conversation.offered)
    events: list[ParserEvent] = []
    for count, piece in enumerate(pieces, 1):
        events += parser.feed((piece,))
        if parser.ended is not None and piece in model.format.stops:
            pieces = pieces[:count]
            break
    read = [event.message for event in (*events, *parser.close()) if isinstance(event, MessageEnded)]
    return pieces if _meanings(read) == _meanings(as_history(former.reply)) else None


def _meanings(messages: Iterable[Message]) -> list[tuple[str, str]]:
    """The meanings of the messages. Templates trim texts, and write no empty ones."""
    trimmed = ((kind, text.strip()) for kind, text in map(meaning, messages))
    return [(kind, text) for kind, text in trimmed if text]


def _up_to_end(model: Model, ids: tuple[int, ...], written: Sequence[Piece]) -> tuple[tuple[int, ...], int]:
    """The ids without their end, and how many of the pieces they stand for: the template writes the end.

    In a history Harmony ends with <|end|> the answer that its model ended with <|return|>.
    """
    ends = _ends(model)
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


# How much of an earlier prompt and its reply a prompt goes on with, and what ended that.

Cause = Literal[
    "tools", "response_format", "date", "reasoning_effort", "arguments", "message", "reasoning", "tokens", "template",
    "forgotten",
]  # fmt: skip
"""The part that changed. ``reasoning`` is no longer there, ``tokens``: the same text in other tokens, ``template``: it
writes the history otherwise than it was sampled, ``forgotten``: the turn or its request is not remembered here."""
Encode = Callable[[TurnRequest, bool], Sequence[int]]
"""The ids of a request's prompt; with the start of a reply, or without. Raises `AntiphonError`."""


class PrefixLoss(msgspec.Struct, frozen=True):
    """The first id ``at`` which a prompt is another one; it is in message ``message``, or in none."""

    at: int
    cause: Cause
    message: int | None = None


class PrefixReport(msgspec.Struct, frozen=True):
    """The first ``kept`` ids are those of the earlier prompt with its reply, which had ``former``; None: there is none.

    ``lost`` None: all of it was kept. ``bridgeable``: it can be, but for an end that the template writes otherwise; it
    is, unless the request's policy is the template.
    """

    kept: int
    former: int | None = None
    bridgeable: bool = False
    lost: PrefixLoss | None = None


def prefix_report(
    sequences: Sequences, request: TurnRequest, ids: Sequence[int], encode: Encode, tokenizer: Tokenizer
) -> PrefixReport:
    """Compares the prompt ``ids`` of ``request`` with an earlier one."""
    former = sequences.nearest(request, ids)
    kept = common(former.ids, ids) if former else 0
    if sequences.has_forgotten(request):
        return PrefixReport(kept, len(former.ids) if former else None, lost=PrefixLoss(kept, "forgotten"))
    if former is None:
        return PrefixReport(0)
    length = len(former.ids)
    if kept == length:
        return PrefixReport(kept, length, bridgeable=True)
    bridge = ids if request.prefix_policy == "bridge" else encode(replace(request, prefix_policy="bridge"), True)
    bridgeable = common(former.ids, bridge) >= length - 1
    asked = former.request or _request_of(former, request, encode)
    if asked is None:
        return PrefixReport(kept, length, bridgeable, PrefixLoss(kept, "forgotten"))
    return PrefixReport(kept, length, bridgeable, _Look(former, asked, request, ids, kept, encode, tokenizer).loss())


def _request_of(former: Remembered, request: TurnRequest, encode: Encode) -> TurnRequest | None:
    """The request that another process answered, where it was the beginning of this one; None: another, or unknown."""
    asked = _beginning(request, former.asked)
    with suppress(AntiphonError):
        if former.ids[: len(ids := tuple(encode(asked, True)))] == ids:
            return asked
    return None


class _Look(msgspec.Struct, frozen=True):
    """Finds a cause by trial: the one that, put back to what it was, lets the prompt keep more."""

    former: Remembered
    asked: TurnRequest
    request: TurnRequest
    ids: Sequence[int]
    kept: int
    encode: Encode
    tokenizer: Tokenizer

    def loss(self) -> PrefixLoss:
        for cause, earlier in self._put_back():
            if self._keeps_more(earlier):
                return PrefixLoss(self.kept, cause)
        return self._in_history()

    def _put_back(self) -> Iterator[tuple[Cause, TurnRequest]]:
        """The request with one of its settings as it was, where that was another."""
        old, now = self.asked.conversation, self.request.conversation
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
        changed = next((i for i, one in enumerate(old) if i >= len(new) or not _is_same(one, new[i])), None)
        if changed is not None and self._keeps_more(self._with(old)):
            return PrefixLoss(
                self.kept, "reasoning" if old[changed].channel == Channel.ANALYSIS else "message", changed
            )
        thought = place is not None and old[place].channel == Channel.ANALYSIS
        dropped = thought or self._keeps_more(replace(self.request, history=HistoryPolicy.KEEP_ALL))
        return PrefixLoss(self.kept, "reasoning" if dropped else "template", place)

    @property
    def _old(self) -> tuple[Message, ...]:
        return *self.asked.conversation.messages, *self.former.reply

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
        text = takewhile(lambda id: not isinstance(self.tokenizer.piece(id), Control), ids)
        return decode(self.tokenizer, list(text))

    def _place(self) -> int | None:
        """The message of the earlier conversation in which the prompts part; None where it is in none of them."""
        low, high = 0, len(self._old)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._reaches(middle + 1) else (middle + 1, high)
        return low if low < len(self._old) else None

    def _reaches(self, count: int) -> bool:
        """Whether the first ``count`` messages of the earlier conversation have what was lost."""
        conversation = replace(self.asked.conversation, messages=self._old[:count])
        with suppress(AntiphonError):
            ids = self.encode(replace(self.asked, conversation=conversation), False)
            return len(ids) > self.kept <= common(ids, self.former.ids)
        return False


def _is_same(one: Message, other: Message) -> bool:
    """Whether both say the same of what a prompt shows."""
    return (one.role, one.channel, one.recipient, one.text) == (other.role, other.channel, other.recipient, other.text)
