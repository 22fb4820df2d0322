"""The embedded engine: llama.cpp in a child process, which its host keeps alive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Self

from antiphon.conversation import TokenLogprob
from antiphon.engines.engine import SAMPLING, Embeddings, EngineInfo, PlacedImage, Ranking, Sampling, Step
from antiphon.engines.turns import embed_in_turns, rank_in_turns, together
from antiphon.errors import UnsupportedError
from antiphon.tenancy import NOBODY, Tenant

from .client import LlamaClient, Seat, ServedModel, check
from .host import ChildHost, Host
from .scoring import Forced, ScoreMemo
from .settings import LlamaCppSettings
from .wire import MAX_LOGPROBS, Probability


class LlamaCppEngine:
    """Made by `start`, or over the ``host`` of another process. A session (the tenant's affinity) goes on in its slot
    while that is idle and still its own, else it finds its cache by its prompt, in a slot or in RAM. Once several
    tenants ask, each finds its own only, in a slot, and owners take turns.
    """

    def __init__(self, settings: LlamaCppSettings, host: Host) -> None:
        self._settings = settings
        self.host = host
        self._info = declared(host.model, embeddings=settings.embeddings, ranks=settings.ranks)
        self._scores = ScoreMemo()

    @classmethod
    async def start(cls, settings: LlamaCppSettings) -> Self:
        """Load the model in a child of this process. ModelError when it cannot be: no file, not GGUF, damaged, too
        large."""
        return cls(settings, await ChildHost.start(settings))

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def restarts(self) -> int:
        """The engine's lives after the first."""
        return self.host.restarts

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return self.host.pid

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
        if self._settings.embeddings:
            raise UnsupportedError("this model makes embeddings or ranks, and does not generate")
        check(prompt, sampling, self.host.model, n=n, grammar=grammar)
        async with self.host.places(tenant, n, prompt) as places:
            seats = iter(places.seats)
            alone = partial(self._seated, places.client, seats, prompt, grammar=grammar, images=images)
            steps = together(alone, sampling, n) if len(places.seats) > 1 else alone(sampling, n=n)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def _seated(
        self,
        client: LlamaClient,
        seats: Iterator[Seat],
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None,
        images: Sequence[PlacedImage],
    ) -> AsyncGenerator[Step, None]:
        """The steps of one request to the child, in the next of the seats."""
        seat = next(seats)
        steps = client.generate(prompt, sampling, self.host.model, n=n, grammar=grammar, seat=seat, images=images)
        async with aclosing(steps):
            async for step in steps:
                seat.made.extend(step.ids)
                yield step

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int:
        return await (await self.host.client()).prompt_tokens(prompt, images)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """Takes as long as it would take to write the prompt (`scoring`)."""
        if self._settings.embeddings:
            raise UnsupportedError("this model makes embeddings or ranks, and does not generate")
        client, model = await self.host.client(), self.host.model
        check(prompt, Sampling(max_tokens=0, logprobs=alternatives), model, n=1, grammar=None)
        scorer = client.scorer(partial(self._forced, tenant), model)
        domain = tenant.domain(shared=self._settings.share_cache)
        known = self._scores.known(domain, prompt, alternatives)
        scores = await scorer.score(prompt, alternatives, known)
        self._scores.add(domain, prompt, alternatives, scores)
        return scores

    async def _forced(self, tenant: Tenant, forced: Forced) -> Mapping[int, Probability]:
        """One request of a scorer, in the slot that is best for it."""
        async with self.host.places(tenant, 1, forced.prompt) as places:
            (seat,) = places.seats
            found = await places.client.forced(forced, self.host.model, seat)
            seat.made.extend(forced.ids)
            return found

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        if not self._info.embeddings:
            raise UnsupportedError("this model was not loaded for embeddings")

        async def embedded(inputs: Sequence[Sequence[int]]) -> Embeddings:
            return await (await self.host.client()).embed(inputs, self.host.model)

        places = partial(self.host.places, tenant)
        return await embed_in_turns(inputs, embedded, places, at_once=self._settings.slots)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        if not self._info.ranks:
            raise UnsupportedError("this model was not loaded for ranking")

        async def ranked(documents: Sequence[str]) -> Ranking:
            return await (await self.host.client()).rank(query, documents)

        places = partial(self.host.places, tenant)
        return await rank_in_turns(documents, ranked, places, at_once=self._settings.slots)

    async def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text by the engine's own vocabulary; control spellings stay text."""
        return await (await self.host.client()).tokenize(text)

    async def busy_slots(self) -> int:
        return await (await self.host.client()).busy_slots()

    async def aclose(self) -> None:
        await self.host.aclose()


def declared(model: ServedModel, *, embeddings: bool = False, ranks: bool = False) -> EngineInfo:
    """Gives the engine's abilities with a model; ``ranks``: it makes scores where another one makes ``embeddings``."""
    return EngineInfo(
        name="llama_cpp",
        context=model.context,
        slots=model.slots,
        honours=SAMPLING | ({"images"} if model.image_mark else set()),
        end_ids=model.ends,
        grammar=not embeddings,
        logprobs=MAX_LOGPROBS,
        embeddings=embeddings and not ranks,
        scores=not embeddings,
        ranks=ranks,
    )
