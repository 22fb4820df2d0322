"""An engine on a server of somebody's: what answers there after a loss may be another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from antiphon.engines import Embeddings, Engine, EngineInfo, Sampling, Step
from antiphon.errors import UNREACHABLE, EngineLostError, OverloadedError


class DistantEngine:
    """``lost`` from the first time that the server did not answer, or broke off: it must be asked anew what it is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.lost = False

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:
        steps = self._engine.generate(prompt, sampling, n=n, grammar=grammar, affinity=affinity)
        with self._noting_loss():
            async with aclosing(steps):
                async for step in steps:
                    yield step

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        with self._noting_loss():
            return await self._engine.embed(inputs)

    async def aclose(self) -> None:
        await self._engine.aclose()

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        try:
            yield
        except EngineLostError:
            self.lost = True
            raise
        except OverloadedError as error:
            self.lost = self.lost or error.code == UNREACHABLE
            raise
