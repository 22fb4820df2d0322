"""vLLM over its OpenAI-compatible server: completions with ids in and ids out (`return_token_ids`, vLLM 0.10.2 on)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import aiohttp
import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.errors import (
    ContextError,
    EngineError,
    EngineLostError,
    OverloadedError,
    Position,
    RequestError,
    UnsupportedError,
)
from antiphon.tokens import Tokenizer

from .engine import Embeddings, EngineEnd, EngineInfo, Sampling, Step
from .http import NO_LIMIT, EventLines, check_context, open_reply, refused_key
from .probe import holds_grammars

MAX_LOGPROBS = 20

_SEEDS = 2**63
"""Seeds are signed 64-bit numbers there."""


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


class Failure(msgspec.Struct):
    message: str = "unknown error"


class Chunk(msgspec.Struct):
    choices: list[Choice] = []
    error: Failure | None = None


class VllmEngine:
    """Made by `connect`. ``tokenizer`` is the model's: it gives log probabilities their bytes, and the ends."""

    def __init__(
        self, session: aiohttp.ClientSession, model: str, tokenizer: Tokenizer, info: EngineInfo
    ) -> None:  # fmt: skip
        self._session = session
        self._model = model
        self._tokenizer = tokenizer
        self._info = info

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        model: str | None = None,
        key: str | None = None,
        grammar: bool | None = False,
        streams: int = 256,
    ) -> VllmEngine:
        """``url`` is the server's root; ``model`` None takes the first that it serves.

        ``end_ids`` are the model's own ends, which vLLM does not tell. ``grammar``: it holds llguidance's grammars, as
        its structured output backends `guidance` and `auto` do; None tries. Errors: `OverloadedError` when nobody
        answers there.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connector = aiohttp.TCPConnector(limit=streams, force_close=True)
        session = aiohttp.ClientSession(url, connector=connector, headers=headers, timeout=NO_LIMIT)
        try:
            name, context = await _served(session, model)
            info = declared(context, streams, end_ids, grammar=True)
            if grammar is None:
                ask = cls(session, name, tokenizer, info).generate
                grammar = await holds_grammars(lambda ids, how, text: ask(ids, how, grammar=text), tokenizer, end_ids)
        except BaseException:
            await session.close()
            raise
        return cls(session, name, tokenizer, replace(info, grammar=grammar))

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
        affinity: str | None = None,
    ) -> AsyncGenerator[Step, None]:
        """``affinity`` needs nothing: vLLM finds a session's cache by its prompt."""
        check_context(prompt, self._info.context)
        if grammar is not None and not self._info.grammar:
            raise UnsupportedError("this engine was not declared to hold grammars")
        if not 1 <= n <= self._info.slots:
            raise UnsupportedError(f"this engine cannot make {n} choices", position=Position(path="n"))
        if sampling.max_tokens == 0:
            for choice in range(n):
                yield Step((), choice, end=EngineEnd.LENGTH_OUTPUT)
            return
        body = self._body(prompt, sampling, n=n, grammar=grammar)
        room = self._info.context - len(prompt)
        open_choices, lines = n, EventLines()
        async with open_reply(self._session, "POST", "/v1/completions", body, refuse) as reply:
            async for data in reply.content.iter_any():
                for _, value in lines.feed(data):
                    if not value.startswith(b"{"):
                        continue
                    for step in self._steps(msgspec.json.decode(value, type=Chunk), sampling, room):
                        open_choices -= step.end is not None
                        yield step
        if open_choices:
            raise EngineLostError("the engine ended its stream in the middle of a reply")

    async def embed(self, inputs: Sequence[Sequence[int]]) -> Embeddings:
        raise UnsupportedError("embeddings are not taken from vLLM")

    async def tokenize(self, text: str) -> list[int] | None:
        """Ids of ordinary text by the server's own vocabulary; None where the server does not tell."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        try:
            async with open_reply(self._session, "POST", "/tokenize", body, untold) as reply:
                return msgspec.json.decode(await reply.read(), type=_Tokens).tokens
        except UnsupportedError:
            return None

    async def aclose(self) -> None:
        await self._session.close()

    def _body(self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None) -> dict[str, object]:
        """Everything is said: vLLM would else take defaults from the model's `generation_config.json`."""
        body: dict[str, object] = {
            "model": self._model,
            "prompt": list(prompt),
            # vLLM refuses more than its context has room for.
            "max_tokens": min(sampling.max_tokens, self._info.context - len(prompt)),
            "n": n,
            "stream": True,
            "return_token_ids": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "repetition_penalty": sampling.repetition_penalty,
            "stop_token_ids": sorted(sampling.stop_ids),
            "ignore_eos": sampling.ignore_eos,
        }
        if sampling.seed is not None:
            body["seed"] = sampling.seed % _SEEDS
        if sampling.logit_bias:
            body["logit_bias"] = {str(id): max(-100.0, bias) for id, bias in sampling.logit_bias.items()}
        if sampling.logprobs is not None:
            body |= {"logprobs": sampling.logprobs, "return_tokens_as_token_ids": True}
        if grammar is not None:
            body["structured_outputs"] = {"grammar": grammar}
        return body

    def _steps(self, chunk: Chunk, sampling: Sampling, room: int) -> list[Step]:
        if chunk.error is not None:
            raise EngineError(f"the engine failed: {chunk.error.message}")
        return [self._step(choice, sampling, room) for choice in chunk.choices]

    def _step(self, choice: Choice, sampling: Sampling, room: int) -> Step:
        if choice.token_ids is None:
            hint = "vLLM 0.10.2 and later do."
            raise EngineError("the server does not give token ids back", code="engine_too_old", hint=hint)
        end = None
        match choice.finish_reason:
            case None:
                pass
            case "length":
                end = EngineEnd.LENGTH_CONTEXT if sampling.max_tokens > room else EngineEnd.LENGTH_OUTPUT
            case "stop":
                end = EngineEnd.STOP
            case reason:
                raise EngineLostError(f"the engine gave a reply up: {reason}")
        return Step(tuple(choice.token_ids), choice.index, self._logprobs(choice, sampling), end=end)

    def _logprobs(self, choice: Choice, sampling: Sampling) -> tuple[TokenLogprob, ...]:
        told = choice.logprobs
        if told is None or sampling.logprobs is None or choice.token_ids is None:
            return ()
        tops = told.top_logprobs or [None] * len(choice.token_ids)
        return tuple(
            self._logprob(id, logprob, self._alternatives(top or {}, sampling.logprobs))
            for id, logprob, top in zip(choice.token_ids, told.token_logprobs, tops, strict=True)
        )

    def _alternatives(self, top: dict[str, float], count: int) -> tuple[TokenLogprob, ...]:
        """The ``count`` most probable; vLLM adds the sampled id where it is not among them."""
        best = sorted(top.items(), key=lambda pair: -pair[1])[:count]
        return tuple(self._logprob(int(name.removeprefix("token_id:")), logprob) for name, logprob in best)

    def _logprob(self, id: int, logprob: float | None, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        piece = self._tokenizer.piece(id)
        data = piece if isinstance(piece, bytes) else b""
        return TokenLogprob(id, data, -9999.0 if logprob is None else logprob, top)


class _Card(msgspec.Struct):
    id: str
    max_model_len: int | None = None


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Cards(msgspec.Struct):
    data: list[_Card]


def declared(context: int, streams: int, end_ids: frozenset[int] = frozenset(), *, grammar: bool) -> EngineInfo:
    """What this engine can do with a model."""
    return EngineInfo(
        name="vllm", context=context, slots=streams, end_ids=end_ids, grammar=grammar, logprobs=MAX_LOGPROBS
    )


async def _served(session: aiohttp.ClientSession, model: str | None) -> tuple[str, int]:
    """The model's name and its context in tokens."""
    async with open_reply(session, "GET", "/v1/models", None, refuse) as reply:
        cards = msgspec.json.decode(await reply.read(), type=_Cards).data
    card = next((card for card in cards if model in (None, card.id)), None)
    if card is None or card.max_model_len is None:
        names = ", ".join(card.id for card in cards)
        raise EngineError(f"the server has no model {model!r} with a known context", hint=f"It serves: {names}")
    return card.id, card.max_model_len


class _ErrorBody(msgspec.Struct):
    error: Failure


def refuse(status: int, body: bytes) -> Exception:
    """An answer that is not 200, as one of our errors."""
    try:
        message = msgspec.json.decode(body, type=_ErrorBody).error.message
    except msgspec.MsgspecError:
        message = body[:200].decode("utf-8", "replace")
    match status:
        case 400 if "maximum context length" in message:
            return ContextError(message)
        case 400 | 422:
            return RequestError(f"the engine refused the request: {message}")
        case 401 | 403:
            return refused_key(status)
        case 429 | 503:
            return OverloadedError(f"the engine takes nothing now: {message}")
        case _:
            return EngineError(f"the engine failed ({status}): {message}")


def untold(status: int, body: bytes) -> Exception:
    """Of a call that a server need not have."""
    return UnsupportedError(f"the server does not say ({status})")
