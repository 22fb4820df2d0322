"""A llama.cpp server that somebody else runs, over the network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import ClassVar

from antiphon.conversation import TokenLogprob
from antiphon.errors import EngineError, ModelError, UnsupportedError
from antiphon.tenancy import NOBODY, DomainGate, Tenant
from antiphon.tokens import Tokenizer

from .engine import SAMPLING, Embeddings, EngineInfo, PlacedImage, Ranking, Sampling, Step
from .http import ServerSettings, takes_grammars
from .kind import ANY_TASK, ModelSpec, Task
from .llama_cpp.client import LlamaClient, Seat, ServedModel, check
from .llama_cpp.scoring import Forced
from .llama_cpp.wire import MAX_LOGPROBS, Fragments, Probability
from .turns import embed_in_turns, rank_in_turns

STREAMS = 16
"""Replies requested at once."""


class LlamaServerEngine:
    """Made by `connect`, which reads what the server is."""

    def __init__(
        self,
        client: LlamaClient,
        model: ServedModel,
        gate: DomainGate,
        *,
        grammar: bool,
        embeddings: bool,
        ranks: bool = False,
    ) -> None:
        self._client = client
        self._model = model
        self._gate = gate
        self._info = declared(model, grammar=grammar, embeddings=embeddings, ranks=ranks)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        key: str | None = None,
        tokenizer: Tokenizer | None = None,
        grammar: bool | None = False,
        embeddings: bool = False,
        ranks: bool = False,
        streams: int = STREAMS,
        share_cache: bool = False,
    ) -> LlamaServerEngine:
        """``url`` is the server's root. ``tokenizer`` (its model's) finds the ids of split characters.

        ``grammar``: the server was built with llguidance (one that was not ignores such a grammar without a word); None
        tries, which takes a tokenizer. ``embeddings`` and ``ranks`` are what the server was started for, and then it
        does not generate. ``streams`` bounds the replies requested at once. ``share_cache`` lets a tenant
        find in the server's cache what another sent; otherwise nothing is reused once a named one asks. Errors:
        `OverloadedError` when nobody answers there, `ModelError` for a server that does not rank.
        """
        client = LlamaClient(
            url,
            streams=streams,
            key=key,
            fragments=Fragments(()) if tokenizer is None else Fragments.of(tokenizer),
        )
        try:
            generates = not (embeddings or ranks)
            model = await client.model(embeddings=not generates)
            if ranks:
                await _check_ranks(client)
            if grammar is None and tokenizer is not None and generates:
                grammar = await takes_grammars(partial(client.generate, model=model, n=1), tokenizer, model.ends)
        except BaseException:
            await client.aclose()
            raise
        # The server was there before, and nobody knows whose prompts it has.
        gate = DomainGate(lambda apart: streams, shared=share_cache, domain="")
        return cls(client, model, gate, grammar=bool(grammar), embeddings=embeddings, ranks=ranks)

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
        if grammar is not None and not self._info.grammar:
            raise UnsupportedError("this engine was not declared to take grammars")
        check(prompt, sampling, self._model, n=n, grammar=grammar)
        async with self._gate.places(tenant) as apart:
            steps = self._client.generate(
                prompt, sampling, self._model, n=n, grammar=grammar, seat=Seat(reuse=not apart), images=images
            )
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int:
        return await self._client.prompt_tokens(prompt, images)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """Takes a server that takes grammars, and as long as it would take to write the prompt (`scoring`)."""
        if not self._info.scores:
            raise UnsupportedError("this engine was not declared to take grammars, by which it scores a prompt")
        check(prompt, Sampling(max_tokens=0, logprobs=alternatives), self._model, n=1, grammar=None)
        scorer = self._client.scorer(partial(self._forced, tenant), self._model)
        return await scorer.score(prompt, alternatives, (None,))

    async def _forced(self, tenant: Tenant, forced: Forced) -> Mapping[int, Probability]:
        async with self._gate.places(tenant) as apart:
            return await self._client.forced(forced, self._model, Seat(reuse=not apart))

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        if not self._info.embeddings:
            raise UnsupportedError("this engine was not declared to make embeddings")
        embed = partial(self._client.embed, model=self._model)
        return await embed_in_turns(inputs, embed, partial(self._gate.places, tenant), at_once=self._info.slots)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        if not self._info.ranks:
            raise UnsupportedError("this engine was not declared to rank")
        rank = partial(self._client.rank, query)
        return await rank_in_turns(documents, rank, partial(self._gate.places, tenant), at_once=self._info.slots)

    async def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text by the server's own vocabulary; control spellings stay text."""
        return await self._client.tokenize(text)

    async def aclose(self) -> None:
        await self._client.aclose()


class LlamaServer(ServerSettings, frozen=True, kw_only=True, tag="llama_server"):
    """A llama.cpp server that runs already; it has one model."""

    tasks: ClassVar[frozenset[Task]] = ANY_TASK
    truncates: ClassVar[bool] = True
    streams: ClassVar[int] = STREAMS

    async def open(self, model: ModelSpec) -> LlamaServerEngine:
        return await LlamaServerEngine.connect(
            self.url,
            key=await self.key(model),
            tokenizer=model.tokenizer,
            grammar=self.grammar,
            embeddings=model.task == "embed",
            ranks=model.task == "rank",
            streams=model.slots or STREAMS,
            share_cache=self.shares_cache(model),
        )


async def _check_ranks(client: LlamaClient) -> None:
    try:
        await client.rank("a", ["a"])
    except EngineError as error:
        hint = "Start it with --reranking, and with a model that has a head for it."
        raise ModelError("the server does not rank", code="not_a_ranker", hint=hint) from error


def declared(model: ServedModel, *, grammar: bool, embeddings: bool = False, ranks: bool = False) -> EngineInfo:
    """Gives the abilities of this engine with a model."""
    return EngineInfo(
        name="llama_server",
        context=model.context,
        slots=model.slots,
        honours=SAMPLING | ({"images"} if model.image_mark else set()),
        end_ids=model.ends,
        grammar=grammar,
        logprobs=MAX_LOGPROBS,
        embeddings=embeddings,
        scores=grammar and not (embeddings or ranks),
        ranks=ranks,
    )
