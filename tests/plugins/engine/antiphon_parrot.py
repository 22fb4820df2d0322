"""An engine of another package: it says what its settings say, whatever the prompt is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from antiphon.conversation import TokenLogprob
from antiphon.engines import (
    SAMPLING,
    Embeddings,
    EngineEnd,
    EngineInfo,
    EngineSettings,
    ModelSpec,
    PlacedImage,
    Sampling,
    Step,
)
from antiphon.errors import ContextError, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer


class Parrot(EngineSettings, frozen=True, kw_only=True, tag="parrot"):
    """``says`` is every reply."""

    says: str = "Polly wants a cracker."

    async def open(self, model: ModelSpec) -> ParrotEngine:
        return ParrotEngine(self.says, model.tokenizer, model.context or 4096)


class ParrotEngine:
    """Says a text in ids of a tokenizer, one id a step."""

    def __init__(self, says: str, tokenizer: Tokenizer, context: int) -> None:
        self._tokenizer = tokenizer
        self._ids = tokenizer.encode(says)
        self._info = EngineInfo(name="parrot", context=context, slots=8, logprobs=5, honours=SAMPLING)

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
        room = self._info.context - len(prompt)
        if room < 1:
            raise ContextError(f"the prompt has {len(prompt)} tokens and the context holds {self._info.context}")
        if grammar is not None:
            raise UnsupportedError("a parrot follows no grammar")
        for choice in range(n):
            for step in self._steps(sampling, min(room, sampling.max_tokens), choice):
                await asyncio.sleep(0)
                yield step

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        raise UnsupportedError("a parrot reads no prompt")

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        raise UnsupportedError("a parrot makes no embeddings")

    async def tokenize(self, text: str) -> list[int] | None:
        return list(self._tokenizer.encode(text))

    async def aclose(self) -> None:
        return None

    def _steps(self, sampling: Sampling, limit: int, choice: int) -> list[Step]:
        steps: list[Step] = []
        for id in self._ids[:limit]:
            end = EngineEnd.STOP if id in sampling.stop_ids else None
            steps.append(Step((id,), choice, self._logprobs(id, sampling), end=end))
            if end:
                return steps
        cut = EngineEnd.LENGTH_OUTPUT if limit == sampling.max_tokens else EngineEnd.LENGTH_CONTEXT
        return [*steps, Step((), choice, end=cut if limit < len(self._ids) else EngineEnd.STOP)]

    def _logprobs(self, id: int, sampling: Sampling) -> tuple[TokenLogprob, ...]:
        if sampling.logprobs is None:
            return ()
        top = tuple(TokenLogprob(id + rank, b"", -float(rank)) for rank in range(sampling.logprobs))
        return (TokenLogprob(id, b"", 0.0, top),)
