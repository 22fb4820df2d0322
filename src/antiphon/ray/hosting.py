"""An engine in a replica of its own, for the tier in front: ids in, batches of steps out. Needs no Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon.catalog import Catalog, open_catalog
from antiphon.config import Config
from antiphon.engines import Engine, Ranker, Step
from antiphon.errors import AntiphonError, UnsupportedError
from antiphon.errors.fault import Fault

from .messages import Answer, Batch, EmbedCall, GenerateCall, RankCall, ScoreCall, Tokens, answered, decode, encode


async def batches(steps: AsyncGenerator[Step, None], gather: float) -> AsyncGenerator[tuple[Step, ...], None]:
    """The steps, those of ``gather`` seconds together; the first goes at once. Raises what ``steps`` raises, after
    what came before it. Closing it closes ``steps``."""
    came, waiting = asyncio.Event(), list[Step]()

    async def read() -> None:
        async with aclosing(steps):
            async for step in steps:
                waiting.append(step)
                came.set()

    reading = asyncio.ensure_future(read())
    reading.add_done_callback(lambda task: came.set())
    try:
        while not reading.done() or waiting:
            await came.wait()
            came.clear()
            if waiting:
                batch = tuple(waiting)
                waiting.clear()
                yield batch
                await asyncio.wait({reading}, timeout=gather)
                if waiting or reading.done():
                    came.set()
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


class EngineHost:
    """One engine, asked in messages. ``gather`` is in seconds."""

    def __init__(self, engine: Engine, *, gather: float) -> None:
        self._engine = engine
        self._gather = gather

    async def generate(self, prompt: list[int], call: bytes) -> AsyncGenerator[bytes, None]:
        """A `Batch` at a time for a `GenerateCall`."""
        given = decode(call, GenerateCall)
        steps = self._engine.generate(prompt, given.sampling, n=given.n, grammar=given.grammar, tenant=given.tenant)
        try:
            async with aclosing(batches(steps, self._gather)) as gathered:
                async for batch in gathered:
                    yield encode(Batch(steps=batch))
        except AntiphonError as error:
            yield encode(Batch(failure=Fault.of(error)))

    async def describe(self) -> bytes:
        """Its `EngineInfo`."""
        return encode(self._engine.info)

    async def score(self, call: bytes) -> bytes:
        given = decode(call, ScoreCall)
        return await answered(self._engine.score(given.prompt, alternatives=given.alternatives, tenant=given.tenant))

    async def embed(self, call: bytes) -> bytes:
        given = decode(call, EmbedCall)
        return await answered(self._engine.embed(given.inputs, tenant=given.tenant))

    async def rank(self, call: bytes) -> bytes:
        given, engine = decode(call, RankCall), self._engine
        if not isinstance(engine, Ranker):
            return encode(Answer(failure=Fault.of(UnsupportedError(f"{engine.info.name} ranks no documents"))))
        return await answered(engine.rank(given.query, given.documents, tenant=given.tenant))

    async def tokenize(self, text: str) -> bytes:
        async def tokens() -> Tokens:
            return Tokens(await self._engine.tokenize(text))

        return await answered(tokens())


class EngineReplica:
    """A replica of a model's engine on Ray. Its model is there before its first request: Ray asks
    `check_health` first, and fails the deployment where that raises."""

    def __init__(self, config: Config, model: str) -> None:
        self._config = config
        self._model = model
        self._catalog: Catalog | None = None

    async def check_health(self) -> None:
        """Raises what loading the model raises."""
        await self._host()

    async def generate(self, domain: str, prompt: list[int], call: bytes) -> AsyncGenerator[bytes, None]:
        """``domain`` and ``prompt`` are what the router chose the replica by."""
        host = await self._host()
        async with aclosing(host.generate(prompt, call)) as messages:
            async for message in messages:
                yield message

    async def describe(self) -> bytes:
        return await (await self._host()).describe()

    async def score(self, call: bytes) -> bytes:
        return await (await self._host()).score(call)

    async def embed(self, call: bytes) -> bytes:
        return await (await self._host()).embed(call)

    async def rank(self, call: bytes) -> bytes:
        return await (await self._host()).rank(call)

    async def tokenize(self, text: str) -> bytes:
        return await (await self._host()).tokenize(text)

    async def _host(self) -> EngineHost:
        if self._catalog is None:
            self._catalog = open_catalog(self._config)
        model = await self._catalog.get(self._model)
        return EngineHost(model.engine, gather=self._config.ray.engine_gather)
