"""The base of engines that wrap another one: to wake it, to count its users, to see when it is lost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Unpack

from antiphon.conversation import TokenLogprob
from antiphon.errors import UnsupportedError
from antiphon.tenancy import NOBODY, Tenant

from .engine import Embeddings, Engine, EngineInfo, GenerateOptions, Ranker, Ranking, Sampling, Step


class EngineProxy(ABC):
    """Passes each call on to the engine that `using` gives, which stays in use until the call is over."""

    @property
    @abstractmethod
    def info(self) -> EngineInfo: ...

    @abstractmethod
    def using(self) -> AbstractAsyncContextManager[Engine]:
        """The engine behind, for one call. What the call raises comes through here."""

    @abstractmethod
    async def aclose(self) -> None: ...

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, **options: Unpack[GenerateOptions]
    ) -> AsyncGenerator[Step, None]:
        async with self.using() as engine, aclosing(engine.generate(prompt, sampling, **options)) as steps:
            async for step in steps:
                yield step

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        async with self.using() as engine:
            return await engine.score(prompt, alternatives=alternatives, tenant=tenant)

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        async with self.using() as engine:
            return await engine.embed(inputs, tenant=tenant)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        async with self.using() as engine:
            if not isinstance(engine, Ranker):
                raise UnsupportedError(f"{engine.info.name} ranks no documents")
            return await engine.rank(query, documents, tenant=tenant)

    async def tokenize(self, text: str) -> list[int] | None:
        async with self.using() as engine:
            return await engine.tokenize(text)
