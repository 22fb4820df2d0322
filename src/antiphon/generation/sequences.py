"""What a model was sent and said, remembered with its ids: a conversation that goes on with a turn keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from threading import Lock
from typing import Literal

import msgspec

from antiphon.conversation import Channel, Conversation, End, Message
from antiphon.errors import AntiphonError
from antiphon.formats import HistoryPolicy
from antiphon.tokens import Control, Tokenizer, decode

from .reply import as_history, meaning
from .request import TurnRequest


class Remembered(msgspec.Struct, frozen=True, eq=False):
    """One choice of a turn: its request and reply, and the ids of both.

    ``key``: a digest of the conversation with the reply; empty where no conversation goes on with its ids.
    """

    request: TurnRequest
    reply: tuple[Message, ...]
    ids: tuple[int, ...]
    key: bytes = b""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation with the reply, as a later turn has it."""
        return *self.request.conversation.messages, *as_history(self.reply)


class Sequences:
    """The turns of one model that its later prompts go on with, or are compared with; the oldest is forgotten first.

    Bounded by the number of ids. Each domain finds its own only. Several threads may share it.
    """

    def __init__(self, capacity: int = 1_000_000) -> None:
        self._capacity = capacity
        self._size = 0
        self._all: list[Remembered] = []
        self._by_key: dict[bytes, Remembered] = {}
        self._lock = Lock()

    def add(
        self,
        request: TurnRequest,
        prompt: Sequence[int],
        reply: Sequence[Message],
        sampled: Sequence[int],
        *,
        exact: bool = True,
    ) -> None:
        """Remember a choice that is over. ``exact``: what was sampled says what the reply does, and no more."""
        made = Remembered(request, tuple(reply), (*prompt, *sampled))
        keys = list(_keys(request.tenant.domain(), made.messages))
        if exact and len(keys) > len(made.messages):
            made = msgspec.structs.replace(made, key=keys[-1])
        with self._lock:
            self._all.append(made)
            self._size += len(made.ids)
            if made.key:
                self._by_key[made.key] = made
            while self._size > self._capacity:
                self._forget(self._all.pop(0))

    def continued(self, request: TurnRequest) -> Iterator[Remembered]:
        """The turns with which the request's conversation begins, the longest first."""
        if self._by_key:
            keys = list(_keys(request.tenant.domain(), request.conversation.messages))
            yield from filter(None, map(self._by_key.get, reversed(keys)))

    def nearest(self, request: TurnRequest, ids: Sequence[int]) -> Remembered | None:
        """The last of the request's session, else the one that has most of the beginning of ``ids``; None: nothing."""
        domain, affinity = request.tenant.domain(), request.tenant.affinity
        with self._lock:
            own = [one for one in self._all if one.request.tenant.domain() == domain]
        session = [one for one in own if affinity and one.request.tenant.affinity == affinity]
        return max(session[-1:] or reversed(own), key=lambda one: common(one.ids, ids), default=None)

    def _forget(self, one: Remembered) -> None:
        self._size -= len(one.ids)
        if self._by_key.get(one.key) is one:
            del self._by_key[one.key]


def common(first: Sequence[int], second: Sequence[int]) -> int:
    """How many ids of both are the same from the beginning on: by halves, for slices compare at memory's speed."""
    one, other = tuple(first), tuple(second)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _keys(domain: str, messages: Sequence[Message]) -> Iterator[bytes]:
    """A digest of each beginning of the conversation, from none of its messages on.

    An open message, which the model continues, is in none: where it ends is not known.
    """
    so_far = hashlib.sha256(repr(domain).encode())
    yield so_far.digest()
    for message in messages:
        if message.end is End.NONE:
            return
        so_far.update(repr((message.role.value, message.name, message.call_id, *meaning(message))).encode())
        yield so_far.digest()


# How much of an earlier prompt and its reply a prompt goes on with, and what ended that.

Cause = Literal[
    "tools", "response_format", "date", "reasoning_effort", "arguments", "message", "reasoning", "tokens", "template"
]
"""What was another one. ``reasoning`` is no longer there, ``tokens``: the same text in other tokens, ``template``: it
writes the history otherwise than it was sampled."""
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
    former: Remembered | None, request: TurnRequest, ids: Sequence[int], encode: Encode, tokenizer: Tokenizer
) -> PrefixReport:
    """Compares the prompt ``ids`` of ``request`` with a ``former`` one."""
    if former is None:
        return PrefixReport(0)
    kept = common(former.ids, ids)
    if kept == len(former.ids):
        return PrefixReport(kept, kept)
    look = _Look(former, request, ids, kept, encode, tokenizer)
    return PrefixReport(kept, len(former.ids), look.loss())


class _Look(msgspec.Struct, frozen=True):
    """Finds a cause by trial: the one that, put back to what it was, lets the prompt keep more."""

    former: Remembered
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
        if self._is_retokenized():
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

    def _is_retokenized(self) -> bool:
        """The texts go on alike, up to the next control, where the ids do not."""
        lost, found = (self._text(ids[self.kept :]) for ids in (self.former.ids, self.ids))
        return bool(lost) and lost == found

    def _text(self, ids: Sequence[int]) -> str:
        """What the ids say before the first control."""
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
        former = self.former.request
        conversation = replace(former.conversation, messages=self._old[:count])
        with suppress(AntiphonError):
            ids = self.encode(replace(former, conversation=conversation), False)
            return len(ids) > self.kept <= common(ids, self.former.ids)
        return False


def _is_same(one: Message, other: Message) -> bool:
    """Whether both say the same of what a prompt shows."""
    return (one.role, one.channel, one.recipient, one.text) == (other.role, other.channel, other.recipient, other.text)
