"""The base of engines on servers elsewhere that take ids and give ids."""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import TokenLogprob
from antiphon.errors import AntiphonError, ContextError, EngineError, EngineLostError, Position, UnsupportedError
from antiphon.structs import ready
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer

from .engine import Embeddings, EngineEnd, EngineInfo, PlacedImage, Sampling, Step
from .http import MOST_LOGGED, HttpClient, check_context, failed, values_of

log = logging.getLogger("antiphon.engines")

UNKNOWN_LOGPROB = -9999.0
"""For an id of which the server gives no log probability."""
LEAST_BIAS = -100.0
"""Bias that servers take for an id that is never to be chosen: JSON has no infinity."""
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
        images: Sequence[PlacedImage] = (),
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
        """Refuses what the server would ignore, or answer in words of its own. Errors as for `Engine.generate`."""
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


def common_settings(sampling: Sampling) -> dict[str, Any]:
    """Names the settings that servers of vLLM and SGLang call alike; for what is not named they have defaults."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "stop_token_ids": sorted(sampling.stop_ids),
        "ignore_eos": sampling.ignore_eos,
    }


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


# The base of engines on servers with completions whose prompt and reply are ids (`POST /v1/completions`, streamed).


class TokenEntry(msgspec.Struct):
    """An id with its log probability; ``rank`` 1 is the most probable."""

    token_id: int
    logprob: float
    rank: int | None = None
    top_logprobs: list[TokenEntry] = []


class Logprobs(msgspec.Struct):
    """Log probabilities of a chunk. Tokens are spelled `token_id:N` (`return_tokens_as_token_ids`): texts may collide.
    ``content`` has them as numbers, from routes that are about ids."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None
    content: list[TokenEntry] | None = None


class Choice(msgspec.Struct):
    index: int = 0
    token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class ErrorMessage(msgspec.Struct):
    message: str = "unknown error"


class PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens_details: PromptDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        """How many ids of the prompt were in the server's cache, where it says so."""
        details = self.prompt_tokens_details
        return details.cached_tokens if details else None


class Tokens(msgspec.Struct):
    """Answer of a route that cuts texts."""

    tokens: list[int]


class Chunk(msgspec.Struct):
    choices: list[Choice] = []
    error: ErrorMessage | None = None
    usage: Usage | None = None


_CHUNK = msgspec.json.Decoder(ready(Chunk))


class CompletionsEngine(RemoteEngine):
    """One model of such a server. ``name`` is the server's for the model.

    A subclass says its `body`; what it must add to that of OpenAI is how ids come back, and how a grammar goes out.
    """

    path = "/v1/completions"
    ids_hint: str | None = None
    """Advice for people whose server gives no ids back."""

    def __init__(
        self, client: HttpClient, name: str, tokenizer: Tokenizer, info: EngineInfo, *, share_cache: bool = False
    ) -> None:
        super().__init__(tokenizer, info, share_cache=share_cache)
        self._client = client
        self._name = name

    @abstractmethod
    def body(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> dict[str, object]:
        """The JSON of a request, streamed or ``whole``, as for `steps`."""

    async def steps(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> AsyncGenerator[Step, None]:
        """The last step waits for what the server says of its cache, which follows the last choice's end."""
        body = self.body(prompt, sampling, n=n, grammar=grammar, domain=domain)
        room = self.room(prompt)
        open_choices, last, cached = n, None, None
        opened = self._client.open_reply("POST", self.path, body, refuse)
        async with opened as reply, values_of(reply, whole=body["stream"] is False) as values:
            async for value in values:
                chunk = _CHUNK.decode(value)
                if chunk.error is not None:
                    raise failed(500, chunk.error.message)
                if chunk.usage is not None:
                    cached = cached if chunk.usage.cached_tokens is None else chunk.usage.cached_tokens
                for choice in chunk.choices:
                    step = self._step(choice, sampling, room)
                    open_choices -= step.end is not None
                    if open_choices:
                        yield step
                    else:
                        last = step
            reply.is_whole = last is not None
        if last is None:
            raise EngineLostError("the engine ended its stream in the middle of a reply")
        yield msgspec.structs.replace(last, cached_tokens=cached)

    async def aclose(self) -> None:
        await self._client.aclose()

    def _step(self, choice: Choice, sampling: Sampling, room: int) -> Step:
        if choice.token_ids is None:
            raise EngineError("the server does not give token ids back", code="engine_too_old", hint=self.ids_hint)
        end = None if choice.finish_reason is None else self.end(choice.finish_reason, sampling, room)
        logprobs = () if sampling.logprobs is None else tuple(self._logprobs(choice, sampling.logprobs))
        return Step(tuple(choice.token_ids), choice.index, logprobs, end=end)

    def _logprobs(self, choice: Choice, count: int) -> Iterator[TokenLogprob]:
        reported, ids = choice.logprobs, choice.token_ids or []
        if reported is None:
            return
        if reported.content is not None:
            for entry in reported.content:
                ranked = (one for one in entry.top_logprobs if one.rank is None or one.rank <= count)
                top = self.best(((one.token_id, one.logprob) for one in ranked), count)
                yield self.logprob(entry.token_id, entry.logprob, top)
            return
        tops = reported.top_logprobs or [None] * len(ids)
        for id, logprob, named in zip(ids, reported.token_logprobs, tops, strict=True):
            pairs = ((int(name.removeprefix("token_id:")), value) for name, value in (named or {}).items())
            yield self.logprob(id, logprob, self.best(pairs, count))


class _CardMetadata(msgspec.Struct):
    """Facts that the ingress of ``ray.serve.llm`` reports of a model."""

    max_request_context_length: int | None = None


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None
    metadata: _CardMetadata | None = None

    @property
    def context(self) -> int | None:
        if self.max_model_len is not None or self.metadata is None:
            return self.max_model_len
        return self.metadata.max_request_context_length


class _Cards(msgspec.Struct):
    data: list[_Card]


async def served_model(client: HttpClient, name: str | None) -> tuple[str, int]:
    """The name and the context, in tokens, of the model called ``name``, or of the first that the server has.

    Errors: `EngineError` with the names that there are; `OverloadedError` when nobody answers there.
    """
    async with client.open_reply("GET", "/v1/models", None, refuse) as reply:
        cards = msgspec.json.decode(await reply.read(), type=ready(_Cards)).data
    card = next((card for card in cards if name in (None, card.id)), None)
    if card is None or card.context is None:
        names = ", ".join(card.id for card in cards)
        raise EngineError(f"the server has no model {name!r} with a known context", hint=f"It serves: {names}")
    return card.id, card.context


class _Refusal(msgspec.Struct):
    error: ErrorMessage | str | None = None
    message: str | None = None


def refuse(status: int, body: bytes) -> Exception:
    """An answer that is not 200, as one of our errors."""
    return refusal(status, _words(body))


def refusal(status: int, words: str) -> Exception:
    """A server's refusal in its own words as one of our errors."""
    if status == 400 and (limit := re.search(r"context length\D*(\d+)", words)):
        return ContextError(f"prompt and answer do not fit the engine's context of {limit[1]} tokens")
    return failed(status, words)


def _words(body: bytes) -> str:
    plain = body[:200].decode("utf-8", "replace")
    try:
        answer = msgspec.json.decode(body, type=ready(_Refusal))
    except msgspec.MsgspecError:
        return plain
    error = answer.error.message if isinstance(answer.error, ErrorMessage) else answer.error
    return error or answer.message or plain


def unanswered(status: int, body: bytes) -> Exception:
    """For a request that a server need not know."""
    return UnsupportedError(f"the server does not say ({status})")
