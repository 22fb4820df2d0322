"""Prompts and replies of a model, remembered with their ids: a conversation that goes on with a turn keeps them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from types import MappingProxyType

import msgspec

from antiphon.conversation import End, Message

from .reply import as_history, meaning
from .request import TurnRequest

TRIED = 4
"""Earlier turns at most that one prompt is tried to go on with."""
NO_IDS: Mapping[str, str] = MappingProxyType({})


class Remembered(msgspec.Struct, frozen=True, eq=False):
    """One choice of a turn: its request and reply, and the ids of both.

    ``key``: a digest of the conversation with the reply; empty where no conversation goes on with its ids.
    ``own_ids``: the ids of calls that were given anew, with those that the model wrote.
    """

    request: TurnRequest
    reply: tuple[Message, ...]
    ids: tuple[int, ...]
    key: bytes = b""
    own_ids: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation with the reply, as a later turn has it."""
        return *self.request.conversation.messages, *as_history(self.reply)


class Sequences:
    """The turns of one model that its later prompts go on with, or are compared with; the oldest is forgotten first.

    Bounded by the number of ids, and by the turns, whose requests take room too. Each domain finds its own only.
    Several threads may share it.
    """

    def __init__(self, capacity: int = 1_000_000, turns: int = 1000) -> None:
        self._capacity = capacity
        self._turns = turns
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
        own_ids: Mapping[str, str] = NO_IDS,
    ) -> None:
        """Remember a choice that is over. ``exact``: what was sampled says what the reply does, and no more."""
        made = Remembered(request, tuple(reply), (*prompt, *sampled), own_ids=tuple(own_ids.items()))
        keys = list(_keys(request.tenant.domain(), made.messages))
        if exact and len(keys) > len(made.messages):
            made = msgspec.structs.replace(made, key=keys[-1])
        with self._lock:
            self._all.append(made)
            self._size += len(made.ids)
            if made.key:
                self._by_key[made.key] = made
            while self._size > self._capacity or len(self._all) > self._turns:
                self._forget(self._all.pop(0))

    def continued(self, request: TurnRequest) -> Iterator[Remembered]:
        """The longest turns with which the request's conversation begins, the longest first; each is dear to try."""
        if self._by_key:
            keys = list(_keys(request.tenant.domain(), request.conversation.messages))
            yield from islice(filter(None, map(self._by_key.get, reversed(keys))), TRIED)

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


def common(first: Sequence[int] | str, second: Sequence[int] | str) -> int:
    """How many ids, or characters, both begin with: found by halves, for slices compare at memory's speed."""
    one, other = (part if isinstance(part, str) else tuple(part) for part in (first, second))
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
