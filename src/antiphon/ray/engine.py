"""An engine whose replicas Ray runs elsewhere, at both ends: ids go to a deployment, and come back in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol, TypeVar

import msgspec

from antiphon.catalog import Catalog, open_catalog
from antiphon.config import Config
from antiphon.conversation import TokenLogprob
from antiphon.engines import (
    Embeddings,
    Engine,
    EngineInfo,
    EngineSettings,
    GenerateOptions,
    ModelSpec,
    PlacedImage,
    Ranker,
    Ranking,
    Sampling,
    Step,
)
from antiphon.engines.kind import ANY_TASK, Task
from antiphon.errors import AntiphonError, EngineLostError, UnsupportedError
from antiphon.errors.fault import Fault
from antiphon.tenancy import NOBODY, Tenant

T = TypeVar("T")


class GenerateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Engine.generate` beside the prompt."""

    sampling: Sampling
    n: int = 1
    grammar: str | None = None
    tenant: Tenant = NOBODY
    images: tuple[PlacedImage, ...] = ()


class ScoreCall(msgspec.Struct, frozen=True, kw_only=True, tag="score"):
    """The arguments of `Engine.score`."""

    prompt: list[int]
    alternatives: int = 0
    tenant: Tenant = NOBODY


class EmbedCall(msgspec.Struct, frozen=True, kw_only=True, tag="embed"):
    """The arguments of `Engine.embed`."""

    inputs: list[list[int]]
    tenant: Tenant = NOBODY


class RankCall(msgspec.Struct, frozen=True, kw_only=True, tag="rank"):
    """The arguments of `Ranker.rank`."""

    query: str
    documents: list[str]
    tenant: Tenant = NOBODY


class TokenizeCall(msgspec.Struct, frozen=True, kw_only=True, tag="tokenize"):
    """The argument of `Engine.tokenize`."""

    text: str


Call = ScoreCall | EmbedCall | RankCall | TokenizeCall


class Tokens(msgspec.Struct, frozen=True):
    """The ids that `Engine.tokenize` gives."""

    ids: list[int] | None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of some hundredths of a second, and why there are no more, where that is an error."""

    steps: tuple[Step, ...] = ()
    failure: Fault | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a `Call`: a value, or an error."""

    value: msgspec.Raw = msgspec.Raw(b"\xc0")  # nil
    failure: Fault | None = None


def encode(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def decode(message: bytes | msgspec.Raw, type: type[T]) -> T:
    return msgspec.msgpack.decode(message, type=type)


class Channel(Protocol):
    """The way to the replicas of one engine (`EngineReplica`).

    Errors: `EngineLostError` when a replica is gone, `OverloadedError` where there is none that takes requests.
    """

    def generate(
        self, domain: str, prompt: list[int], call: bytes, *, session: str | None
    ) -> AsyncGenerator[bytes, None]:
        """The messages of one reply; closing it stops the work there. ``session`` may choose the replica."""

    async def ask(self, method: str, *arguments: bytes) -> bytes:
        """Calls another method; returns its answer."""


class Ray(EngineSettings, frozen=True, kw_only=True, tag="ray"):
    """A deployment of `EngineReplica`. ``application`` empty: the one that this process is a replica of."""

    deployment: str
    application: str = ""

    remote: ClassVar[bool] = True
    tasks: ClassVar[frozenset[Task]] = ANY_TASK

    @property
    def address(self) -> str:
        return f"the deployment {self.deployment}"

    async def open(self, model: ModelSpec) -> RayEngine:
        from .handles import channel_to  # It imports Ray, which only replicas of Ray have.

        return await RayEngine.connect(channel_to(self.deployment, self.application), share_cache=model.share_cache)


class RayFile(Ray, frozen=True, kw_only=True, tag="ray-file"):
    """The same for a model whose vocabulary and format are in its file, which must be here as well as there."""

    needs_file: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    remote: ClassVar[bool] = False


class RayEngine:
    """Made by `connect`."""

    def __init__(self, channel: Channel, info: EngineInfo, *, share_cache: bool = False) -> None:
        self._channel = channel
        self._info = info
        self._share_cache = share_cache

    @classmethod
    async def connect(cls, channel: Channel, *, share_cache: bool = False) -> RayEngine:
        """Waits for a replica, which describes itself. ``share_cache``: owners may find each other's prompts."""
        return cls(channel, decode(await channel.ask("describe"), EngineInfo), share_cache=share_cache)

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
        call = encode(GenerateCall(sampling=sampling, n=n, grammar=grammar, tenant=tenant, images=tuple(images)))
        domain, session, open_choices = tenant.domain(shared=self._share_cache), tenant.affinity, n
        messages = self._channel.generate(domain, list(prompt), call, session=session)
        async with aclosing(messages):
            async for message in messages:
                batch = decode(message, Batch)
                for step in batch.steps:
                    open_choices -= step.end is not None
                    yield step
                if batch.failure is not None:
                    raise batch.failure.error()
        if open_choices:
            raise EngineLostError("the engine's replica ended in the middle of a reply")

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        call = ScoreCall(prompt=list(prompt), alternatives=alternatives, tenant=tenant)
        return await self._answer(call, tuple[TokenLogprob | None, ...])

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        return await self._answer(EmbedCall(inputs=[list(input) for input in inputs], tenant=tenant), Embeddings)

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        return await self._answer(RankCall(query=query, documents=list(documents), tenant=tenant), Ranking)

    async def tokenize(self, text: str) -> list[int] | None:
        return (await self._answer(TokenizeCall(text=text), Tokens)).ids

    async def _answer(self, call: Call, type: type[T]) -> T:
        answer = decode(await self._channel.ask("answer", encode(call)), Answer)
        if answer.failure is not None:
            raise answer.failure.error()
        return decode(answer.value, type)

    async def aclose(self) -> None:
        """Its replicas are Ray's to end."""


# The other end: an engine in a replica of its own, ids in, batches of steps out. Needs no Ray.


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
        options = GenerateOptions(n=given.n, grammar=given.grammar, tenant=given.tenant)
        if given.images:
            options["images"] = given.images
        steps = self._engine.generate(prompt, given.sampling, **options)
        try:
            async with aclosing(batches(steps, self._gather)) as gathered:
                async for batch in gathered:
                    yield encode(Batch(steps=batch))
        except AntiphonError as error:
            yield encode(Batch(failure=Fault.of(error)))

    async def describe(self) -> bytes:
        """Its `EngineInfo`."""
        return encode(self._engine.info)

    async def answer(self, call: bytes) -> bytes:
        """An `Answer` to a `Call`."""
        try:
            value = await self._value(msgspec.msgpack.decode(call, type=Call))
            return encode(Answer(value=msgspec.Raw(encode(value))))
        except AntiphonError as error:
            return encode(Answer(failure=Fault.of(error)))

    async def _value(self, call: Call) -> object:
        engine = self._engine
        match call:
            case ScoreCall():
                return await engine.score(call.prompt, alternatives=call.alternatives, tenant=call.tenant)
            case EmbedCall():
                return await engine.embed(call.inputs, tenant=call.tenant)
            case TokenizeCall():
                return Tokens(await engine.tokenize(call.text))
            case RankCall() if isinstance(engine, Ranker):
                return await engine.rank(call.query, call.documents, tenant=call.tenant)
            case RankCall():
                raise UnsupportedError(f"{engine.info.name} ranks no documents")


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

    async def answer(self, call: bytes) -> bytes:
        return await (await self._host()).answer(call)

    async def _host(self) -> EngineHost:
        if self._catalog is None:
            self._catalog = open_catalog(self._config)
        model = await self._catalog.get(self._model)
        return EngineHost(model.engine, gather=self._config.ray.engine_gather)
