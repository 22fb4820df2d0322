"""How much of an earlier prompt and its reply a prompt goes on with, and what ended that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Literal

import msgspec

from antiphon.conversation import Channel, Conversation, Message
from antiphon.errors import AntiphonError
from antiphon.formats import HistoryPolicy
from antiphon.formats.format import incidents_of
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.tokens import Control, decode

from .bridge import as_written, beginning, end_ids, meanings_of, place_of_reply, rendered, said, spelled
from .model import Model
from .reply import as_history
from .request import TurnRequest
from .sequences import Remembered, Sequences, common

LONGEST_MARK = 32
"""Tokens on either side of a place in which a mark of reasoning is looked for."""

Cause = Literal[
    "tools", "response_format", "date", "reasoning_effort", "arguments", "message", "reasoning", "tokens", "end",
    "rewritten", "dropped", "template", "cut", "forgotten",
]  # fmt: skip
"""The part that changed. ``reasoning`` is no longer there, ``tokens``: the same text in other tokens. By the template:
``end``: it ends the reply otherwise; ``rewritten``: it writes an earlier part otherwise once more follows, or in
another place or channel; ``dropped``: it leaves out what was said; ``template``: it writes it in other words.
``cut``: a limit or a stop of the request cut the reply, which says less than was sampled. ``forgotten``: the turn or
its request is not remembered here."""
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
    sequences: Sequences, request: TurnRequest, ids: Sequence[int], encode: Encode, model: Model
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
    return PrefixReport(kept, length, bridgeable, _Look(former, asked, request, ids, kept, encode, model).loss())


def _request_of(former: Remembered, request: TurnRequest, encode: Encode) -> TurnRequest | None:
    """The request that another process answered, where it was the beginning of this one; None: another, or unknown."""
    asked = beginning(request, former.asked)
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
    model: Model

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
        if self.kept == len(self.former.ids) - 1 and self.former.ids[-1] in end_ids(self.model):
            return PrefixLoss(self.kept, "end", place)
        changed = next((i for i, one in enumerate(old) if i >= len(new) or not _is_same(one, new[i])), None)
        if changed is not None and self._keeps_more(self._with(old)):
            return PrefixLoss(
                self.kept, "reasoning" if old[changed].channel == Channel.ANALYSIS else "message", changed
            )
        thought = place is not None and old[place].channel == Channel.ANALYSIS
        if thought or self._opens_thought() or self._keeps_more(replace(self.request, history=HistoryPolicy.KEEP_ALL)):
            return PrefixLoss(self.kept, "reasoning", place)
        return PrefixLoss(self.kept, self._of_template() if self.former.key else "cut", place)

    def _opens_thought(self) -> bool:
        """Whether a mark of reasoning was lost, where a template leaves out an empty thought."""
        region = self.model.format.replies.reasoning if isinstance(self.model.format, ReplyFormat) else None
        start = max(0, self.kept - LONGEST_MARK)
        was, now = (spelled(self.model, ids[start : self.kept + LONGEST_MARK]) for ids in (self.former.ids, self.ids))
        return region is not None and was.count(region.open.strip()) > now.count(region.open.strip())

    def _of_template(self) -> Cause:
        """The template's part in it, where no message changed."""
        format, offered = self.model.format, self.request.conversation.offered
        asked = rendered(self.model, self.asked)
        prompt = rendered(self.model, as_written(self.former, self.request))
        place = place_of_reply(format, offered, asked, prompt) if asked and prompt else None
        if place is None or incidents_of(self.model.format.render(self.request.conversation)):
            return "rewritten"
        reply, written = meanings_of(self.former.reply), said(format, offered, *place)[1]
        ours, its = (Counter(text for _, text in meanings) for meanings in (reply, written))
        if ours == its and reply != written:
            return "rewritten"
        return "dropped" if its < ours else "template"

    @property
    def _old(self) -> tuple[Message, ...]:
        return *self.asked.conversation.messages, *as_history(self.former.reply)

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
    """Whether both say the same of what a prompt shows; clients and templates trim texts."""
    parts = ((m.role, m.channel, m.recipient, m.text.strip()) for m in (one, other))
    return next(parts) == next(parts)
