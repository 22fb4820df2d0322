"""The base of engines on servers with completions whose prompt and reply are ids (`POST /v1/completions`, streamed)."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence

import aiohttp
import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.errors import (
    ContextError,
    EngineError,
    EngineLostError,
    Position,
    UnsupportedError,
)
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer

from .engine import Embeddings, EngineEnd, EngineInfo, Sampling, Step
from .http import MOST_LOGGED, NO_LIMIT, EventLines, HttpClient, check_context, failed

log = logging.getLogger("antiphon.engines")

UNKNOWN_LOGPROB = -9999.0
"""For an id of which the server gives no log probability."""


class Logprobs(msgspec.Struct):
    """Of a chunk. Tokens are spelled `token_id:N` (`return_tokens_as_token_ids`), as texts may collide."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class Choice(msgspec.Struct):
    index: int = 0
    token_ids: list[int] | None = None
    logprobs: Logprobs | None = None
    finish_reason: str | None = None


class ErrorMessage(msgspec.Struct):
    message: str = "unknown error"


class Chunk(msgspec.Struct):
    choices: list[Choice] = []
    error: ErrorMessage | None = None


class CompletionsEngine(ABC):
    """One model of such a server. ``name`` is the server's for the model; ``tokenizer`` gives log probabilities bytes.

    A subclass says its `body`; what it must add to that of OpenAI is how ids come back, and how a grammar goes out.
    """

    ids_hint: str | None = None
    """What to do about a server that gives no ids back, for people."""

    def __init__(
        self, client: HttpClient, name: str, tokenizer: Tokenizer, info: EngineInfo, *, share_cache: bool = False
    ) -> None:
        """``share_cache``: owners may find each other's prompts in the server's cache."""
        self._share_cache = share_cache
        self._client = client
        self._name = name
        self._tokenizer = tokenizer
        self._info = info

    @abstractmethod
    def body(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> dict[str, object]:
        """The JSON of a streamed request. All sampling is to be named: servers have defaults of their own.

        The server may reuse what it has of a prompt among requests of one ``domain`` only; empty: of everybody.
        """

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
        self._check(prompt, n=n, grammar=grammar)
        if sampling.max_tokens == 0:
            for choice in range(n):
                yield Step((), choice, end=EngineEnd.LENGTH_OUTPUT)
            return
        domain = tenant.domain(shared=self._share_cache)
        body = self.body(prompt, sampling, n=n, grammar=grammar, domain=domain)
        room = self._info.context - len(prompt)
        open_choices, lines = n, EventLines()
        async with self._client.open_reply("POST", "/v1/completions", body, refuse) as reply:
            async for data in reply.content.iter_any():
                for _, value in lines.feed(data):
                    if not value.startswith(b"{"):
                        continue
                    for step in self._steps(msgspec.json.decode(value, type=Chunk), sampling, room):
                        open_choices -= step.end is not None
                        yield step
        if open_choices:
            raise EngineLostError("the engine ended its stream in the middle of a reply")

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        raise UnsupportedError(f"{self._info.name} reports no log probabilities of a prompt")

    async def embed(self, inputs: Sequence[Sequence[int]], *, tenant: Tenant = NOBODY) -> Embeddings:
        raise UnsupportedError(f"embeddings are not taken from {self._info.name}")

    async def tokenize(self, text: str) -> list[int] | None:
        return None

    async def aclose(self) -> None:
        await self._client.aclose()

    def _check(self, prompt: Sequence[int], *, n: int, grammar: str | None) -> None:
        check_context(prompt, self._info.context)
        if grammar is not None and not self._info.grammar:
            raise UnsupportedError("this engine was not declared to take grammars")
        if not 1 <= n <= self._info.slots:
            raise UnsupportedError(f"this engine cannot make {n} choices", position=Position(path="n"))

    def _steps(self, chunk: Chunk, sampling: Sampling, room: int) -> list[Step]:
        if chunk.error is not None:
            raise failed(500, chunk.error.message)
        return [self._step(choice, sampling, room) for choice in chunk.choices]

    def _step(self, choice: Choice, sampling: Sampling, room: int) -> Step:
        if choice.token_ids is None:
            raise EngineError("the server does not give token ids back", code="engine_too_old", hint=self.ids_hint)
        end = None
        match choice.finish_reason:
            case None:
                pass
            case "length":
                end = EngineEnd.LENGTH_CONTEXT if sampling.max_tokens > room else EngineEnd.LENGTH_OUTPUT
            case "stop":
                end = EngineEnd.STOP
            case reason:
                log.warning("the engine ended a reply by %r", reason[:MOST_LOGGED])
                raise EngineLostError("the engine gave a reply up")
        return Step(tuple(choice.token_ids), choice.index, self._logprobs(choice, sampling), end=end)

    def _logprobs(self, choice: Choice, sampling: Sampling) -> tuple[TokenLogprob, ...]:
        reported = choice.logprobs
        if reported is None or sampling.logprobs is None or choice.token_ids is None:
            return ()
        tops = reported.top_logprobs or [None] * len(choice.token_ids)
        return tuple(
            self._logprob(id, logprob, self._alternatives(top or {}, sampling.logprobs))
            for id, logprob, top in zip(choice.token_ids, reported.token_logprobs, tops, strict=True)
        )

    def _alternatives(self, top: dict[str, float], count: int) -> tuple[TokenLogprob, ...]:
        """The ``count`` most probable; the server adds the sampled id where it is not among them."""
        best = sorted(top.items(), key=lambda pair: -pair[1])[:count]
        return tuple(self._logprob(int(name.removeprefix("token_id:")), logprob) for name, logprob in best)

    def _logprob(self, id: int, logprob: float | None, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        piece = self._tokenizer.piece(id)
        data = piece if isinstance(piece, bytes) else b""
        return TokenLogprob(id, data, UNKNOWN_LOGPROB if logprob is None else logprob, top)


def open_client(url: str, key: str | None, *, streams: int) -> HttpClient:
    """A client of the server at ``url``, of whose replies at most ``streams`` are open at once; more wait here."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    connector = aiohttp.TCPConnector(limit=streams, force_close=True)
    return HttpClient(aiohttp.ClientSession(url, connector=connector, headers=headers, timeout=NO_LIMIT))


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Cards(msgspec.Struct):
    data: list[_Card]


async def served_model(client: HttpClient, name: str | None) -> tuple[str, int]:
    """The name and the context, in tokens, of the model called ``name``, or of the first that the server has.

    Errors: `EngineError` with the names that there are; `OverloadedError` when nobody answers there.
    """
    async with client.open_reply("GET", "/v1/models", None, refuse) as reply:
        cards = msgspec.json.decode(await reply.read(), type=_Cards).data
    card = next((card for card in cards if name in (None, card.id)), None)
    if card is None or card.max_model_len is None:
        names = ", ".join(card.id for card in cards)
        raise EngineError(f"the server has no model {name!r} with a known context", hint=f"It serves: {names}")
    return card.id, card.max_model_len


class _Refusal(msgspec.Struct):
    error: ErrorMessage


def refuse(status: int, body: bytes) -> Exception:
    """An answer that is not 200, as one of our errors."""
    try:
        message = msgspec.json.decode(body, type=_Refusal).error.message
    except msgspec.MsgspecError:
        message = body[:200].decode("utf-8", "replace")
    if status == 400 and "maximum context length" in message:
        numbers = re.findall(r"\d+", message)
        return ContextError(f"prompt and answer do not fit the engine's context of {next(iter(numbers), '?')} tokens")
    return failed(status, message)
