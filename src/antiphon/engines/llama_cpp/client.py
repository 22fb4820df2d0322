"""A client of llama.cpp's server, at a private socket or over a network."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from antiphon.engines.connection import Connect
from antiphon.engines.engine import Embeddings, EngineEnd, PlacedImage, Ranking, Sampling, Step
from antiphon.engines.http import SHORT, HttpClient, check_context, failed
from antiphon.errors import (
    AntiphonError,
    ContextError,
    EngineError,
    EngineLostError,
    Position,
    RequestError,
    UnsupportedError,
)
from antiphon.structs import ready

from .scoring import Forced, Scorer, Send, reported
from .wire import MAX_LOGPROBS, ChoiceReader, Event, EventReader, Failure, Fragments, Json, Probability, completion_body

_UNKNOWN = -1
"""The slot of a reply that the server has not named yet."""
SIDE_CALLS = 4
"""Short calls at once."""
_TOO_LARGE = re.compile(r"input \((\d+) tokens\) is too large to process.*batch size: (\d+)")
"""Answer of a server (with a 500) to an input that must be evaluated whole and is longer than its batch."""


class ServedModel(msgspec.Struct, frozen=True):
    """Facts that a server reports of itself. ``context``: tokens for one sequence; ``ends``: its own list of ends.

    ``image_mark`` stands in a prompt's text where an image is; empty of a model that sees none.
    """

    context: int
    slots: int
    vocabulary: int
    ends: frozenset[int]
    image_mark: str = ""


@dataclass(slots=True, eq=False)
class Seat:
    """A place for one reply to be made. ``slot`` None: the server's choice; ``reuse``: what a slot holds may be gone on
    with. ``placed`` takes the slot that it got; ``made`` collects the ids that the slot holds after the prompt."""

    slot: int | None = None
    reuse: bool = True
    placed: Callable[[int], None] = lambda slot: None
    made: list[int] = field(default_factory=list)


class LlamaClient:
    """One server. ``streams`` connections generate at once; more wait here, where leaving costs the server nothing."""

    def __init__(
        self,
        url: str,
        *,
        streams: int,
        connect: Connect | None = None,
        key: str | None = None,
        fragments: Fragments,
    ) -> None:
        """``streams`` replies at once, and connections of their own for short calls, which never wait behind them."""
        # A connection serves one request: an idle one would hold one of the server's threads.
        self._streams = HttpClient(url, streams=streams, key=key, connect=connect, rests=False)
        self._calls = HttpClient(url, streams=SIDE_CALLS, key=key, connect=connect, rests=False, limit=SHORT)
        self._fragments = fragments

    async def model(self, *, embeddings: bool = False) -> ServedModel:
        """Asks the server for its facts. Its list of ends is known only by what `ignore_eos` bans."""
        props = await self._json("GET", "/props")
        models = await self._json("GET", "/v1/models")
        slots = _number(props, "total_slots")
        context = _number(props, "default_generation_settings", "n_ctx")
        vocabulary = _number(models, "data", 0, "meta", "n_vocab")
        if embeddings:
            return ServedModel(context, slots, vocabulary, frozenset())
        probe: Json = {"prompt": [0], "n_predict": 1, "ignore_eos": True, "cache_prompt": False}
        probe["response_fields"] = ["generation_settings"]
        answer = await self._json("POST", "/completion", probe)
        banned = _at(answer, "generation_settings", "logit_bias")
        ends = frozenset(_number(ban, "token") for ban in banned) if isinstance(banned, list) else frozenset()
        sees = msgspec.convert(props, ready(_Props))
        return ServedModel(context, slots, vocabulary, ends, sees.media_marker if sees.modalities.vision else "")

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        model: ServedModel,
        *,
        n: int,
        grammar: str | None,
        seat: Seat | None = None,
        images: Sequence[PlacedImage] = (),
    ) -> AsyncGenerator[Step, None]:
        """The steps. The seat's ``placed`` is called when the reply begins, with -1, and with the slot that it got."""
        check(prompt, sampling, model, n=n, grammar=grammar)
        if sampling.max_tokens == 0:  # The server would make one id.
            for choice in range(n):
                yield Step((), choice, end=EngineEnd.LENGTH_OUTPUT)
            return
        placed_there = seat is not None and seat.slot is None and n == 1
        seat = seat or Seat()
        body = completion_body(
            prompt, sampling, n=n, grammar=grammar, context=model.context, slot=seat.slot, reuse=seat.reuse
        )
        if images:
            body["prompt"] = await self._pictured(prompt, images, model.image_mark)
        choices = [ChoiceReader(i, sampling, model.ends, self._fragments) for i in range(n)]
        async with self._streams.open_reply("POST", "/completion", body, refuse) as reply:
            known = None
            try:
                async for event in _events(reply):
                    if event.id_slot is not None and event.id_slot != known:
                        known = event.id_slot
                        seat.placed(known)
                    step = choices[event.index].read(event)
                    if step is not None:
                        yield step
                    if all(choice.ended for choice in choices):
                        return
            finally:
                if placed_there and known == _UNKNOWN:
                    seat.placed(await self._slot_of(prompt))
        raise EngineLostError("the engine ended its stream in the middle of a reply")

    async def _slot_of(self, prompt: Sequence[int]) -> int:
        """The slot that makes the reply to a prompt, -1 where that is not certain.

        The server names it with the end of a reply, which one that is given up does not have.
        """
        with suppress(AntiphonError):
            slots = msgspec.convert(await self._json("GET", "/slots"), ready(list[_Slot]))
            found = [slot.id for slot in slots if slot.is_processing and abs(slot.prompt - len(prompt)) <= 1]
            return found[0] if len(found) == 1 else _UNKNOWN
        return _UNKNOWN

    async def _pictured(self, prompt: Sequence[int], images: Sequence[PlacedImage], mark: str) -> Json:
        """The prompt as the server takes images: a text with marks, in which it finds controls by itself.

        Raises `UnsupportedError` for one of which the server would make other ids.
        """
        edges = [0, *(edge for image in images for edge in (image.start, image.stop)), len(prompt)]
        spans = zip(edges[::2], edges[1::2], strict=True)
        texts = [await self._spelled(prompt[start:stop], mark, first=start == 0) for start, stop in spans]
        return {
            "prompt_string": mark.join(texts),
            "multimodal_data": [b64encode(image.data).decode() for image in images],
        }

    async def _spelled(self, ids: Sequence[int], mark: str, *, first: bool) -> str:
        """The text that the server reads as these ids. Before the ``first`` it writes what its prompts begin with."""
        for given in [ids, ids[1:]] if first and ids else [ids]:
            spelled = await self._json("POST", "/detokenize", {"tokens": list(given)})
            text = msgspec.convert(_at(spelled, "content"), str)
            body: Json = {"content": text, "add_special": first, "parse_special": True}
            if _at(await self._json("POST", "/tokenize", body), "tokens") == list(ids) and mark not in text:
                return text
        raise UnsupportedError(
            "this engine reads a prompt with images as text, and would read this one otherwise than it is",
            position=Position(path="messages"),
            hint="Leave out what spells a control of the model, or send it without images.",
        )

    async def prompt_tokens(self, prompt: Sequence[int], images: Sequence[PlacedImage]) -> int:
        """The ids of the prompt, with those that the server makes of each image in place of its mark.

        Raises `EngineError` and `RequestError` where it counts none: it is an older one.
        """
        counts = [await self._counted(""), *[await self._counted(image) for image in images]]
        marks = sum(image.stop - image.start for image in images)
        return len(prompt) - marks + sum(counts[1:]) - len(images) * counts[0]

    async def _counted(self, content: str | PlacedImage) -> int:
        """The tokens of a chat of the server's own that says this alone."""
        if isinstance(content, PlacedImage):
            url = f"data:image/png;base64,{b64encode(content.data).decode()}"
            parts: object = [{"type": "image_url", "image_url": {"url": url}}]
        else:
            parts = content
        body: Json = {"messages": [{"role": "user", "content": parts}]}
        return _number(await self._json("POST", "/v1/chat/completions/input_tokens", body), "input_tokens")

    async def forced(self, forced: Forced, model: ServedModel, seat: Seat) -> dict[int, Probability]:
        """Makes the server sample just these ids, and gives its reports by their places. Errors as for `generate`."""
        sampling = Sampling(max_tokens=len(forced.ids), temperature=0.0, logprobs=forced.most)
        body = completion_body(
            forced.prompt,
            sampling,
            n=1,
            grammar=forced.grammar,
            context=model.context,
            slot=seat.slot,
            reuse=seat.reuse,
        )
        body["post_sampling_probs"] = False  # What the grammar leaves is certain.
        found: list[Event] = []
        async with self._streams.open_reply("POST", "/completion", body, refuse) as reply:
            async for event in _events(reply):
                seat.placed(_UNKNOWN if event.id_slot is None else event.id_slot)
                found.append(event)
        if not any(event.stop for event in found):
            raise EngineLostError("the engine ended its stream in the middle of a reply")
        return reported(found)

    def scorer(self, send: Send, model: ServedModel) -> Scorer:
        """Scores prompts by what ``send`` makes of `forced`."""
        return Scorer(
            send=send,
            encode=self.tokenize,
            fragment=self._fragments.piece,
            ends=model.ends,
            vocabulary=model.vocabulary,
        )

    async def embed(self, inputs: Sequence[Sequence[int]], model: ServedModel) -> Embeddings:
        """One vector of length 1 for each input."""
        for input in inputs:
            check_context(input, model.context, room=0)
        if not inputs:
            return Embeddings((), 0)
        body: Json = {"input": [list(input) for input in inputs], "encoding_format": "float"}
        async with self._streams.open_reply("POST", "/v1/embeddings", body, refuse) as reply:
            answer: object = msgspec.json.decode(await reply.read())
        rows = msgspec.convert(_at(answer, "data"), ready(list[_Vector]))
        vectors = tuple(row.embedding for row in sorted(rows, key=lambda row: row.index))
        return Embeddings(vectors, sum(map(len, inputs)))

    async def rank(self, query: str, documents: Sequence[str]) -> Ranking:
        """The sigmoid of the model's logit for each document. The server finds no control in a text."""
        if not documents:
            return Ranking((), 0)
        body: Json = {"query": query, "documents": list(documents)}
        async with self._streams.open_reply("POST", "/v1/rerank", body, refuse) as reply:
            answer: object = msgspec.json.decode(await reply.read())
        rows = sorted(msgspec.convert(_at(answer, "results"), ready(list[_Ranked])), key=lambda row: row.index)
        logits = [row.relevance_score for row in rows if row.relevance_score is not None]
        if [row.index for row in rows] != list(range(len(documents))) or len(logits) < len(rows):
            raise EngineError("the engine has not scored each document")
        return Ranking(tuple(map(sigmoid, logits)), _number(answer, "usage", "prompt_tokens"))

    async def tokenize(self, text: str) -> list[int]:
        """Ids of ordinary text by the model's own vocabulary: control spellings in it stay text, nothing is added."""
        body: Json = {"content": text, "add_special": False, "parse_special": False}
        return msgspec.convert(_at(await self._json("POST", "/tokenize", body), "tokens"), list[int])

    async def busy_slots(self) -> int:
        """How many slots work at this moment."""
        slots = msgspec.convert(await self._json("GET", "/slots"), list[dict[str, object]])
        return sum(bool(slot.get("is_processing")) for slot in slots)

    async def aclose(self) -> None:
        await self._streams.aclose()
        await self._calls.aclose()

    async def _json(self, method: str, path: str, body: Json | None = None) -> object:
        async with self._calls.open_reply(method, path, body, refuse) as reply:
            found: object = msgspec.json.decode(await reply.read())
            return found


async def _events(reply: AsyncIterable[bytes]) -> AsyncIterator[Event]:
    """Yields what the server tells. Raises the error that it tells of."""
    reader = EventReader()
    async for data in reply:
        for event in reader.feed(data):
            if event.error is not None:
                raise refusal(event.error)
            yield event


def check(prompt: Sequence[int], sampling: Sampling, model: ServedModel, *, n: int, grammar: str | None) -> None:
    """Refuses what the server would take in silence, or answer in words of its own."""
    check_context(prompt, model.context)
    if not 1 <= n <= model.slots:
        hint = f"It has {model.slots} slots, and all choices run at once."
        raise UnsupportedError(f"this engine cannot make {n} choices", position=Position(path="n"), hint=hint)
    if (sampling.logprobs or 0) > MAX_LOGPROBS:
        raise UnsupportedError(f"at most {MAX_LOGPROBS} alternatives", position=Position(path="top_logprobs"))
    for where, ids in (("logit_bias", sampling.logit_bias), ("prompt", prompt)):
        unknown = next((id for id in ids if not 0 <= id < model.vocabulary), None)
        if unknown is not None:
            raise RequestError(f"the model has no token {unknown}", position=Position(path=where))
    if grammar is not None and sampling.ignore_eos:
        hint = "A grammar says itself where a reply ends."
        raise UnsupportedError("ignore_eos together with a grammar", position=Position(path="ignore_eos"), hint=hint)


def refusal(failure: Failure) -> Exception:
    """The server's error as an `AntiphonError`."""
    if failure.type == "exceed_context_size_error" and failure.n_ctx is not None:
        return ContextError(
            f"the prompt has {failure.n_prompt_tokens} tokens and the context holds {failure.n_ctx}"
        )  # fmt: skip
    if too_large := _TOO_LARGE.search(failure.message):
        return ContextError(f"the input has {too_large[1]} tokens and the engine reads {too_large[2]} at once")
    return failed(failure.code, failure.message)


class _Decoded(msgspec.Struct):
    n_decoded: int = 0


class _Slot(msgspec.Struct):
    id: int
    is_processing: bool = False
    n_prompt_tokens: int = 0
    next_token: list[_Decoded] = msgspec.field(default_factory=list)

    @property
    def prompt(self) -> int:
        """The tokens of its prompt; one that was just decoded may be counted or not."""
        return self.n_prompt_tokens - sum(one.n_decoded for one in self.next_token)


class _Modalities(msgspec.Struct):
    vision: bool = False


class _Props(msgspec.Struct):
    modalities: _Modalities = msgspec.field(default_factory=_Modalities)
    media_marker: str = ""


class _Vector(msgspec.Struct):
    index: int
    embedding: tuple[float, ...]


class _Ranked(msgspec.Struct):
    index: int
    relevance_score: float | None


def sigmoid(logit: float) -> float:
    """From 0 to 1; of any logit, however far out."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    return math.exp(logit) / (1 + math.exp(logit))


class _ErrorBody(msgspec.Struct):
    error: Failure


def refuse(status: int, body: bytes) -> Exception:
    """An answer that is not 200, as one of our errors."""
    try:
        failure = msgspec.json.decode(body, type=ready(_ErrorBody)).error
    except msgspec.MsgspecError:
        failure = Failure(message=body[:200].decode("utf-8", "replace"))
    failure.code = status
    return refusal(failure)


def _at(value: object, *path: str | int) -> object:
    """The value at ``path`` in decoded JSON; EngineError when it is not there."""
    for key in path:
        match value, key:
            case Mapping(), str() if key in value:
                value = value[key]
            case list(), int() if key < len(value):
                value = value[key]
            case _:
                raise EngineError(f"the engine's answer has no {'.'.join(map(str, path))}")
    return value


def _number(value: object, *path: str | int) -> int:
    return msgspec.convert(_at(value, *path), int)
