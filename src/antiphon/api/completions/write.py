"""Events → what a completion client reads. A stream sends the parts one by one, a whole answer joins them."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from msgspec.structs import replace

from antiphon.api.chat.schema import CompletionUsage
from antiphon.api.chat.write import completion_usage
from antiphon.conversation import Event, FinishReason, TokenLogprob, TurnEnded, Usage
from antiphon.generation import StepEvents, merge_usage
from antiphon.wire.dialect import Dialect
from antiphon.wire.json import encode
from antiphon.wire.projection import Finished, Projection, VisibleText
from antiphon.wire.prompt_notes import PromptLogprobs, finite, prompt_logprobs
from antiphon.wire.writer import DONE, JSON, StreamForm, event

from .read import RequestedCompletion
from .schema import Completion, CompletionChoice, CompletionLogprobs, InfillAnswer, InfillEvent

PromptScores = Sequence[TokenLogprob | None] | None
_utf8 = getincrementaldecoder("utf-8")


class Part(msgspec.Struct, frozen=True):
    """More of one choice's text; the last part has ``finished``, and that of an echoed prompt its ``scored`` tokens."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()
    finished: Finished | None = None
    scored: tuple[TokenLogprob | None, ...] = ()


class ChoiceText:
    """One choice: its prompt where that is echoed, the model's text for users, the suffix (resolution D-14)."""

    def __init__(self, *, echo: str = "", suffix: str = "") -> None:
        self._projection = Projection()
        self._echo = echo
        self._suffix = suffix

    def feed(self, event: Event, scored: PromptScores = None) -> list[Part]:
        """Returns the parts of ``event``, the first with the ``scored`` prompt; reasoning and calls are no text."""
        echo, self._echo = self._echo, ""
        begun = [Part(echo, scored=tuple(scored or ()))] if echo else []
        match self._projection.feed(event):
            case VisibleText(text, logprobs):
                return [*begun, Part(text, logprobs)]
            case Finished() as finished:
                suffix = [Part(self._suffix)] if self._suffix else []
                return [*begun, *suffix, Part("", finished=finished)]
            case _:
                return begun


class LogprobWriter:
    """The log probabilities of one choice, whose tokens are counted through its parts.

    ``first`` is the first token of its prompt, which has none.
    """

    def __init__(self, alternatives: int, first: bytes = b"") -> None:
        self._alternatives = alternatives
        self._first = first
        self._decoder = _utf8("replace")
        self._at = 0

    def write(self, logprobs: Iterable[TokenLogprob | None]) -> CompletionLogprobs:
        """The token itself is always among its alternatives, as OpenAI has it."""
        tokens = list(logprobs)
        data = [self._first if one is None else one.data for one in tokens]
        return CompletionLogprobs(
            tokens=[token_text(each) for each in data],
            token_logprobs=[None if one is None else finite(one.logprob) for one in tokens],
            top_logprobs=[None if one is None else self._top(one) for one in tokens],
            text_offset=[self._offset(each) for each in data],
        )

    def _top(self, one: TokenLogprob) -> dict[str, float]:
        shown = [*one.top[: self._alternatives], one]
        return {token_text(other.data): finite(other.logprob) for other in shown}

    def _offset(self, data: bytes) -> int:
        at = self._at
        self._at += len(self._decoder.decode(data))
        return at


def token_text(data: bytes) -> str:
    """A token's text; part of a character is spelled as ``bytes:\\xe6\\xbc``."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def likelihood(parts: Sequence[Part]) -> float:
    """The mean log probability of a choice's tokens, by which ``best_of`` ranks."""
    logprobs = [one.logprob for part in parts for one in part.logprobs]
    return sum(logprobs) / len(logprobs) if logprobs else 0.0


class CompletionHead(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of every chunk of an answer, and of the whole answer, and the settings that its client requested.

    ``prompts`` are the ids of each, ``first_tokens`` how each begins.
    """

    id: str
    created: int
    model: str
    dialect: Dialect
    prompts: tuple[tuple[int, ...], ...]
    first_tokens: tuple[bytes, ...] = ()
    returns_ids: bool = False
    alternatives: int = 0
    usage: bool = False
    continuous_usage: bool = False

    @property
    def usage_at_end(self) -> bool:
        """Whether the last choice's end has the usage: never beside the chunk that was requested for it."""
        return self.dialect.usage == "last" and not self.usage


class CompletionWriter:
    """All choices of one request: the `Writer` of completions. They are numbered prompt by prompt."""

    media_type = JSON

    def __init__(self, head: CompletionHead, requested: RequestedCompletion, form: StreamForm) -> None:
        self.form = form
        self._head = head
        self._requested = requested
        self._texts = [
            ChoiceText(echo=echo, suffix=requested.suffix) for echo in requested.echoes for _ in range(requested.made)
        ]
        self._usages = [Usage(len(ids)) for ids in head.prompts for _ in range(requested.made)]
        self._logprobs = [self._logprob_writer(number) for number, _ in enumerate(self._usages)]
        self._ids: list[list[int]] = [[] for _ in self._usages]
        self._opened: set[int] = set()
        self._scored: dict[int, PromptLogprobs] = {}
        self._parts: list[list[Part]] = [[] for _ in self._usages]
        self._going_on = len(self._usages)

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join([self._chunk(step.choice, part) for part in self._read(step)])

    def end(self) -> bytes:
        last = self._completion([], completion_usage(self._usage())) if self._head.usage else None
        return DONE if last is None else event(encode(last)) + DONE

    def add(self, step: StepEvents[Event]) -> None:
        self._parts[step.choice] += self._read(step)

    def whole(self) -> bytes:
        """Writes the whole answer; of more choices than were requested, the likeliest."""
        requested = self._requested
        choices: list[CompletionChoice] = []
        for prompt in range(len(requested.turns)):
            numbers = list(range(prompt * requested.made, (prompt + 1) * requested.made))
            if requested.made > requested.n:
                numbers.sort(key=lambda number: likelihood(self._parts[number]), reverse=True)
            choices += [self._joined(prompt, sample, numbers[sample]) for sample in range(requested.n)]
        return encode(self._completion(choices, completion_usage(self._usage())))

    def _read(self, step: StepEvents[Event]) -> Iterator[Part]:
        """The parts that a step adds to its choice, whose tokens are counted on the way."""
        number, text = step.choice, self._texts[step.choice]
        self._ids[number] += step.ids
        if step.prompt is not None and self._requested.prompt_logprobs is not None:
            self._scored[number] = prompt_logprobs(step.prompt, self._requested.prompt_logprobs)
        for happened in step.events:
            parts = text.feed(happened, step.prompt if self._requested.logprobs else None)
            ends = (part.finished.usage for part in parts if part.finished is not None)
            self._usages[number] = next(ends, Usage(self._usages[number].prompt_tokens, step.completion_tokens))
            yield from parts

    def _chunk(self, number: int, part: Part) -> bytes:
        head = self._head
        prompt, sample = divmod(number, self._requested.made)
        choice = self._choice(prompt, sample, part, self._logprobs[number])
        if head.returns_ids:
            ids, self._ids[number] = self._ids[number], []
            choice = replace(choice, token_ids=ids)
        if head.returns_ids and number not in self._opened:
            self._opened.add(number)
            choice = replace(choice, prompt_token_ids=list(head.prompts[prompt]))
        self._going_on -= part.finished is not None
        has_usage = head.continuous_usage or (head.usage_at_end and not self._going_on)
        usage = completion_usage(self._usage()) if has_usage else msgspec.UNSET
        return event(encode(self._completion([choice], usage)))

    def _usage(self) -> Usage:
        """Adds up all prompts so far, each counted once."""
        made = self._requested.made
        prompts = [merge_usage(self._usages[at : at + made]) for at in range(0, len(self._usages), made)]
        *_, total = accumulate(prompts, _sum)
        return total

    def _joined(self, prompt: int, sample: int, number: int) -> CompletionChoice:
        parts = self._parts[number]
        whole = Part(
            "".join(part.text for part in parts),
            tuple(one for part in parts for one in part.logprobs),
            parts[-1].finished,
            tuple(one for part in parts for one in part.scored),
        )
        choice = self._choice(prompt, sample, whole, self._logprob_writer(number))
        if self._head.returns_ids:
            ids = list(self._head.prompts[prompt])
            choice = replace(choice, prompt_token_ids=ids, token_ids=self._ids[number])
        return replace(choice, prompt_logprobs=self._scored.get(number, msgspec.UNSET))

    def _logprob_writer(self, number: int) -> LogprobWriter:
        firsts = self._head.first_tokens
        return LogprobWriter(self._head.alternatives, firsts[number // self._requested.made] if firsts else b"")

    def _choice(self, prompt: int, sample: int, part: Part, writer: LogprobWriter) -> CompletionChoice:
        has_logprobs = self._requested.logprobs and (part.logprobs or part.scored or part.finished is not None)
        dialect = self._head.dialect
        return CompletionChoice(
            index=prompt if dialect.completions.index_of_prompt else prompt * self._requested.n + sample,
            text=part.text,
            logprobs=writer.write([*part.scored, *part.logprobs]) if has_logprobs else None,
            finish_reason=None if part.finished is None else _word(dialect, part.finished.reason),
            prompt_index=prompt,
            sample_index=sample,
        )

    def _completion(self, choices: list[CompletionChoice], usage: CompletionUsage | msgspec.UnsetType) -> Completion:
        head = self._head
        return Completion(id=head.id, created=head.created, model=head.model, choices=choices, usage=usage)


def _word(dialect: Dialect, reason: FinishReason) -> str:
    """A completion calls no tools, whatever the model wrote."""
    return dialect.word(FinishReason.STOP_EOS if reason is FinishReason.TOOL_CALL else reason)


def _sum(one: Usage, other: Usage) -> Usage:
    cached = (one.cached_tokens or 0) + (other.cached_tokens or 0)
    return Usage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cached_tokens=cached,
        reasoning_tokens=one.reasoning_tokens + other.reasoning_tokens,
    )


class InfillWriter:
    """One middle as clients of llama.cpp's server read it: the `Writer` of POST /infill.

    ``fields`` are the members of the answer that are wanted; none: all. ``truncated``: files were left out.
    """

    media_type = JSON

    def __init__(
        self, model: str, prompt_tokens: int, form: StreamForm, *, fields: Sequence[str] = (), truncated: bool = False
    ) -> None:
        self.form = form
        self._model, self._evaluated, self._truncated = model, prompt_tokens, truncated
        self._fields = tuple(fields)
        self._projection = Projection()
        self._text: list[str] = []
        self._ended = TurnEnded(FinishReason.STOP_EOS, Usage(prompt_tokens))

    def change(self, step: StepEvents[Event]) -> bytes:
        text = self._read(step)
        more = InfillEvent(
            content=text, tokens_predicted=step.completion_tokens, tokens_evaluated=self._evaluated
        )  # fmt: skip
        return event(encode(more)) if text else b""

    def end(self) -> bytes:
        return event(self._answer(""))

    def add(self, step: StepEvents[Event]) -> None:
        self._read(step)

    def whole(self) -> bytes:
        return self._answer("".join(self._text))

    def _read(self, step: StepEvents[Event]) -> str:
        """The text that a step adds."""
        more: list[str] = []
        for happened in step.events:
            if isinstance(happened, TurnEnded):
                self._ended = happened
            change = self._projection.feed(happened)
            if isinstance(change, VisibleText):
                more.append(change.text)
        self._text += more
        return "".join(more)

    def _answer(self, content: str) -> bytes:
        """The last event, or the whole answer, with the members that are wanted; what there is not is left out."""
        reason, usage = self._ended.reason, self._ended.usage
        stopped = reason is FinishReason.STOP_SEQUENCE
        answer = InfillAnswer(
            content=content,
            model=self._model,
            tokens_predicted=usage.completion_tokens,
            tokens_evaluated=usage.prompt_tokens,
            tokens_cached=usage.cached_tokens or 0,
            has_new_line="\n" in "".join(self._text),
            truncated=self._truncated,
            stop_type="word" if stopped else "eos" if reason is FinishReason.STOP_EOS else "limit",
            stopping_word=(self._ended.matched or "") if stopped else "",
        )
        members = msgspec.structs.asdict(answer)
        return encode({name: members[name] for name in self._fields if name in members} if self._fields else answer)
