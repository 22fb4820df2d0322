"""An engine on a server of somebody's: what answers there after a loss may be another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from antiphon.engines import Embeddings, Engine, EngineInfo, Sampling, Step
from antiphon.errors import UNREACHABLE, EngineLostError, OverloadedError


class DistantEngine:
    """``lost`` from the first time that the server did not answer, or broke off: it must be asked anew what it is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._users = 0
        self._retired = False
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
        async with self._used(), aclosing(steps):
            async for step in steps:
                yield step

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        async with self._used():
            return await self._engine.embed(inputs)

    async def retire(self) -> None:
        """Nobody gets it any longer: it closes when the last reply has ended."""
        self._retired = True
        if self._users == 0:
            await self.aclose()

    async def aclose(self) -> None:
        await self._engine.aclose()

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[None]:
        if self._retired and self._users == 0:
            raise OverloadedError("the engine's server was lost", code=UNREACHABLE, hint="Try again: it is asked anew.")
        self._users += 1
        try:
            yield
        except EngineLostError:
            self.lost = True
            raise
        except OverloadedError as error:
            self.lost = self.lost or error.code == UNREACHABLE
            raise
        finally:
            self._users -= 1
            if self._retired and self._users == 0:
                await self.aclose()
