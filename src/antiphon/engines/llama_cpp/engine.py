"""The embedded engine: llama.cpp in a child process that is started again when it dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial

from antiphon.conversation import TokenLogprob
from antiphon.engines.choices import together
from antiphon.engines.engine import Embeddings, EngineInfo, Ranking, Sampling, Step
from antiphon.engines.turns import embed_in_turns, rank_in_turns
from antiphon.errors import AntiphonError, EngineError, OverloadedError, UnsupportedError
from antiphon.tenancy import NOBODY, DomainGate, Tenant

from .child_process import ChildProcess
from .client import LlamaClient, ServedModel, check
from .scoring import Forced, ScoreMemo
from .settings import LlamaCppSettings
from .slots import Slots
from .wire import MAX_LOGPROBS, Probability

_FIRST_PAUSE, _SECOND_PAUSE, _LONGEST_PAUSE = 0.0, 0.2, 30.0
_RETRY_SECONDS = 0.5
"""When a caller may ask again while the engine starts: about as long as a small model takes."""
_STEADY_SECONDS = 60.0
"""A child that lived this long, or made a token, is trusted again: it is started again at once."""


class LlamaCppEngine:
    """Made by `start`. A session (the tenant's affinity) goes on in its slot while that is idle and still its own, else
    it finds its cache by its prompt, in a slot or in RAM. Once several tenants ask, each finds its own only, in a slot,
    and owners take turns. ``restarts`` counts the engine's lives after the first; ``last_failure`` is for the
    operator's log, not for callers: it may quote what they sent.
    """

    def __init__(self, settings: LlamaCppSettings, child: ChildProcess) -> None:
        self._settings = settings
        self._child: ChildProcess | None = child
        self._info = declared(child.model, embeddings=settings.embeddings, ranks=settings.ranks)
        self._slots = Slots(settings.slots, settings.share_cache)
        self._gate = DomainGate(
            lambda apart: settings.slots if apart else settings.streams,
            shared=settings.share_cache,
        )
        self._scores = ScoreMemo()
        self._pause = _FIRST_PAUSE
        self._useful = False
        self._watch = asyncio.create_task(self._keep_alive(child))
        self.restarts = 0
        self.last_failure: str | None = None

    @classmethod
    async def start(cls, settings: LlamaCppSettings) -> LlamaCppEngine:
        """Load the model. ModelError when it cannot be: no file, not GGUF, damaged, too large."""
        return cls(settings, await ChildProcess.start(settings))

    @property
    def info(self) -> EngineInfo:
        return self._info

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return self._child.pid if self._child else None

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
    ) -> AsyncGenerator[Step, None]:
        if self._settings.embeddings:
            raise UnsupportedError("this model makes embeddings or ranks, and does not generate")
        check(prompt, sampling, self._alive().model, n=n, grammar=grammar)
        async with self._gate.places(tenant, n) as apart:
            alone = partial(self._placed, prompt, grammar=grammar, tenant=tenant, apart=apart)
            steps = together(alone, sampling, n) if apart and n > 1 else alone(sampling, n=n)
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def _placed(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None,
        tenant: Tenant,
        apart: bool,
    ) -> AsyncGenerator[Step, None]:
        """The steps of one request to the child, in the slot that is best for it."""
        child, slots = self._alive(), self._slots
        place = slots.enter(prompt, tenant, n=n, apart=apart)
        steps = child.client.generate(
            prompt, sampling, child.model, n=n, grammar=grammar,
            slot=place.requested, reuse=place.reuse, placed=partial(slots.settle, place),
        )  # fmt: skip
        try:
            async with aclosing(steps):
                async for step in steps:
                    place.ids.extend(step.ids)
                    yield step
        finally:
            self._useful = self._useful or bool(place.ids)
            slots.leave(place)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """Takes as long as it would take to write the prompt (`scoring`)."""
        if self._settings.embeddings:
            raise UnsupportedError("this model makes embeddings or ranks, and does not generate")
        child = self._alive()
        check(prompt, Sampling(max_tokens=0, logprobs=alternatives), child.model, n=1, grammar=None)
        scorer = child.client.scorer(partial(self._forced, tenant), child.model)
        domain = tenant.domain(shared=self._settings.share_cache)
        known = self._scores.known(domain, prompt, alternatives)
        scores = await scorer.score(prompt, alternatives, known)
        self._scores.add(domain, prompt, alternatives, scores)
        return scores

    async def _forced(self, tenant: Tenant, forced: Forced) -> Mapping[int, Probability]:
        """One request of a scorer, in the slot that is best for it."""
        async with self._gate.places(tenant, 1) as apart:
            child, slots = self._alive(), self._slots
            place = slots.enter(forced.prompt, tenant, apart=apart)
            try:
                found = await child.client.forced(
                    forced, child.model,
                    slot=place.requested, reuse=place.reuse, placed=partial(slots.settle, place),
                )  # fmt: skip
                place.ids.extend(forced.ids)
                self._useful = True
                return found
            finally:
                slots.leave(place)

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        if not self._info.embeddings:
            raise UnsupportedError("this model was not loaded for embeddings")
        places = partial(self._gate.places, tenant)
        return await embed_in_turns(inputs, self._embedded, places, at_once=self._settings.slots)

    async def _embedded(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        child = self._alive()
        return await child.client.embed(inputs, child.model)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        if not self._info.ranks:
            raise UnsupportedError("this model was not loaded for ranking")
        places = partial(self._gate.places, tenant)
        return await rank_in_turns(documents, partial(self._ranked, query), places, at_once=self._settings.slots)

    async def _ranked(self, query: str, documents: Sequence[str]) -> Ranking:
        return await self._client().rank(query, documents)

    async def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text by the engine's own vocabulary; control spellings stay text."""
        return await self._client().tokenize(text)

    async def busy_slots(self) -> int:
        return await self._client().busy_slots()

    async def aclose(self) -> None:
        self._watch.cancel()
        with suppress(asyncio.CancelledError):
            await self._watch
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    def _client(self) -> LlamaClient:
        return self._alive().client

    def _alive(self) -> ChildProcess:
        if self._child is None:
            if self._watch.done():
                raise EngineError("the engine is closed")
            raise OverloadedError("the engine is being started again", retry_after=max(self._pause, _RETRY_SECONDS))
        return self._child

    async def _keep_alive(self, child: ChildProcess) -> None:
        """Wait for the child's death, pause, start it again; without end."""
        while True:
            born = time.monotonic()
            self.last_failure = f"it ended by {await child.gone()}"
            self._child = None
            await child.stop()
            if self._useful or time.monotonic() - born > _STEADY_SECONDS:
                self._pause, self._useful = _FIRST_PAUSE, False
            child = await self._again(child)
            self._child, self._slots = child, Slots(self._settings.slots, self._settings.share_cache)
            self.restarts += 1

    async def _again(self, last: ChildProcess) -> ChildProcess:
        while True:
            await asyncio.sleep(self._pause)
            self._pause = min(max(2 * self._pause, _SECOND_PAUSE), _LONGEST_PAUSE)
            try:
                return await ChildProcess.start(self._settings, last.file)
            except AntiphonError as error:  # Such as a model file that is being replaced; requests get the error.
                self.last_failure = str(error)


def declared(model: ServedModel, *, embeddings: bool = False, ranks: bool = False) -> EngineInfo:
    """What this engine can do with a model; ``ranks``: it makes scores where another one makes ``embeddings``."""
    return EngineInfo(
        name="llama_cpp",
        context=model.context,
        slots=model.slots,
        end_ids=model.ends,
        grammar=not embeddings,
        logprobs=MAX_LOGPROBS,
        embeddings=embeddings and not ranks,
        scores=not embeddings,
        ranks=ranks,
    )
