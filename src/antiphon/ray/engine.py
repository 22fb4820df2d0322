"""An engine whose replicas Ray runs elsewhere: ids go to a deployment, and come back in batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import ClassVar, Protocol, TypeVar

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.engines import Embeddings, EngineInfo, EngineSettings, ModelSpec, Ranking, Sampling, Step
from antiphon.engines.kind import ANY_TASK, Task
from antiphon.errors import EngineLostError
from antiphon.errors.fault import Fault
from antiphon.tenancy import NOBODY, Tenant

T = TypeVar("T")


class GenerateCall(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `Engine.generate` beside the prompt."""

    sampling: Sampling
    n: int = 1
    grammar: str | None = None
    tenant: Tenant = NOBODY


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
    """The way to the replicas of one engine (`replica.EngineReplica`).

    Errors: `EngineLostError` when a replica is gone, `OverloadedError` where there is none that takes requests.
    """

    def generate(
        self, domain: str, prompt: list[int], call: bytes, *, session: str | None
    ) -> AsyncGenerator[bytes, None]:
        """The messages of one reply; closing it stops the work there. ``session`` may choose the replica."""

    async def ask(self, method: str, *arguments: bytes) -> bytes:
        """Calls another method; returns its answer."""


class Ray(EngineSettings, frozen=True, kw_only=True, tag="ray"):
    """A deployment of `replica.EngineReplica`. ``application`` empty: the one that this process is a replica of."""

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
    ) -> AsyncGenerator[Step, None]:
        call = encode(GenerateCall(sampling=sampling, n=n, grammar=grammar, tenant=tenant))
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
