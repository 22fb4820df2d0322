"""POST /inference/v1/generate: ids in, ids out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from antiphon.api.chat.request import reading_of
from antiphon.api.chat.write import completion_usage
from antiphon.api.completions.read import read_completion
from antiphon.api.completions.schema import CompletionRequest
from antiphon.conversation import Event, FinishReason, TextDelta, TokenLogprob, TurnEnded, Usage
from antiphon.errors import Position, RequestError
from antiphon.generation import Draft, StepEvents, merge_usage, plan_turn
from antiphon.http.post import Post, PostRoute
from antiphon.tokens import Control
from antiphon.wire.errors import refused
from antiphon.wire.json import decode, encode
from antiphon.wire.prompt_notes import NO_LOGPROB, finite, prompt_logprobs
from antiphon.wire.sampling import check_stream_options
from antiphon.wire.writer import DONE, JSON, StreamForm, event

from .schema import Generated, GeneratedChoice, GenerateRequest, IdLogprob, IdLogprobs, SampledLogprob

PLACE = "sampling_params"
_HARMLESS = frozenset(
    {
        "detokenize", "skip_special_tokens", "spaces_between_special_tokens", "output_kind", "skip_clone",
        "stream_interval", "flat_logprobs", "output_text_buffer_length", "routed_experts_prompt_start",
    }
)  # fmt: skip
"""Fields of `sampling_params` that change no ids."""
_IMPOSSIBLE = (
    "prompt_logprob_token_ids", "prompt_logprob_start", "logprob_token_ids", "include_stop_str_in_output",
    "extra_args", "skip_reading_prefix_cache", "repetition_detection", "trace_decode_token_ids", "watermarking",
)  # fmt: skip
"""Fields that no engine here is told."""


_OTHERS = {"prompt", "model", "stream", "stream_options", "echo", "suffix", "use_raw_prompt", "best_of", "cache_salt"}
"""Fields of completions that are no sampling parameters."""


class Generate(PostRoute):
    """Samples behind the ids of a prompt, which are it as they stand."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(GenerateRequest)
        post.exchange.stream = bool(wire.stream)
        _check_possible(wire)
        model, began, reading = await post.model(wire.model), post.created_at, reading_of(post, bool(wire.stream))
        with _at_their_place(wire.sampling_params):
            requested = await post.off_loop(
                lambda: read_completion(completion_of(wire), model, reading, reveals=post.may_see_reasoning)
            )
            own_words = partial(reworded, wire.sampling_params)
            turn = replace(requested.turns[0], logprobs=wire.sampling_params.get("logprobs"), reword=own_words)
            draft = await post.off_loop(lambda: plan_turn(model, turn))
        id = wire.request_id or f"generate-tokens-{post.exchange.id}"
        await post.answer([draft], GenerateWriter(wire, draft, id, int(began), post.form))


def _check_possible(wire: GenerateRequest) -> None:
    """Refuses by name what no engine here can honour."""
    check_stream_options(wire.stream_options, stream=bool(wire.stream))
    if not wire.token_ids:
        raise refused("token_ids", "there are none.")
    for name in ("features", "content_parts", "kv_transfer_params", "ec_transfer_params"):
        if getattr(wire, name):
            raise refused(name, "the engines here read ids alone.", code="unsupported_parameter")
    if clash := sorted(wire.sampling_params.keys() & _OTHERS):
        raise refused(f"{PLACE}.{clash[0]}", "it is no sampling parameter.", code="unknown_parameter")
    for name in _IMPOSSIBLE:
        if wire.sampling_params.get(name):
            raise refused(f"{PLACE}.{name}", "it cannot be honoured.", code="unsupported_parameter")
    logprobs = wire.sampling_params.get("logprobs")
    if logprobs is not None and not (type(logprobs) is int and logprobs >= 0):
        raise refused(f"{PLACE}.logprobs", "must be a number of alternatives.", code="invalid_type")


def completion_of(wire: GenerateRequest) -> CompletionRequest:
    """The raw completion that samples the same, which has the same fields by the same names. Raises `RequestError`."""
    given = {name: value for name, value in wire.sampling_params.items() if name not in {*_HARMLESS, "logprobs"}}
    body: dict[str, Any] = {
        **given,
        "prompt": wire.token_ids,
        "stream": bool(wire.stream),
        "use_raw_prompt": "force",
        "return_token_ids": True,
        "cache_salt": wire.cache_salt,
    }
    completion, names = decode(encode(body), CompletionRequest)
    if names.ignored:
        raise refused(names.ignored[0], "it is no sampling parameter that is known here.", code="unknown_parameter")
    return completion


_OURS = {
    "prompt": "token_ids",
    "top_logprobs": f"{PLACE}.logprobs",
    "response_format": f"{PLACE}.structured_outputs",
}
"""Fields of a completion that have another name here."""


@contextmanager
def _at_their_place(params: dict[str, Any]) -> Iterator[None]:
    """Errors of the completion's fields are at those of the request of ids."""
    try:
        yield
    except RequestError as error:
        reworded(params, error)
        raise


def reworded(params: dict[str, Any], error: RequestError) -> None:
    """Puts an error of a completion at its place in the request of ids that has these sampling parameters."""
    theirs = error.position.path if error.position and error.position.path else ""
    first = theirs.partition(".")[0].partition("[")[0]
    ours = f"{PLACE}.{theirs}" if first in params else theirs
    known = {
        "prompt": "token_ids",
        "top_logprobs": f"{PLACE}.logprobs",
        "response_format": f"{PLACE}.structured_outputs",
    }
    ours = known.get(first, ours)
    if theirs:
        error.message = f"{ours}{error.message[len(theirs) :]}" if error.message.startswith(theirs) else error.message
        error.args, error.position = (error.message,), Position(path=ours)


class _Choice:
    """One choice on its way: ids, and the log probabilities of those that are text, which come with the text."""

    def __init__(self) -> None:
        self.ids: deque[int] = deque()
        self.logprobs: deque[TokenLogprob] = deque()
        self.text: list[str] = []
        self.ended: TurnEnded | None = None


class GenerateWriter:
    """The `Writer` of requests of ids."""

    media_type = JSON

    def __init__(self, wire: GenerateRequest, draft: Draft, id: str, created: int, form: StreamForm) -> None:
        self.form = form
        self._wire, self._draft, self._id, self._created = wire, draft, id, created
        request = draft.request
        self._choices = [_Choice() for _ in range(request.n)]
        self._tokens = [0] * request.n
        self._most = request.logprobs
        self._opened = False
        self._scored: Any = None

    def change(self, step: StepEvents[Event]) -> bytes:
        self._take(step)
        choice = self._written(step.choice)
        if not (choice.token_ids or choice.finish_reason or (isinstance(choice.text, str) and choice.text)):
            return b""
        options, usage = self._wire.stream_options, None
        if options and options.continuous_usage_stats:
            usage = completion_usage(Usage(len(self._draft.prompt_ids), self._tokens[step.choice]))
        prompt = list(self._draft.prompt_ids) if self._wire.return_token_ids and not self._opened else msgspec.UNSET
        self._opened = True
        chunk = Generated(request_id=self._id, output_mode=self._wire.output_mode, choices=[choice], usage=usage)
        chunk.prompt_token_ids = prompt
        return event(encode(chunk))

    def end(self) -> bytes:
        if not (self._wire.stream_options and self._wire.stream_options.include_usage):
            return DONE
        last = Generated(request_id=self._id, output_mode=self._wire.output_mode, choices=[], usage=self._usage())
        return event(encode(last)) + DONE

    def add(self, step: StepEvents[Event]) -> None:
        self._take(step)

    def whole(self) -> bytes:
        return encode(
            Generated(
                request_id=self._id,
                output_mode=self._wire.output_mode,
                choices=[self._written(index) for index in range(len(self._choices))],
                model=self._draft.model.name,
                created=self._created,
                usage=self._usage(),
                prompt_logprobs=self._scored,
                prompt_token_ids=list(self._draft.prompt_ids) if self._wire.return_token_ids else None,
            )
        )

    def _usage(self) -> Any:
        return completion_usage(merge_usage([one.ended.usage for one in self._choices if one.ended is not None]))

    def _take(self, step: StepEvents[Event]) -> None:
        choice = self._choices[step.choice]
        choice.ids += step.ids
        self._tokens[step.choice] = step.completion_tokens
        if step.prompt is not None:
            self._scored = prompt_logprobs(step.prompt, self._draft.request.prompt_logprobs or 0)
        for happened in step.events:
            if isinstance(happened, TextDelta):
                choice.text.append(happened.text)
                choice.logprobs += happened.logprobs
            elif isinstance(happened, TurnEnded):
                choice.ended = happened

    def _written(self, index: int) -> GeneratedChoice:
        """Writes what of a choice is whole: its ids up to the first whose log probability has still to come."""
        choice = self._choices[index]
        scored = list(self._scored_ids(choice)) if self._most is not None else None
        ids = [one.id for one in scored] if scored is not None else list(choice.ids)
        if scored is None:
            choice.ids.clear()
        text, choice.text = "".join(choice.text), []
        ended = choice.ended
        stop = ended.matched if ended is not None and ended.matched in self._draft.request.stop else None
        return GeneratedChoice(
            index=index,
            finish_reason=None if ended is None else _word(ended.reason),
            stop_reason=stop,
            token_ids=ids,
            logprobs=None if scored is None else IdLogprobs([self._sampled(one) for one in scored]),
            text=text if self._wire.output_mode == "text" else msgspec.UNSET,
        )

    def _scored_ids(self, choice: _Choice) -> Iterator[TokenLogprob]:
        """Takes ids with their log probabilities; a control has none that is reported."""
        while choice.ids:
            id = choice.ids[0]
            piece = self._draft.model.tokenizer.piece(id)
            if choice.logprobs and choice.logprobs[0].id == id:
                yield choice.logprobs.popleft()
            elif choice.ended is not None or isinstance(piece, Control):
                yield TokenLogprob(id, piece.spelling.encode() if isinstance(piece, Control) else piece, NO_LOGPROB)
            else:
                return
            choice.ids.popleft()

    def _sampled(self, one: TokenLogprob) -> SampledLogprob:
        """The token first and then the others, as many as were requested together, and one at least."""
        others = [other for other in one.top if other.id != one.id]
        top = [one, *others][: max(1, self._most or 0)]
        return SampledLogprob(**self._entry(one), top_logprobs=[IdLogprob(**self._entry(each)) for each in top])

    def _entry(self, one: TokenLogprob) -> dict[str, Any]:
        if self._wire.output_mode == "tokens":
            return {"token_id": one.id, "logprob": finite(one.logprob)}
        text = one.data.decode("utf-8", "replace")
        return {"token": text, "logprob": finite(one.logprob), "bytes": list(one.data)}


def _word(reason: FinishReason) -> str:
    return "length" if reason in (FinishReason.LENGTH_OUTPUT, FinishReason.LENGTH_CONTEXT) else "stop"
