"""vLLM's own server: its route of ids (`/inference/v1/generate`) where that is on, else completions (0.10.2 on)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar, Unpack

import msgspec
from msgspec.structs import replace as replace_in

from antiphon.conversation import TokenLogprob
from antiphon.errors import AntiphonError, EngineError, RequestError, UnsupportedError
from antiphon.structs import ready
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import Tokenizer

from .engine import SAMPLING, EngineInfo, GenerateOptions, PlacedImage, Ranking, Sampling, Step
from .http import STREAMS, HttpClient, ServerSettings, takes_grammars
from .kind import ModelSpec, Task
from .remote import LEAST_BIAS, CompletionsEngine, Tokens, common_settings, refuse, served_model, unanswered

MAX_LOGPROBS = 20
_GREY = (
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4AQMAAACSSKldAAAAA1BMVEUAAA"
    "Cnej3aAAAADklEQVR42mNgGAVDGQAAAcAAAb8Xq8EAAAAASUVORK5CYII="
)
"""A small PNG, in base64."""
_SEEDS = 2**63
"""Seeds are signed 64-bit numbers there."""


class Vllm(ServerSettings, frozen=True, kw_only=True, tag="vllm"):
    """A vLLM that runs already. ``served_name`` is what it calls the model; empty: the first that it has.

    ``whole_replies``: it is asked for a whole reply where nobody streams it; false where something between the two
    ends connections that are silent for a while.
    """

    served_name: str = ""
    whole_replies: bool = True

    tasks: ClassVar[frozenset[Task]] = frozenset({"chat", "rank"})

    async def open(self, model: ModelSpec) -> VllmEngine:
        return await VllmEngine.connect(
            self.url,
            key=await self.key(model),
            tokenizer=model.tokenizer,
            end_ids=model.end_ids,
            model=self.served_name or None,
            grammar=self.grammar if model.task == "chat" else False,
            ranks=model.task == "rank",
            streams=model.slots or STREAMS,
            share_cache=self.shares_cache(model),
            whole=self.whole_replies,
        )


class VllmEngine(CompletionsEngine):
    """Made by `connect`; over completions, which every such server has."""

    ids_hint = "vLLM 0.10.2 and later do."
    whole: ClassVar[bool] = True
    """Its route says of a whole reply all that it says of a streamed one."""

    @staticmethod
    async def connect(
        url: str,
        *,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        model: str | None = None,
        key: str | None = None,
        grammar: bool | None = False,
        ranks: bool = False,
        streams: int = STREAMS,
        share_cache: bool = False,
        whole: bool = True,
    ) -> VllmEngine:
        """``url`` is the server's root; ``model`` None takes the first that it serves.

        ``tokenizer`` and ``end_ids`` are the model's own: vLLM reports neither. ``grammar``: it takes llguidance's
        grammars, as its structured output backends `guidance` and `auto` do; None tries. ``ranks``: its model is a
        cross-encoder, and does not generate. ``whole``: as `Vllm.whole_replies`. A server with the route of
        ids gets its requests there. Errors: `OverloadedError` when nobody answers there.
        """
        client = HttpClient(url, key=key, streams=streams)
        try:
            name, context = await served_model(client, model)
            info = declared(context, streams, end_ids, grammar=True, ranks=ranks)
            kind = NativeVllmEngine if not ranks and await _has_ids_route(client) else VllmEngine
            trial = kind(client, name, tokenizer, info)
            sees = isinstance(trial, NativeVllmEngine) and await trial.sees()
            if grammar is None:
                grammar = await takes_grammars(trial.generate, tokenizer, end_ids)
        except BaseException:
            await client.aclose()
            raise
        honours = info.honours | ({"images"} if sees else set())
        info = replace(info, grammar=grammar, whole=whole and kind.whole, honours=honours)
        return kind(client, name, tokenizer, info, share_cache=share_cache)

    async def score(
        self, prompt: Sequence[int], *, alternatives: int = 0, tenant: Tenant = NOBODY
    ) -> tuple[TokenLogprob | None, ...]:
        """It makes one token besides, which is dropped: it makes one at least."""
        self.check(prompt, Sampling(max_tokens=1), n=1, grammar=None)
        body: dict[str, object] = {
            "model": self._name,
            "prompt": list(prompt),
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": alternatives,
        }
        if domain := tenant.domain(shared=self._share_cache):
            body["cache_salt"] = domain
        async with self._client.open_reply("POST", "/v1/completions", body, refuse) as reply:
            answer = msgspec.json.decode(await reply.read(), type=ready(_Scored))
        reported = answer.choices[0].prompt_logprobs if answer.choices else None
        if reported is None or len(reported) != len(prompt):
            raise EngineError("the server does not report log probabilities of a prompt", code="engine_too_old")
        return tuple(self._scored(id, tops, alternatives) for id, tops in zip(prompt, reported, strict=True))

    async def rank(self, query: str, documents: Sequence[str], *, tenant: Tenant = NOBODY) -> Ranking:
        """As the server activates its model's logits: by the sigmoid where there is one label.

        It finds controls in texts, so that a text with one is a `RequestError`.
        """
        if not self._info.ranks:
            raise UnsupportedError("this engine was not declared to rank")
        spellings = [control.spelling for control in self._tokenizer.controls]
        spelled = next((one for text in (query, *documents) for one in spellings if one in text), None)
        if spelled is not None:
            hint = "Leave it out: the server would take it for one."
            raise RequestError(f"a text spells the control {spelled!r}", code="invalid_value", hint=hint)
        body = {"model": self._name, "text_1": query, "text_2": list(documents)}
        async with self._client.open_reply("POST", "/score", body, refuse) as reply:
            answer = msgspec.json.decode(await reply.read(), type=ready(_Scores))
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(len(documents))):
            raise EngineError("the server has not scored each document")
        return Ranking(tuple(min(1.0, max(0.0, row.score)) for row in rows), answer.usage.prompt_tokens)

    def _scored(self, id: int, tops: dict[int, _Score] | None, alternatives: int) -> TokenLogprob | None:
        """Reads the server's report of one id: itself and the most probable, each by its id."""
        if tops is None:
            return None
        best = sorted(tops.items(), key=lambda pair: -pair[1].logprob)[:alternatives]
        others = tuple(self.logprob(other, score.logprob) for other, score in best)
        own = tops.get(id)
        return self.logprob(id, own.logprob if own else None, others)

    async def tokenize(self, text: str) -> list[int] | None:
        """By its tokenizer's route, or that which renders completions, whichever is on."""
        body = {"model": self._name, "prompt": text, "add_special_tokens": False}
        for path in ("/tokenize", "/v1/completions/render"):
            try:
                async with self._client.open_reply("POST", path, body, unanswered) as reply:
                    answer = msgspec.json.decode(await reply.read(), type=ready(Tokens | list[_Rendered]))
            except (UnsupportedError, msgspec.ValidationError):
                continue
            return answer.tokens if isinstance(answer, Tokens) else [id for part in answer for id in part.token_ids]
        return None

    def body(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> dict[str, object]:
        body: dict[str, object] = {
            "model": self._name,
            "prompt": list(prompt),
            "stream": not sampling.whole,
            "return_token_ids": True,
            **self._sampling(prompt, sampling, n=n, grammar=grammar),
        }
        if not sampling.whole:
            body["stream_options"] = {"include_usage": True}
        if sampling.logprobs is not None:
            body |= {"logprobs": sampling.logprobs, "return_tokens_as_token_ids": True}
        if domain:
            body["cache_salt"] = domain
        return body

    def _sampling(self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None) -> dict[str, object]:
        """Names all that both routes call alike: vLLM would else take defaults of `generation_config.json`."""
        sent: dict[str, object] = {
            # vLLM refuses more than its context has room for.
            "max_tokens": min(sampling.max_tokens, self.room(prompt)),
            "n": n,
            "top_k": sampling.top_k,
            **common_settings(sampling),
        }
        if sampling.min_tokens:
            sent["min_tokens"] = min(sampling.min_tokens, sampling.max_tokens, self.room(prompt))
        if sampling.seed is not None:
            sent["seed"] = sampling.seed % _SEEDS
        if sampling.logit_bias:
            sent["logit_bias"] = {str(id): max(LEAST_BIAS, bias) for id, bias in sampling.logit_bias.items()}
        if grammar is not None:
            sent["structured_outputs"] = {"grammar": grammar}
        return sent


class PicturedIds(list[int]):
    """A prompt in which images have as many ids as the model makes of them, and what the server made of their files."""

    def __init__(self, ids: Sequence[int], features: dict[str, object]) -> None:
        super().__init__(ids)
        self.features = features


class NativeVllmEngine(VllmEngine):
    """Over the route that is about ids alone (`--enable-scale-out`): nothing of a reply becomes text on the way.

    Images are rendered by its route that renders chats; what it made of them goes to our ids, in their places.
    """

    path = "/inference/v1/generate"
    whole = False  # It would not say what its cache had of the prompt.

    def body(
        self, prompt: Sequence[int], sampling: Sampling, *, n: int, grammar: str | None, domain: str
    ) -> dict[str, object]:
        sent = self._sampling(prompt, sampling, n=n, grammar=grammar) | {"detokenize": False}
        if sampling.logprobs is not None:
            # It counts the sampled id among the alternatives.
            sent["logprobs"] = min(sampling.logprobs + 1, MAX_LOGPROBS)
        body: dict[str, object] = {
            "model": self._name,
            "token_ids": list(prompt),
            "sampling_params": sent,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if isinstance(prompt, PicturedIds):
            body["features"] = prompt.features
        if grammar is not None:
            # A grammar of ours is of the whole reply, its reasoning included.
            body["reasoning_ended"] = True
        if domain:
            body["cache_salt"] = domain
        return body

    def generate(
        self, prompt: Sequence[int], sampling: Sampling, **options: Unpack[GenerateOptions]
    ) -> AsyncGenerator[Step, None]:
        images, generate = options.pop("images", ()), super().generate
        if not images:
            return generate(prompt, sampling, **options)
        return self._seeing(prompt, images, lambda ids: generate(ids, sampling, **options))

    async def _seeing(
        self,
        prompt: Sequence[int],
        images: Sequence[PlacedImage],
        generate: Callable[[PicturedIds], AsyncGenerator[Step, None]],
    ) -> AsyncGenerator[Step, None]:
        ids = await self.pictured(prompt, images)
        async with aclosing(generate(ids)) as steps:
            async for step in steps:
                yield replace_in(step, prompt_tokens=len(ids))

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int:
        return len(await self.pictured(prompt, images))

    async def pictured(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> PicturedIds:
        chat, features = await self.rendered([b64encode(image.data).decode() for image in images])
        ids, places, at = list[int](), list[_Span](), 0
        for image, span in zip(images, features.mm_placeholders["image"], strict=True):
            before, after = _around(prompt[image.start : image.stop], chat, span)
            ids += [*prompt[at : image.start], *before]
            places.append(_Span(len(ids), span.length))
            ids += [*chat[span.offset : span.offset + span.length], *after]
            at = image.stop
        placed = replace_in(features, mm_placeholders={"image": places})
        return PicturedIds([*ids, *prompt[at:]], msgspec.to_builtins(placed))

    async def rendered(self, images: Sequence[str]) -> tuple[list[int], _Features]:
        """Shows the server images in base64: the ids of a chat of theirs, and their features.

        Raises `EngineError` where its model sees none.
        """
        parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}} for image in images]
        body = {"model": self._name, "messages": [{"role": "user", "content": parts}]}
        async with self._client.open_reply("POST", "/v1/chat/completions/render", body, refuse) as reply:
            answer = msgspec.json.decode(await reply.read(), type=ready(_Pictured))
        features = answer.features
        if features is None or len(features.mm_placeholders.get("image", ())) != len(images):
            raise EngineError("the server has not found each image")
        return answer.token_ids, features

    async def sees(self) -> bool:
        """Whether the server's model sees images: it is shown one."""
        try:
            await self.rendered([_GREY])
        except AntiphonError:
            return False
        return True


def _around(mark: Sequence[int], ids: Sequence[int], span: _Span) -> tuple[Sequence[int], Sequence[int]]:
    """The ids of a template's mark before and after the one that the server has put the span's in the place of."""
    end = span.offset + span.length
    for count in range(len(mark)):
        before, after = [*mark[:count]], [*mark[count + 1 :]]
        if [*ids[span.offset - count : span.offset]] == before and [*ids[end : end + len(after)]] == after:
            return before, after
    raise EngineError("the server writes the place of an image otherwise than the model's template")


async def _has_ids_route(client: HttpClient) -> bool:
    """Whether the server has it: one that does says what is missing in an empty request."""
    try:
        async with client.open_reply("POST", NativeVllmEngine.path, {}, _lacking):
            return True
    except UnsupportedError:
        return False
    except RequestError:
        return True


def _lacking(status: int, body: bytes) -> Exception:
    return RequestError("something is missing") if status in (400, 422) else unanswered(status, body)


class _Score(msgspec.Struct):
    logprob: float


class _ScoredChoice(msgspec.Struct):
    prompt_logprobs: list[dict[int, _Score] | None] | None = None


class _Scored(msgspec.Struct):
    choices: list[_ScoredChoice] = []


class _PairScore(msgspec.Struct):
    index: int
    score: float


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


class _Scores(msgspec.Struct):
    data: list[_PairScore]
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _Rendered(msgspec.Struct):
    token_ids: list[int]


class _Span(msgspec.Struct):
    offset: int
    length: int


class _Features(msgspec.Struct):
    """``kwargs_data`` are an image's tensors, as that server writes them."""

    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[_Span]]
    kwargs_data: dict[str, list[str | None]] | None = None


class _Pictured(msgspec.Struct):
    token_ids: list[int]
    features: _Features | None = None


def declared(
    context: int, streams: int, end_ids: frozenset[int] = frozenset(), *, grammar: bool, ranks: bool = False
) -> EngineInfo:
    """Gives the abilities of this engine with a model."""
    return EngineInfo(
        name="vllm",
        context=context,
        slots=streams,
        honours=SAMPLING | {"min_tokens"},
        end_ids=end_ids,
        grammar=grammar and not ranks,
        logprobs=MAX_LOGPROBS,
        scores=not ranks,
        ranks=ranks,
    )
