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

import msgspec
from msgspec.structs import replace

from antiphon.conversation import TokenLogprob
from antiphon.errors import EngineError

from .slots import common_length
from .wire import Event, Probability

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
        """Those of the longest beginning of the prompt that was scored for the same domain."""
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
        """Where the parts begin, and the end of the last. An id that ends a reply is a part by itself."""
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
        """Of a character in parts the server gives its last id the bytes of all."""
        read = one.read()
        top = read.top if alternatives else ()
        return TokenLogprob(read.id, self.fragment(read.id) or read.data, read.logprob, top)


def reported(events: Sequence[Event]) -> dict[int, Probability]:
    """What events report, by the place of its id in the reply."""
    return {
        event.tokens_predicted - 1: event.completion_probabilities[-1]
        for event in events
        if event.completion_probabilities
    }
