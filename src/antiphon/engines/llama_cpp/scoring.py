"""How probable a prompt is. llama.cpp's server reports that of sampled ids only, so the prompt is sampled.

A grammar allows one id at each place, and what is reported there is the model's own distribution, before the grammar.
That takes as long as it takes to write the prompt, not to read it. An id that ends a reply would end the request, and
of one that ends inside a character nothing is reported: each of these is looked up among the most probable ids after
those before it, in the end among all of the vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from antiphon.conversation import TokenLogprob
from antiphon.errors import EngineError
from antiphon.tenancy import Tenant

from .wire import Event, Probability

# Where a reply goes on: in the slot that holds its beginning, so that only what is new is evaluated.
#
# The server by itself goes by the share of the new prompt that a slot holds; then sessions with a long common
# beginning take each other's slot, and what was behind it is lost. Here it counts how much of a slot's own content
# would stay. A prompt that continues none is left to the server, which takes the slot that is longest unused and
# stores its contents.
#
# The server does not separate owners. So from the moment on in which requests of two domains came, each is sent to a
# slot by number, and only one whose last prompt was of the same domain may be gone on with: neither a count nor a time
# shows what others sent. The server's store of prompts is not used then.

Ids = TypeVar("Ids", list[int], tuple[int, ...])
SHARED = 0.8
"""A prompt continues a slot if at least this share of the slot's content stays."""


@dataclass(slots=True, eq=False)
class Placement:
    """One request: the slot that it requests (None: the server's choice) and, later, the one that it got.

    ``reuse``: what the slot holds may be gone on with. ``began``: the server works at it, or has.
    """

    tenant: Tenant
    domain: str
    ids: list[int]
    requested: int | None = None
    reuse: bool = True
    slot: int | None = None
    began: bool = False

    @property
    def place(self) -> int | None:
        """The slot, as far as it is known."""
        return self.requested if self.slot is None else self.slot


@dataclass(slots=True)
class Slots:
    """Contents of the ``count`` slots of one child, as far as this process has seen. ``shared``: owners share them."""

    count: int
    shared: bool = False
    _contents: dict[int, Placement] = field(default_factory=dict)
    """By slot, the longest unused first."""
    _active: list[Placement] = field(default_factory=list)

    def enter(self, prompt: Sequence[int], tenant: Tenant, *, n: int = 1, apart: bool = False) -> Placement:
        """Places a request. ``apart``: several domains ask, each request is for one choice, and a slot is free."""
        place = Placement(tenant, tenant.domain(shared=self.shared), list(prompt))
        # While the server has not reported where it put another request, a slot that looks idle may not be.
        known = all(other.place is not None for other in self._active)
        if apart:
            place.requested = slot = self._own(place)
            place.reuse = known and slot in self._contents and self._contents[slot].domain == place.domain
            self._hold(slot, place)
        elif n == 1 and known:
            place.requested = self._best(place, self._idle())
        self._active.append(place)
        return place

    def settle(self, place: Placement, slot: int) -> None:
        """The server has begun, in that slot; -1: it says later in which."""
        place.began = True
        if slot >= 0:
            place.slot = slot
            self._hold(slot, place)

    def leave(self, place: Placement) -> None:
        """The request is over. What a slot holds for which it was meant, but in which it never began, nobody knows."""
        self._active.remove(place)
        if not place.began and place.requested is not None and self._contents.get(place.requested) is place:
            del self._contents[place.requested]

    def _hold(self, slot: int, place: Placement) -> None:
        self._contents.pop(slot, None)
        self._contents[slot] = place

    def _idle(self) -> dict[int, Placement]:
        busy = {other.place for other in self._active}
        return {slot: content for slot, content in self._contents.items() if slot not in busy}

    def _own(self, place: Placement) -> int:
        """A slot of the same domain that the prompt continues, else an unused one, else that longest unused."""
        idle = self._idle()
        best = self._best(place, {slot: content for slot, content in idle.items() if content.domain == place.domain})
        if best is not None:
            return best
        busy = {other.place for other in self._active}
        unused = (slot for slot in range(self.count) if slot not in self._contents and slot not in busy)
        return next(unused, next(iter(idle), 0))

    def _best(self, place: Placement, idle: dict[int, Placement]) -> int | None:
        session = (place.tenant.owner, place.tenant.affinity)
        own = [slot for slot, one in idle.items() if (one.tenant.owner, one.tenant.affinity) == session]
        if own and place.tenant.affinity:
            return own[-1]
        common = {slot: common_length(content.ids, place.ids) for slot, content in idle.items()}
        fitting = [slot for slot, length in common.items() if length >= SHARED * len(idle[slot].ids)]
        return max(fitting, key=common.__getitem__, default=None)


def common_length(one: Ids, other: Ids) -> int:
    """Length of the common beginning of two lists, or two tuples: by halves, for slices compare at memory's speed."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


PART = 256
"""Ids of one request at most; between two requests others have their turn."""
FEW, MANY = 256, 8192
"""Ids among which one is looked up, before it is looked up among all: to report them all takes a second or so."""
REMEMBERED = 2**16
"""Log probabilities that are remembered, alternatives among them."""
_SAFE = "a"
"""A text whose id is a whole character and ends nothing."""


class Forced(msgspec.Struct, frozen=True, kw_only=True):
    """A request to go on after ``prompt`` with just ``ids``, reporting the ``most`` probable at each place."""

    prompt: Sequence[int]
    ids: Sequence[int]
    most: int

    @property
    def grammar(self) -> str:
        return "%llguidance {}\nstart: " + " ".join(f"<[{id}]>" for id in self.ids)


Send = Callable[[Forced], Awaitable[Mapping[int, Probability]]]
"""Gives what the server reports of each place that it reports."""


Scores = Sequence[TokenLogprob | None]


@dataclass(slots=True)
class ScoreMemo:
    """The last prompts that were scored: the answers to one question begin alike, and are scored one by one."""

    _scored: deque[tuple[tuple[str, int], tuple[int, ...], Scores]] = field(default_factory=deque)
    _size: int = 0

    def add(self, domain: str, prompt: Sequence[int], alternatives: int, scores: Scores) -> None:
        self._scored.append(((domain, alternatives), tuple(prompt), scores))
        self._size += len(prompt) * (1 + alternatives)
        while self._size > REMEMBERED:
            (_, most), dropped, _ = self._scored.popleft()
            self._size -= len(dropped) * (1 + most)

    def known(self, domain: str, prompt: Sequence[int], alternatives: int) -> Scores:
        """Gives the scores of the longest beginning of the prompt that was scored for the same domain."""
        best: Scores = (None,)
        for key, ids, scores in self._scored:
            if key == (domain, alternatives):
                best = max(best, scores[: common_length(ids, tuple(prompt))], key=len)
        return best


class Scorer(msgspec.Struct, frozen=True, kw_only=True):
    """Scores prompts of a model with ``vocabulary`` ids, of which ``ends`` end a reply. ``encode`` is its tokenizer.

    ``fragment`` gives the bytes of an id that is part of a character, else none.
    """

    send: Send
    encode: Callable[[str], Awaitable[list[int]]]
    fragment: Callable[[int], bytes]
    ends: frozenset[int]
    vocabulary: int

    async def score(self, prompt: Sequence[int], alternatives: int, known: Scores) -> tuple[TokenLogprob | None, ...]:
        """The log probability of each id after those before it; None for the first. The first of them are ``known``."""
        found = list(known)
        for start, stop in pairwise(self._cuts(prompt, len(found))):
            ids = prompt[start:stop]
            reported: Mapping[int, Probability] = {}
            if ids[0] not in self.ends:
                reported = await self.send(Forced(prompt=prompt[:start], ids=ids, most=max(1, alternatives)))
            for place, id in enumerate(ids):
                one = reported.get(place)
                if one is None or one.id != id:
                    one = await self._looked_up(prompt[: start + place], id, alternatives)
                found.append(self._read(one, alternatives))
        return tuple(found)

    def _cuts(self, prompt: Sequence[int], first: int) -> Iterator[int]:
        """Yields the start of each part, and the end of the last. An id that ends a reply is a part by itself."""
        last = first
        yield last
        for i in range(first, len(prompt)):
            alone = prompt[i] in self.ends or prompt[i - 1] in self.ends
            if i > last and (alone or i - last == PART):
                last = i
                yield i
        if len(prompt) > last:
            yield len(prompt)

    async def _looked_up(self, before: Sequence[int], id: int, alternatives: int) -> Probability:
        """From the distribution that is reported beside an id for which one is."""
        safe = (await self.encode(_SAFE))[-1]
        for most in (FEW, MANY, self.vocabulary):
            reported = (await self.send(Forced(prompt=before, ids=(safe,), most=most))).get(0)
            others = reported.top_logprobs if reported else []
            one = next((other for other in others if other.id == id), None)
            if one is not None:
                return replace(one, top_logprobs=others[:alternatives])
        raise EngineError("the engine does not report how probable a token is")

    def _read(self, one: Probability, alternatives: int) -> TokenLogprob:
        """Reads an entry. Of a character in parts the server gives its last id the bytes of all."""
        read = one.read()
        top = read.top if alternatives else ()
        return TokenLogprob(read.id, self.fragment(read.id) or read.data, read.logprob, top)


def reported(events: Sequence[Event]) -> dict[int, Probability]:
    """Gathers the reports of events, by the places of their ids in the reply."""
    return {
        event.tokens_predicted - 1: event.completion_probabilities[-1]
        for event in events
        if event.completion_probabilities
    }
