"""An engine that plays a script, token by token: for tests, examples and exact cases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import ClassVar

from antiphon.conversation import TokenLogprob
from antiphon.errors import ContextError, UnsupportedError
from antiphon.tenancy import NOBODY, FairRoom, Tenant
from antiphon.tokens import ControlScanner, encode_pieces

from .engine import SAMPLING, Embeddings, EngineEnd, EngineInfo, PlacedImage, Ranking, Sampling, Step
from .kind import DEFAULT_CONTEXT, EngineSettings, ModelSpec
from .turns import embed_in_turns, rank_in_turns

Reply = Sequence[int] | BaseException
Script = Callable[[Sequence[int], Sampling, int], Reply]
"""(prompt, sampling, choice) → the ids of the reply, or an error to raise before the first id."""


Embedding = Callable[[Sequence[int]], Sequence[float]]
"""The ids of an input → its vector."""
Scoring = Callable[[str, str], float]
"""A query and a document → how well they fit, from 0 to 1."""


class ScriptedEngine:
    """Plays ``script`` (or one fixed reply) in chunks of ``chunk`` ids; records every request in ``requests``.

    ``delay`` seconds pass before each step; with 0 it only yields to the event loop. ``running`` counts open replies.
    With ``embedding`` it makes vectors too, of ``slots`` inputs in a step, and with ``scoring`` it ranks, a byte of a
    text being a token; owners take turns. ``whole``: a reply that is asked for whole is one chunk.
    """

    def __init__(
        self,
        script: Script | Sequence[int],
        *,
        context: int = 8192,
        slots: int = 64,
        end_ids: frozenset[int] = frozenset(),
        chunk: int = 1,
        delay: float = 0.0,
        token_bytes: Callable[[int], bytes] = lambda id: b"",
        honours: frozenset[str] = SAMPLING,
        grammar: bool = True,
        embedding: Embedding | None = None,
        scoring: Scoring | None = None,
        whole: bool = False,
    ) -> None:
        self._script: Script = script if callable(script) else (lambda prompt, sampling, choice: script)
        self._chunk = chunk
        self._delay = delay
        self._token_bytes = token_bytes
        self._info = EngineInfo(
            name="scripted", context=context, slots=slots, end_ids=end_ids, grammar=grammar, logprobs=20,
            honours=honours, embeddings=embedding is not None, scores=True, ranks=scoring is not None,
            whole=whole,
        )  # fmt: skip
        self._embedding = embedding
        self._scoring = scoring
        self._room = FairRoom(lambda: slots)
        self.requests: list[tuple[tuple[int, ...], Sampling, str | None]] = []
        self.images: list[Sequence[PlacedImage]] = []
        """The images of each request that had some."""
        self.running = 0

    @property
    def info(self) -> EngineInfo:
        return self._info

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
        images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:
        self.requests.append((tuple(prompt), sampling, grammar))
        self.images += [images] if images else []
        self._check(prompt)
        self.running += 1
        try:
            for choice in range(n):
                async for step in self._play(prompt, sampling, choice):
                    yield step
        finally:
            self.running -= 1

    def _check(self, prompt: Sequence[int]) -> None:
        if len(prompt) >= self._info.context:
            raise ContextError(f"the prompt has {len(prompt)} tokens and the context holds {self._info.context}")

    async def _play(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> AsyncGenerator[Step, None]:
        reply = self._script(prompt, sampling, choice)
        if isinstance(reply, BaseException):
            raise reply
        room = self._info.context - len(prompt)
        limit = min(sampling.max_tokens, room)
        ends = sampling.stop_ids | (frozenset() if sampling.ignore_eos else self._info.end_ids)
        count, chunk = 0, max(1, len(reply)) if sampling.whole and self._info.whole else self._chunk
        while count < min(len(reply), limit):
            ids = tuple(reply[count : min(count + chunk, limit)])
            stop = next((i for i, id in enumerate(ids) if id in ends), None)
            if stop is not None:
                ids = ids[: stop + 1]
            count += len(ids)
            end = EngineEnd.STOP if stop is not None else None
            await asyncio.sleep(self._delay)
            yield Step(ids, choice, self._logprobs(ids, sampling), end=end, cached_tokens=0)
            if end:
                return
        cut = EngineEnd.LENGTH_OUTPUT if limit == sampling.max_tokens else EngineEnd.LENGTH_CONTEXT
        yield Step((), choice, end=cut if count == limit and count < len(reply) else EngineEnd.STOP)

    def _logprobs(self, ids: Sequence[int], sampling: Sampling) -> tuple[TokenLogprob, ...]:
        """Certainty: each id with probability 1, and improbable neighbours as its alternatives."""
        if sampling.logprobs is None:
            return ()
        return tuple(
            TokenLogprob(id, self._token_bytes(id), 0.0, self._neighbours(id, sampling.logprobs)) for id in ids
        )

    def _neighbours(self, id: int, count: int) -> tuple[TokenLogprob, ...]:
        near = range(id, id + count)
        return tuple(TokenLogprob(other, self._token_bytes(other), float(id - other)) for other in near)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """As certain as what it says: probability 1 for each id."""
        self._check(prompt)
        sampling = Sampling(max_tokens=0, logprobs=alternatives)
        return (None, *self._logprobs(prompt[1:], sampling))

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        embedding, places = self._embedding, partial(self._room.places, tenant.owner)
        if embedding is None:
            raise UnsupportedError("the scripted engine has no embeddings")

        async def embedded(inputs: Sequence[Sequence[int]]) -> Embeddings:
            vectors = tuple(tuple(embedding(input)) for input in inputs)
            await asyncio.sleep(self._delay)
            return Embeddings(vectors, sum(map(len, inputs)))

        return await embed_in_turns(inputs, embedded, places, at_once=self._info.slots)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        scoring, places = self._scoring, partial(self._room.places, tenant.owner)
        if scoring is None:
            raise UnsupportedError("the scripted engine ranks no documents")

        async def ranked(documents: Sequence[str]) -> Ranking:
            scores = tuple(scoring(query, document) for document in documents)
            await asyncio.sleep(self._delay)
            return Ranking(scores, sum(len((query + document).encode()) for document in documents))

        return await rank_in_turns(documents, ranked, places, at_once=self._info.slots)

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def aclose(self) -> None:
        return None


class Scripted(EngineSettings, frozen=True, kw_only=True, tag="scripted"):
    """A model that always says ``reply``, in which control spellings are controls. ``delay`` is in seconds a step."""

    reply: str = ""
    delay: float = 0.0

    truncates: ClassVar[bool] = True

    async def open(self, model: ModelSpec) -> ScriptedEngine:
        scanner = ControlScanner(model.controls)
        reply = [*scanner.feed(self.reply), *scanner.close(), *model.stops[:1]]
        return ScriptedEngine(
            encode_pieces(reply, model.tokenizer),
            delay=self.delay,
            context=model.context or DEFAULT_CONTEXT,
            grammar=False,
        )
