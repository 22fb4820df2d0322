"""The base of engines on servers elsewhere that take ids and give ids."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from antiphon.conversation import TokenLogprob
from antiphon.errors import AntiphonError, EngineError, EngineLostError, Position, UnsupportedError
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer

from .engine import Embeddings, EngineEnd, EngineInfo, Sampling, Step
from .http import MOST_LOGGED, check_context

log = logging.getLogger("antiphon.engines")

UNKNOWN_LOGPROB = -9999.0
"""For an id of which the server gives no log probability."""
LEAST_BIAS = -100.0
"""What servers take for an id that is never to be chosen: JSON has no infinity."""
_ABORT_SECONDS = 10.0
_PART = 512
"""Ids of a whole reply that are read before others have their turn on the event loop."""


class RemoteEngine(ABC):
    """One model of a server. ``tokenizer`` gives log probabilities their bytes.

    A subclass has `steps`, the replies to a request that has been checked.
    """

    def __init__(self, tokenizer: Tokenizer, info: EngineInfo, *, share_cache: bool = False) -> None:
        """``share_cache``: owners may find each other's prompts in the server's cache."""
        self._tokenizer = tokenizer
        self._info = info
        self._share_cache = share_cache

    @abstractmethod
    def steps(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> AsyncGenerator[Step, None]:
        """The steps of ``n`` choices. All sampling is to be sent: servers have defaults of their own.

        The server may reuse what it has of a prompt among requests of one ``domain`` only; empty: of everybody.
        """

    @abstractmethod
    async def aclose(self) -> None: ...

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
        """The tenant's affinity needs nothing: such servers find a session's cache by its prompt."""
        self.check(prompt, sampling, n=n, grammar=grammar)
        if sampling.max_tokens == 0:
            for choice in range(n):
                yield Step((), choice, end=EngineEnd.LENGTH_OUTPUT)
            return
        domain = tenant.domain(shared=self._share_cache)
        async with aclosing(self.steps(prompt, sampling, n=n, grammar=grammar, domain=domain)) as steps:
            async for step in steps:
                if not 0 <= step.choice < n or min(step.ids, default=0) < 0:
                    raise EngineError("the engine's server answers with a choice or an id that there is not")
                if len(step.ids) <= _PART:
                    yield step
                    continue
                for part in _parts(step):
                    yield part
                    await asyncio.sleep(0)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        raise UnsupportedError(f"{self._info.name} reports no log probabilities of a prompt")

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        raise UnsupportedError(f"embeddings are not taken from {self._info.name}")

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    def check(self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None) -> None:
        """What the server would ignore, or answer in words of its own. Errors as for `Engine.generate`."""
        check_context(prompt, self._info.context)
        if grammar is not None and not self._info.grammar:
            raise UnsupportedError("this engine was not declared to take grammars")
        if not 1 <= n <= self._info.slots:
            raise UnsupportedError(f"this engine cannot make {n} choices", position=Position(path="n"))
        self._info.check_honoured(sampling)

    def room(self, prompt: Sequence[int]) -> int:
        """How many ids a reply to the prompt may have."""
        return self._info.context - len(prompt)

    def end(self, reason: str, sampling: Sampling, room: int) -> EngineEnd:
        """Why a reply ended, by the server's word for it. `EngineLostError` for one that was given up."""
        match reason:
            case "length":
                return EngineEnd.LENGTH_CONTEXT if sampling.max_tokens > room else EngineEnd.LENGTH_OUTPUT
            case "stop":
                return EngineEnd.STOP
            case _:
                log.warning("the engine ended a reply by %r", reason[:MOST_LOGGED])
                raise EngineLostError("the engine gave a reply up")

    def logprob(self, id: int, logprob: float | None, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        piece = self._tokenizer.piece(id)
        data = piece if isinstance(piece, bytes) else b""
        return TokenLogprob(id, data, UNKNOWN_LOGPROB if logprob is None else logprob, top)

    def best(self, top: Iterable[tuple[int, float]], count: int) -> tuple[TokenLogprob, ...]:
        """The ``count`` most probable of (id, log probability): servers add the sampled id to them, or more."""
        chosen = sorted(top, key=lambda pair: -pair[1])[:count]
        return tuple(self.logprob(id, logprob) for id, logprob in chosen)


def _parts(step: Step) -> Iterator[Step]:
    """The parts of a step that has very many ids."""
    for first in range(0, len(step.ids), _PART):
        last = first + _PART
        part = replace(step, ids=step.ids[first:last], logprobs=step.logprobs[first:last], cached_tokens=None, end=None)
        yield part if last < len(step.ids) else replace(part, cached_tokens=step.cached_tokens, end=step.end)


class Aborts:
    """Tells a server of requests that nobody waits for any more, in the background.

    ``abort`` sends the id of one. A hang-up alone stops the work too, where nothing between holds the connection open,
    but later: so whether the server heard it is nobody's concern.
    """

    def __init__(self, abort: Callable[[str], Awaitable[object]]) -> None:
        self._abort = abort
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def send(self, request_id: str) -> None:
        """Nothing after `aclose`: the connections are closed then, which stops their work."""
        if self._closed:
            return
        task = asyncio.create_task(self._send(request_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Waits until all are sent, or have failed."""
        self._closed = True
        await asyncio.gather(*self._tasks)

    async def _send(self, request_id: str) -> None:
        try:
            async with asyncio.timeout(_ABORT_SECONDS):
                await self._abort(request_id)
        except (AntiphonError, TimeoutError) as error:
            log.debug("the engine did not take an abort: %s", error)
