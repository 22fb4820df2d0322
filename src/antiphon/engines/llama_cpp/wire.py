"""The wire of llama.cpp's server (`POST /completion`): a request's body, and its events read as steps.

What the server does by itself and must not: a default for every sampler (so each is named here), seeds of 32 bits in
which all ones mean "random", one id for `n_predict` 0, no stop ids but its own list of ends, and events only at whole
characters (so the ids of a split character come as one event that names the last of them; `Fragments` finds the rest).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.engines.engine import EngineEnd, Sampling, Step
from antiphon.engines.http import EventLines
from antiphon.structs import ready
from antiphon.tokens import Tokenizer

# Ids whose bytes are not whole characters, and how to find those that an engine did not report.
#
# llama.cpp's server holds an id back while the text so far ends inside a character, and never sends it: the event that
# completes the character names only its last id, all the bytes, and (by a counter) how many ids they took.

Pieces = Iterable[tuple[int, bytes]]


class Fragments:
    """The parts of a vocabulary that are not whole characters. ``Fragments(())`` knows none and fills nothing."""

    def __init__(self, pieces: Pieces) -> None:
        """``pieces`` are (id, bytes) of all ordinary ids, or of any part of them that has the fragments and bytes."""
        self._ids: dict[bytes, int] = {}
        self._bytes: dict[int, bytes] = {}
        for id, data in pieces:
            if len(data) == 1 or not is_whole(data):
                self._ids.setdefault(data, id)
                self._bytes[id] = data

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Fragments:
        """Collects the fragments of a vocabulary, which takes a moment (a tenth of a second for 50,000 ids)."""
        pieces = ((id, tokenizer.piece(id)) for id in range(tokenizer.size))
        return cls((id, piece) for id, piece in pieces if isinstance(piece, bytes))

    def piece(self, id: int) -> bytes:
        """The bytes of a fragment; b"" for any other id."""
        return self._bytes.get(id, b"")

    def fill(self, text: bytes, tail: tuple[int, ...], missing: int) -> tuple[int, ...]:
        """The ids that spell ``text``, given its last ids and that ``missing`` ids before them are missing.

        Each missing id ended inside a character, which leaves one answer in all but odd cases (the longest pieces
        first then). Where nothing fits, as in text that was never UTF-8, the bytes are spelled one by one: the text
        is then right, and the ids are not those sampled. An unknown vocabulary gives ``tail``.
        """
        end = b"".join(map(self.piece, tail))
        if end and text.endswith(end):
            head = next(self._split(text, 0, len(text) - len(end), missing), None)
            if head is not None:
                return (*head, *tail)
        spelled = [self._ids.get(bytes((byte,))) for byte in text]
        whole = tuple(id for id in spelled if id is not None)
        return whole if len(whole) == len(text) > 0 else tail

    def _split(self, text: bytes, start: int, stop: int, count: int) -> Iterator[tuple[int, ...]]:
        """The ways to spell ``text[start:stop]`` with ``count`` fragments that each end inside a character."""
        if count == 0:
            if start == stop:
                yield ()
            return
        for cut in range(stop - (count - 1), start, -1):
            id = self._ids.get(text[start:cut])
            if id is None or is_whole(text[:cut]):
                continue
            for rest in self._split(text, cut, stop, count - 1):
                yield (id, *rest)


def is_whole(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


MAX_LOGPROBS = 20
UNKNOWN_LOGPROB = -9999.0
"""For an id that the server did not report: the first parts of a character split over several ids."""

_SEEDS = 2**32 - 2**16
"""Seeds are taken modulo this: below the server's "random" (all ones), with room for the number of the choice."""

Json = dict[str, object]


def completion_body(
    prompt: Sequence[int],
    sampling: Sampling,
    *,
    n: int,
    grammar: str | None,
    context: int,
    slot: int | None = None,
    reuse: bool = True,
) -> Json:
    """The body of one streamed request. It states everything that the server would choose itself."""
    body: Json = {
        "prompt": list(prompt),
        "n_predict": sampling.max_tokens,
        "n": n,
        "stream": True,
        "return_tokens": True,
        "return_progress": True,  # The only early word about cached ids.
        "cache_prompt": reuse,
        "response_fields": ["index", "id_slot", "stop", "stop_type", "truncated", "tokens_predicted"],
        "ignore_eos": sampling.ignore_eos,
    }
    body |= samplers(sampling, context)
    if sampling.seed is not None:
        body["seed"] = sampling.seed % _SEEDS
    if sampling.logit_bias:
        # A ban is `false` there; JSON has no word for minus infinity.
        body["logit_bias"] = [[id, False if bias == -math.inf else bias] for id, bias in sampling.logit_bias.items()]
    if sampling.logprobs is not None:
        body["n_probs"] = max(1, sampling.logprobs)
        body["post_sampling_probs"] = grammar is not None  # Else they speak of ids that the grammar forbids.
    elif sampling.confidence:
        body["n_probs"] = 1
    if grammar is not None:
        body["grammar"] = grammar
    if slot is not None:
        body["id_slot"] = slot
    return body


def samplers(sampling: Sampling, context: int) -> Json:
    """The chain in the order in which other engines sample: penalties, temperature, min_p, top_k, top_p."""
    greedy = sampling.temperature == 0 or sampling.top_k == 1
    penalised = (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) != (0, 0, 1)
    chain = ["penalties"] if penalised else []
    chain += ["top_k"] if greedy else ["temperature", "min_p", "top_k", "top_p"]
    return {
        "samplers": chain,
        "temperature": 1.0 if greedy else sampling.temperature,
        "top_k": 1 if greedy else sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        # The window is allocated, so it is no larger than what it can hold.
        "repeat_last_n": context if penalised else 0,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repeat_penalty": sampling.repetition_penalty,
        "dry_multiplier": 0.0,
        "xtc_probability": 0.0,
        "typical_p": 1.0,
        "mirostat": 0,
    }


class Probability(msgspec.Struct):
    """One id with its probability: `logprob` before sampling, or `prob` after it."""

    id: int
    data: list[int] = msgspec.field(name="bytes", default_factory=list)
    logprob: float | None = None
    prob: float | None = None
    top_logprobs: list[Probability] = []
    top_probs: list[Probability] = []

    def read(self, data: bytes | None = None) -> TokenLogprob:
        others = self.top_logprobs or [other for other in self.top_probs if other.prob]
        top = tuple(other.read() for other in others)
        logprob = self.logprob
        if logprob is None:
            logprob = math.log(self.prob) if self.prob else UNKNOWN_LOGPROB
        return TokenLogprob(self.id, bytes(self.data) if data is None else data, min(logprob, 0.0), top)


class Progress(msgspec.Struct):
    cache: int = 0
    total: int | None = None


class Failure(msgspec.Struct):
    """An error body. The two counts come with `exceed_context_size_error`."""

    code: int = 500
    message: str = "unknown error"
    type: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class Event(msgspec.Struct):
    """One event of a streamed completion, without what nobody here reads."""

    index: int = 0
    id_slot: int | None = None
    content: str = ""
    tokens: list[int] = []
    stop: bool = False
    stop_type: str = ""
    truncated: bool = False
    tokens_predicted: int = 0
    prompt_progress: Progress | None = None
    completion_probabilities: list[Probability] = []
    error: Failure | None = None


class EventReader:
    """Bytes of the stream → events; cut anywhere."""

    def __init__(self) -> None:
        self._lines = EventLines()
        self._decoder = msgspec.json.Decoder(ready(Event))

    def feed(self, data: bytes) -> list[Event]:
        return [self._event(field, value) for field, value in self._lines.feed(data) if value.startswith(b"{")]

    def _event(self, field: bytes, value: bytes) -> Event:
        if field == b"error":
            return Event(error=msgspec.json.decode(value, type=ready(Failure)))
        return self._decoder.decode(value)


class ChoiceReader:
    """The events of one choice → steps. ``ended`` once a step with an end was given; what follows is dropped."""

    def __init__(self, choice: int, sampling: Sampling, ends: frozenset[int], fragments: Fragments) -> None:
        self._choice = choice
        self._sampling = sampling
        # The server ends by itself at its own ends; only the others are recognised here.
        self._stops = sampling.stop_ids - ends
        self._ends = ends
        self._fragments = fragments
        self._seen = 0
        self._cached: int | None = None
        self._prompt: int | None = None
        self._closing: tuple[int, ...] = ()
        self._closing_logprobs: tuple[TokenLogprob, ...] = ()
        self.ended = False

    def read(self, event: Event) -> Step | None:
        if self.ended:
            return None
        if event.prompt_progress is not None:  # Its `tokens` is [0], which nobody sampled.
            self._cached, self._prompt = event.prompt_progress.cache, event.prompt_progress.total
            return None
        return self._last(event) if event.stop else self._sampled(event)

    def _sampled(self, event: Event) -> Step | None:
        missing = event.tokens_predicted - self._seen - len(event.tokens)
        self._seen = event.tokens_predicted
        ids = tuple(event.tokens)
        if missing > 0:
            ids = self._fragments.fill(event.content.encode("utf-8", "replace"), ids, missing)
        stop = next((i for i, id in enumerate(ids) if id in self._stops), None)
        if stop is not None:
            ids = ids[: stop + 1]
            self.ended = True
        logprobs = self._logprobs(ids, event)
        if stop is None and ids and ids[-1] in self._ends:
            # The server's own end: its last event is on its way, and it alone names the slot.
            self._closing, self._closing_logprobs = ids, logprobs
            return None
        end = EngineEnd.STOP if stop is not None else None
        cached, prompt, self._cached, self._prompt = self._cached, self._prompt, None, None
        return Step(ids, self._choice, logprobs, end=end, cached_tokens=cached, prompt_tokens=prompt)

    def _last(self, event: Event) -> Step:
        self.ended = True
        cached, prompt, self._cached, self._prompt = self._cached, self._prompt, None, None
        ids, logprobs, end = self._closing, self._closing_logprobs, EngineEnd.STOP
        if event.stop_type == "limit":
            end = EngineEnd.LENGTH_CONTEXT if event.truncated else EngineEnd.LENGTH_OUTPUT
        elif event.tokens_predicted > self._seen and self._ends:
            # An end straight after half a character is not reported: it was the last id of the reply all the same.
            last = (min(self._ends),)
            ids, logprobs = ids + last, logprobs + self._logprobs(last, event)
        return Step(ids, self._choice, logprobs, end=end, cached_tokens=cached, prompt_tokens=prompt)

    def _logprobs(self, ids: Sequence[int], event: Event) -> tuple[TokenLogprob, ...]:
        """One for each id. Of a split character the server reports its last id, with the bytes of all."""
        if self._sampling.logprobs is None and not self._sampling.confidence:
            return ()
        known = {p.id: p for p in event.completion_probabilities}
        whole = len(ids) == 1
        return tuple(self._logprob(id, known.get(id), whole) for id in ids)

    def _logprob(self, id: int, known: Probability | None, whole: bool) -> TokenLogprob:
        if known is None:
            return TokenLogprob(id, self._fragments.piece(id), UNKNOWN_LOGPROB)
        found = known.read(None if whole else self._fragments.piece(id))
        return found if self._sampling.logprobs else TokenLogprob(found.id, found.data, found.logprob)
