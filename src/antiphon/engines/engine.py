"""Engines: ids in, ids out. No roles, no JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Protocol, TypedDict, Unpack, runtime_checkable

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.errors import Position, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant


class EngineEnd(StrEnum):
    """Why an engine stopped by itself."""

    STOP = "stop"
    LENGTH_OUTPUT = "length_output"
    LENGTH_CONTEXT = "length_context"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to choose the next id. Ranges are checked before an engine sees them (`generation.plan`).

    ``temperature`` 0 is greedy. ``top_k`` 0 is off. ``seed`` None: the engine's choice; else 0 … 2^64 - 1.
    ``logprobs`` None: none; else how many alternatives to report for each id. ``stop_ids`` end the reply; the id
    that ended it is part of what is returned. Neither one of them nor an end of the model comes before ``min_tokens``.
    ``whole``: nobody reads on the way, so that an engine whose `EngineInfo` has ``whole`` gives each choice at its end;
    the others may go on to give it in parts. ``confidence``: each id is reported with the model's own probability of
    it, before grammar and sampling, by an engine that has it at no cost; ``logprobs`` is None then.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None
    stop_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    min_tokens: int = 0
    whole: bool = False
    confidence: bool = False


class PlacedImage(msgspec.Struct, frozen=True):
    """The file of an image, PNG or JPEG, and the ids of the prompt that its template wrote for it.

    ``path`` is its place in the request, for errors.
    """

    start: int
    stop: int
    data: bytes
    path: str = ""


class Step(msgspec.Struct, frozen=True, gc=False):
    """Ids that the engine sampled for one choice since the last step.

    ``text`` only from an engine that cannot give ids. ``end`` is set on a choice's last step and on no other.
    ``cached_tokens``: how many prompt ids needed no evaluation, where the engine reports it (on any step).
    ``prompt_tokens``: what the prompt has with its images, from an engine that writes more for them than the template.
    A struct, as there is one for each token: it is made in a fifth of a frozen dataclass's time.
    """

    ids: tuple[int, ...] = ()
    choice: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    text: str | None = None
    end: EngineEnd | None = None
    cached_tokens: int | None = None
    prompt_tokens: int | None = None


SAMPLING = frozenset(
    {
        "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "logit_bias", "logprobs", "stop_ids", "ignore_eos", "return_token_ids",
    }
)  # fmt: skip
"""The settings that engines have in common. A new one is named by each engine that sends it, and never here."""
_WISHES = frozenset({"whole", "confidence"})
"""Settings that change no reply, which an engine may leave alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Abilities of an engine. ``context`` is in tokens for one sequence; ``end_ids`` are the model's own end tokens.

    ``honours`` names the fields of `Sampling` that it sends on, ``return_token_ids`` where its steps have ids, and
    ``images`` where it sees them; a request that sets another one is refused.
    """

    name: str
    context: int
    slots: int
    honours: frozenset[str]
    end_ids: frozenset[int] = frozenset()
    grammar: bool = False
    logprobs: int = 0
    embeddings: bool = False
    scores: bool = False
    """It reports how probable a prompt is (`Engine.score`), with as many alternatives as ``logprobs`` says."""
    ranks: bool = False
    """It is a `Ranker`."""
    whole: bool = False
    """It can be asked for whole replies, which costs less than a stream of their tokens."""

    def check_honoured(self, sampling: Sampling) -> None:
        """Raises `UnsupportedError` that names the first setting that the engine would not honour."""
        for setting, usual in USUAL.items():
            if setting not in self.honours and getattr(sampling, setting) != usual:
                raise self.refusal(setting)

    def refusal(self, setting: str) -> UnsupportedError:
        """The error of a setting that the engine does not honour."""
        return UnsupportedError(
            f"{setting} is not taken by the engine {self.name!r}",
            position=Position(path=setting),
            hint="Leave it out, or choose a model on another engine.",
        )


USUAL = {
    one.name: getattr(Sampling(max_tokens=0), one.name)
    for one in fields(Sampling)
    if one.name not in {*_WISHES, "max_tokens"}
}
"""The values of the settings that ask for nothing."""


@dataclass(frozen=True, slots=True)
class Embeddings:
    """One unit-length vector an input, and how many tokens all inputs had."""

    vectors: tuple[tuple[float, ...], ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """How well each document answers a query, in their order, and how many tokens all pairs had.

    An engine's scores are from 0 to 1.
    """

    scores: tuple[float, ...]
    tokens: int


class GenerateOptions(TypedDict, total=False):
    """The keywords of `Engine.generate`, for engines that pass them on to another."""

    n: int
    grammar: str | None
    tenant: Tenant
    images: Sequence[PlacedImage]


class Engine(Protocol):
    """A model that runs. Closing a generator stops the work in the engine at once.

    Errors: `UnsupportedError` for a setting that this engine cannot honour, `ContextError` for a prompt that does not
    fit, `EngineLostError` when it dies in the middle, `OverloadedError` when it can take nothing now.
    """

    @property
    def info(self) -> EngineInfo: ...

    def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
        images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:
        """Steps of ``n`` choices over one prompt, each until a stop id, an end of the model, or a limit.

        ``images`` are given to an engine that honours them, and to no other.
        ``grammar`` is llguidance's Lark text. ``tenant`` says whose the request is: what it leaves in a cache of
        prompts is found by requests of the same domain only, unless the operator wants it shared. The tenant's affinity
        keeps the requests of a session on one cache.
        """

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """The log probability of each id of the prompt after those before it; None for the first.

        The same as `generate` would report had it sampled them. ``alternatives`` are the most probable ids at each
        place. Errors as for `generate`; `UnsupportedError` from an engine whose `info` has no ``scores``.
        """

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        """One vector for each input of ids, in order. Errors as for `generate`.

        Owners take turns in the engine: however many inputs one sends, another's wait for a few of them at most.
        """

    async def tokenize(self, text: str) -> list[int] | None:
        """Ids of ordinary text by the engine's own vocabulary, in which control spellings stay text.

        None where it has none or does not report it; nobody can then check that the tokenizer here is the right one.
        """

    async def aclose(self) -> None:
        """Stops all work and frees what the engine has."""


@runtime_checkable
class Ranker(Protocol):
    """An engine whose model reads a query and a document as one (a cross-encoder): what `EngineInfo.ranks` declares."""

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        """A score for each document. Control spellings in a text are text, or a `RequestError`.

        Texts and not ids: no server takes a pair as ids. Owners take turns as in `Engine.embed`; errors are those of
        `Engine.generate`.
        """


@runtime_checkable
class ImageCounter(Protocol):
    """An engine that says how long a prompt is with its images, before it reads any of it."""

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int | None:
        """Counts the tokens of a prompt with what is made of its images; None where that cannot be said."""


# The base of engines that wrap another one: to wake it, to count its users, to see when it is lost.


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

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int | None:
        async with self.using() as engine:
            return await engine.prompt_tokens(prompt, images) if isinstance(engine, ImageCounter) else None

    async def tokenize(self, text: str) -> list[int] | None:
        async with self.using() as engine:
            return await engine.tokenize(text)
