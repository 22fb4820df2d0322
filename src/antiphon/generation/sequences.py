"""Prompts and replies of a model, remembered with their ids: a conversation that goes on with a turn keeps them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise, takewhile
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from antiphon.conversation import Message, Role
from antiphon.tenancy import Tenant
from antiphon.tokens import Piece

from .reply import as_history
from .request import TurnRequest

if TYPE_CHECKING:  # to render a prompt needs no store
    from antiphon.store import UnfinishedTurns

TRIED = 4
"""Earlier turns at most that one prompt is tried to go on with."""
NO_IDS: Mapping[str, str] = MappingProxyType({})
FORGOTTEN = 10_000
"""Turns at most of which it is known that they were remembered once."""


class Remembered(msgspec.Struct, frozen=True, eq=False):
    """One choice of a turn: the number of messages that it answers, a digest of its prompt, its reply, the ids of both.

    ``key``: a digest of the conversation with the reply; empty where no conversation goes on with its ids.
    ``own_ids``: the ids of calls that were given anew, with those that the model wrote.
    ``request`` None: it was answered elsewhere or before a restart, had images, or named nothing to go on with.
    """

    tenant: Tenant
    asked: int
    prompt: bytes
    reply: tuple[Message, ...]
    ids: tuple[int, ...]
    key: bytes = b""
    own_ids: tuple[tuple[str, str], ...] = ()
    request: TurnRequest | None = None

    @property
    def length(self) -> int:
        """The messages of the conversation with the reply, as a later turn has it."""
        return self.asked + len([*as_history(self.reply)])

    def within(self, messages: Sequence[Message]) -> Remembered:
        """The turn as a conversation ends with it that may have its texts as one, or before its calls."""
        if len(messages) == self.length:
            return self
        asked = next((i for i in range(len(messages), 0, -1) if messages[i - 1].role is not Role.ASSISTANT), 0)
        *reply, last = messages[asked:]
        ended = last if last.is_call else replace(last, end=self.reply[-1].end)
        return msgspec.structs.replace(self, asked=asked, reply=(*reply, ended))


class Sequences:
    """The turns of one model that its later prompts go on with, or are compared with.

    Bounded by the number of ids, and by the turns, whose requests take room too: the owner who has the most forgets the
    oldest. Each domain finds its own only. Several threads may share it. ``stored``: where others find them;
    ``writing``: what is not there yet.
    """

    def __init__(self, capacity: int = 1_000_000, turns: int = 1000) -> None:
        self._capacity = capacity
        self._turns = turns
        self._owners: dict[str, _Owned] = {}
        self._by_key: dict[bytes, Remembered] = {}
        self._forgotten: dict[bytes, None] = {}
        self._lock = Lock()
        self.stored: UnfinishedTurns | None = None
        self.writing: set[asyncio.Task[None]] = set()

    def add(
        self,
        request: TurnRequest,
        prompt: Sequence[Piece],
        ids: Sequence[int],
        reply: Sequence[Message],
        sampled: Sequence[int],
        *,
        exact: bool = True,
        own_ids: Mapping[str, str] = NO_IDS,
        explained: bool = True,
    ) -> Remembered:
        """Store a finished choice. ``exact``: the sampled text says what the reply does, and no more.

        ``explained``: the request is kept, to tell what another prompt changed of it.
        """
        whole = request.digests.behind([*as_history(reply)])
        key = whole.keys[-1] if exact and whole.keys and not whole.open else b""
        own, asked = tuple(own_ids.items()), request if explained else None
        count = len(request.conversation.messages)
        made = Remembered(request.tenant, count, digest(prompt), tuple(reply), (*ids, *sampled), key, own, asked)
        self.put(made)
        return made

    def put(self, made: Remembered) -> None:
        """Remember a choice that was found elsewhere."""
        with self._lock:
            self._owners.setdefault(made.tenant.owner, _Owned()).add(made)
            if made.key:
                self._by_key[made.key] = made
                self._forgotten.pop(made.key, None)
            while sum(one.size for one in self._owners.values()) > self._capacity:
                self._forget(max(self._owners, key=lambda owner: self._owners[owner].size))
            while sum(len(one.turns) for one in self._owners.values()) > self._turns:
                self._forget(max(self._owners, key=lambda owner: len(self._owners[owner].turns)))

    def continued(self, request: TurnRequest) -> Iterator[Remembered]:
        """The longest turns with which the request's conversation begins, the longest first; each is dear to try."""
        if self._by_key:
            messages = request.conversation.messages
            keys = reversed([*enumerate(request.digests.keys, 1)])
            found = ((self._by_key.get(key), length) for length, key in keys)
            yield from islice((one.within(messages[:length]) for one, length in found if one), TRIED)

    def missing(self, request: TurnRequest) -> list[bytes]:
        """The keys of turns that the conversation may go on with, the longest first, up to one that is remembered."""
        keys = [*request.digests.keys, b""]
        ends = (key for key, after in reversed([*pairwise(keys)]) if key and not after)
        return [*takewhile(lambda key: key not in self._by_key, ends)]

    def has_forgotten(self, request: TurnRequest) -> bool:
        """Whether the longest turn that is known of the conversation is remembered no longer."""
        if not self._forgotten:
            return False
        keys = reversed(request.digests.keys)
        return next((key in self._forgotten for key in keys if key in self._forgotten or key in self._by_key), False)

    def nearest(self, request: TurnRequest, ids: Sequence[int]) -> Remembered | None:
        """The turn that the conversation ends with; else the last of its session, or one that begins most as ``ids``.

        None: there is none.
        """
        tenant, domain = request.tenant, request.tenant.domain()
        messages = request.conversation.messages
        keys = request.digests.keys
        length = next((length for length in range(len(keys), 0, -1) if keys[length - 1]), 0)
        with self._lock:
            if length and (last := self._by_key.get(keys[length - 1])):
                return last.within(messages[:length])
            owned = self._owners.get(tenant.owner)
            own = [one for one in owned.turns if one.tenant.domain() == domain] if owned else []
        session = [one for one in own if tenant.affinity and one.tenant.affinity == tenant.affinity]
        return max(session[-1:] or reversed(own), key=lambda one: common(one.ids, ids), default=None)

    def _forget(self, owner: str) -> None:
        """Forgets the owner's oldest."""
        owned = self._owners[owner]
        one = owned.turns.popleft()
        owned.size -= len(one.ids)
        if not owned.turns:
            del self._owners[owner]
        if self._by_key.get(one.key) is one:
            del self._by_key[one.key]
            self._forgotten[one.key] = None
            if len(self._forgotten) > FORGOTTEN:
                del self._forgotten[next(iter(self._forgotten))]


class _Owned:
    """The turns of one owner, the oldest first, and the number of their ids."""

    def __init__(self) -> None:
        self.turns: deque[Remembered] = deque()
        self.size = 0

    def add(self, one: Remembered) -> None:
        self.turns.append(one)
        self.size += len(one.ids)


def common(first: Sequence[int] | str, second: Sequence[int] | str) -> int:
    """How many ids, or characters, both begin with: found by halves, for slices compare at memory's speed."""
    one, other = (part if isinstance(part, str) else tuple(part) for part in (first, second))
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def digest(pieces: Iterable[Piece]) -> bytes:
    """A digest of the pieces, however their texts are cut."""
    parts = [
        piece.encode("utf-8", "surrogatepass")
        if isinstance(piece, str)
        else b"\xff%b\xff" % piece.spelling.encode("utf-8", "surrogatepass")  # No text has the byte ff.
        for piece in pieces
    ]
    return hashlib.sha256(b"".join(parts)).digest()
