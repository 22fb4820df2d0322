"""The base of engines on servers with completions whose prompt and reply are ids (`POST /v1/completions`, streamed)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterator, Sequence

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.errors import ContextError, EngineError, EngineLostError, UnsupportedError
from antiphon.structs import ready
from antiphon.tokens import Tokenizer

from .engine import EngineInfo, Sampling, Step
from .http import HttpClient, failed, values_of
from .remote import RemoteEngine


class TokenEntry(msgspec.Struct):
    """An id with its log probability; ``rank`` 1 is the most probable."""

    token_id: int
    logprob: float
    rank: int | None = None
    top_logprobs: list[TokenEntry] = []


class Logprobs(msgspec.Struct):
    """Of a chunk. Tokens are spelled `token_id:N` (`return_tokens_as_token_ids`), as texts may collide; ``content``
    has them as numbers, from routes that are about ids."""

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
    """What a route that cuts texts answers."""

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
    """What to do about a server that gives no ids back, for people."""

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
    """What the ingress of ``ray.serve.llm`` says of a model."""

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
