"""SGLang over its own route (`POST /generate`): ids in and ids out, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeAlias
from uuid import uuid4

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.errors import EngineError, EngineLostError, ModelError, UnsupportedError
from antiphon.structs import ready
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer

from .engine import SAMPLING, EngineInfo, Sampling, Step
from .http import STREAMS, HttpClient, ServerSettings, takes_grammars, values_of
from .kind import CHAT, ModelSpec, Task
from .remote import (
    LEAST_BIAS,
    Aborts,
    ErrorMessage,
    RemoteEngine,
    Tokens,
    common_settings,
    refusal,
    refuse,
    served_model,
    unanswered,
)
from .turns import together

MAX_LOGPROBS = 20
RESERVED = 2
"""Tokens of its context that the server leaves unused in every request."""
_SEEDS = 2**63
"""Seeds are signed 64-bit numbers there."""
_GUIDANCE = "llguidance"


class Sglang(ServerSettings, frozen=True, kw_only=True, tag="sglang"):
    """An SGLang that runs already; it has one model. ``whole_replies``: it is asked for a whole reply where nobody
    streams it; false where something between the two ends connections that are silent for a while."""

    whole_replies: bool = True

    tasks: ClassVar[frozenset[Task]] = CHAT

    async def open(self, model: ModelSpec) -> SglangEngine:
        return await SglangEngine.connect(
            self.url,
            key=await self.key(model),
            tokenizer=model.tokenizer,
            end_ids=model.end_ids,
            grammar=self.grammar,
            streams=model.slots or STREAMS,
            share_cache=self.shares_cache(model),
            whole=self.whole_replies,
        )


class SglangEngine(RemoteEngine):
    """Made by `connect`, which reads what the server is."""

    def __init__(
        self,
        client: HttpClient,
        calls: HttpClient,
        tokenizer: Tokenizer,
        info: EngineInfo,
        *,
        share_cache: bool = False,
    ) -> None:
        """``calls`` carries the short requests, so that they never wait behind replies."""
        super().__init__(tokenizer, info, share_cache=share_cache)
        self._client = client
        self._calls = calls
        self._aborts = Aborts(self._abort)

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        key: str | None = None,
        grammar: bool | None = False,
        streams: int = STREAMS,
        share_cache: bool = False,
        whole: bool = True,
    ) -> SglangEngine:
        """``url`` is the server's root. ``tokenizer`` and ``end_ids`` are the model's own: SGLang reports neither.

        ``grammar``: it takes llguidance's grammars, as with ``--grammar-backend llguidance``; None tries. ``streams``
        bounds the replies requested at once. ``whole``: as `Sglang.whole_replies`. Errors: `OverloadedError` when
        nobody answers there, `ModelError` for a server that makes embeddings.
        """
        client, calls = HttpClient(url, key=key, streams=streams), HttpClient(url, key=key, streams=4)
        try:
            _, context = await served_model(calls, None)
            facts = await _facts(calls)
            if facts.is_embedding:
                raise ModelError("the server's model makes embeddings and writes no text", code="not_generative")
            context = min(context, facts.max_total_num_tokens or context) - RESERVED
            info = declared(context, streams, end_ids, grammar=True, seeds=facts.enable_deterministic_inference)
            if grammar is None and facts.grammar_backend in (None, _GUIDANCE):
                grammar = await takes_grammars(cls(client, calls, tokenizer, info).generate, tokenizer, end_ids)
        except BaseException:
            await client.aclose()
            await calls.aclose()
            raise
        info = replace(info, grammar=bool(grammar), whole=whole)
        return cls(client, calls, tokenizer, info, share_cache=share_cache)

    def steps(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> AsyncGenerator[Step, None]:
        """Choices are requests of their own, which find each other's prompt in the server's cache."""
        reply = partial(self._reply, prompt, grammar, domain)
        return reply(sampling) if n == 1 else together(reply, sampling, n)

    async def _reply(
        self, prompt: Sequence[int], grammar: str | None, domain: str, sampling: Sampling
    ) -> AsyncGenerator[Step, None]:
        room, request_id, count, begun, ended = self.room(prompt), uuid4().hex, 0, False, False
        asked = {"rid": request_id, "stream": not sampling.whole}
        body = {**self._body(prompt, sampling, grammar), **_apart(domain), **asked}
        opened = self._client.open_reply("POST", "/generate", body, refuse)
        try:
            async with opened as reply, values_of(reply, whole=sampling.whole) as values:
                begun = True
                async for value in values:
                    step = self._step(msgspec.json.decode(value, type=ready(_Event)), count, sampling, room)
                    count, ended = count + len(step.ids), step.end is not None
                    reply.is_whole = ended
                    yield step
                    if ended:
                        return
        except asyncio.CancelledError:
            begun = True  # Whoever leaves before a whole reply begins leaves it in the middle.
            raise
        finally:
            if begun and not ended:
                self._aborts.send(request_id)
        raise EngineLostError("the engine ended its stream in the middle of a reply")

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """The whole prompt is evaluated anew: the server's cache has no log probabilities."""
        sampling = Sampling(max_tokens=0, temperature=0.0, logprobs=alternatives)
        self.check(prompt, sampling, n=1, grammar=None)
        apart = _apart(tenant.domain(shared=self._share_cache))
        body = {**self._body(prompt, sampling, None), **apart, "logprob_start_len": 0}
        async with self._client.open_reply("POST", "/generate", body, refuse) as reply:
            meta = msgspec.json.decode(await reply.read(), type=ready(_Event)).meta_info
        found = self._entries(meta.input_token_logprobs, meta.input_top_logprobs, alternatives)
        if [entry.id for entry in found] != list(prompt):
            raise EngineError("the server does not report log probabilities of a prompt", code="engine_too_old")
        return (None, *found[1:])

    async def tokenize(self, text: str) -> list[int] | None:
        body = {"prompt": text, "add_special_tokens": False}
        try:
            async with self._calls.open_reply("POST", "/tokenize", body, unanswered) as reply:
                return msgspec.json.decode(await reply.read(), type=ready(Tokens)).tokens
        except UnsupportedError:
            return None

    async def aclose(self) -> None:
        await self._client.aclose()
        await self._aborts.aclose()
        await self._calls.aclose()

    def _body(self, prompt: Sequence[int], sampling: Sampling, grammar: str | None) -> dict[str, object]:
        sent: dict[str, object] = {
            # What is beyond its context it would cut by itself, or refuse.
            "max_new_tokens": min(sampling.max_tokens, self.room(prompt)),
            "top_k": sampling.top_k or -1,
            **common_settings(sampling),
        }
        if sampling.min_tokens:
            sent["min_new_tokens"] = min(sampling.min_tokens, sampling.max_tokens, self.room(prompt))
        if sampling.seed is not None:
            sent["sampling_seed"] = sampling.seed % _SEEDS
        if sampling.logit_bias:
            sent["logit_bias"] = {str(id): max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()}
        if grammar is not None:
            sent["ebnf"] = grammar  # llguidance's Lark is taken under this name too.
        body: dict[str, object] = {"input_ids": list(prompt), "sampling_params": sent}
        if sampling.logprobs is not None:
            body |= {"return_logprob": True, "logprob_start_len": -1, "top_logprobs_num": sampling.logprobs}
        return body

    def _step(self, event: _Event, count: int, sampling: Sampling, room: int) -> Step:
        """The step of an event that comes after ``count`` ids.

        A server gives all ids so far, or, with ``--incremental-streaming-output``, the new ones; it counts all of them.
        """
        meta = event.meta_info
        if event.error is not None:
            raise refusal(event.error.code or 500, event.error.message)
        if meta.finish_reason is not None and meta.finish_reason.status_code is not None:
            raise refusal(meta.finish_reason.status_code, meta.finish_reason.message or "")
        if event.output_ids is None:
            raise EngineError("the server does not give token ids back", code="engine_too_old")
        new = meta.completion_tokens - count
        if not 0 <= new <= len(event.output_ids):
            raise EngineLostError("the engine's stream lacks ids of the reply")
        ids = tuple(event.output_ids[len(event.output_ids) - new :])
        finish = meta.finish_reason
        end = None if finish is None else self.end(finish.type, sampling, room)
        logprobs = () if sampling.logprobs is None else self._sampled(ids, meta, sampling.logprobs)
        return Step(ids, 0, logprobs, end=end, cached_tokens=meta.cached_tokens)

    def _sampled(self, ids: tuple[int, ...], meta: _Meta, count: int) -> tuple[TokenLogprob, ...]:
        """One for each of the new ids, which are the last that the server reports."""
        first = max(0, len(meta.output_token_logprobs) - len(ids))
        found = self._entries(meta.output_token_logprobs[first:], meta.output_top_logprobs[first:], count)
        if tuple(entry.id for entry in found) != ids:
            return tuple(self.logprob(id, None) for id in ids)
        return found

    def _entries(self, entries: list[_Entry], tops: list[list[_Entry] | None], count: int) -> tuple[TokenLogprob, ...]:
        best = [self.best(((id, value or 0.0) for value, id, _ in top or ()), count) for top in tops]
        best += [()] * (len(entries) - len(best))
        return tuple(self.logprob(id, value, top) for (value, id, _), top in zip(entries, best, strict=True))

    async def _abort(self, request_id: str) -> None:
        async with self._calls.open_reply("POST", "/abort_request", {"rid": request_id}, refuse):
            pass


def _apart(domain: str) -> dict[str, object]:
    """Keeps a domain's prompts apart in the cache: by one name in older servers, by the other in newer ones."""
    return {"extra_key": domain, "cache_salt": domain} if domain else {}


_Entry: TypeAlias = tuple[float | None, int, str | None]
"""(log probability, id, text)."""


class _Finish(msgspec.Struct):
    """``status_code``: a refusal, or a failure, that the scheduler reports in place of a reply's end."""

    type: str
    message: str | None = None
    status_code: int | None = None


class _Meta(msgspec.Struct):
    completion_tokens: int = 0
    finish_reason: _Finish | None = None
    cached_tokens: int | None = None
    output_token_logprobs: list[_Entry] = []
    output_top_logprobs: list[list[_Entry] | None] = []
    input_token_logprobs: list[_Entry] = []
    input_top_logprobs: list[list[_Entry] | None] = []


class _Failure(ErrorMessage):
    code: int | None = None


class _Event(msgspec.Struct):
    output_ids: list[int] | None = None
    meta_info: _Meta = msgspec.field(default_factory=_Meta)
    error: _Failure | None = None


class _Facts(msgspec.Struct):
    max_total_num_tokens: int | None = None
    is_embedding: bool = False
    enable_deterministic_inference: bool = False
    grammar_backend: str | None = None


async def _facts(client: HttpClient) -> _Facts:
    """Asks the server for its facts, under the newer name of the route or the older one."""
    for path in ("/server_info", "/get_server_info"):
        try:
            async with client.open_reply("GET", path, None, unanswered) as reply:
                return msgspec.json.decode(await reply.read(), type=ready(_Facts))
        except UnsupportedError:
            continue
    return _Facts()


def declared(
    context: int, streams: int, end_ids: frozenset[int] = frozenset(), *, grammar: bool, seeds: bool = False
) -> EngineInfo:
    """Gives the abilities of this engine with a model.

    ``seeds``: the server was started with ``--enable-deterministic-inference``, and honours them; others ignore them.
    """
    return EngineInfo(
        name="sglang",
        context=context,
        slots=streams,
        honours=(SAMPLING if seeds else SAMPLING - {"seed"}) | {"min_tokens"},
        end_ids=end_ids,
        grammar=grammar,
        logprobs=MAX_LOGPROBS,
        scores=True,
    )
