"""Changes → the bytes of a chat stream, and the whole answer of a request that does not stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from antiphon.conversation import Event, TextDelta, TokenLogprob, Usage
from antiphon.generation import StepEvents, merge_usage
from antiphon.wire.dialect import OPENAI, Dialect
from antiphon.wire.json import encode
from antiphon.wire.projection import (
    ArgumentsText,
    CallStarted,
    Change,
    Finished,
    Projection,
    ThoughtText,
    VisibleText,
    Whole,
)
from antiphon.wire.prompt_notes import Notes, PromptLogprobs, finite, prompt_logprobs
from antiphon.wire.writer import DONE, JSON, StreamForm, event

from .schema import (
    AnswerMessage,
    AnswerToolCall,
    CalledFunction,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChoiceLogprobs,
    ChunkChoice,
    CompletionDetails,
    CompletionUsage,
    CustomCall,
    CustomDelta,
    Delta,
    FunctionDelta,
    LogprobEntry,
    PromptDetails,
    TokenLogprobEntry,
    ToolCallDelta,
)


class Opening(msgspec.Struct, frozen=True):
    """Notes on the prompt, sent once, where they were requested."""

    prompt_token_ids: list[int] | msgspec.UnsetType = msgspec.UNSET
    notes: Notes | msgspec.UnsetType = msgspec.UNSET


_NO_OPENING = Opening()
_encoder = msgspec.json.Encoder()
_HOLE = "\x00text\x00"


class AnswerHead(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of all chunks of an answer, or of the one whole answer; the first chunk alone has ``opening``.

    ``service_tier`` is the one in effect, for clients that request any.
    """

    id: str
    created: int
    model: str
    dialect: Dialect
    service_tier: str | msgspec.UnsetType = msgspec.UNSET
    usage: bool = False
    continuous_usage: bool = False
    opening: Opening = _NO_OPENING

    @property
    def no_value(self) -> msgspec.UnsetType | None:
        """The value of a field of OpenAI's that has none: null, or no field at all."""
        return msgspec.UNSET if self.dialect.bare else None

    @property
    def usage_at_end(self) -> bool:
        """Whether the last choice's end has the usage: never beside the chunk that was requested for it."""
        return self.dialect.usage == "last" and not self.usage


class ChunkWriter:
    """The chunks of one stream. The frequent ones, of more text, are templates with holes."""

    def __init__(self, head: AnswerHead, n: int = 1) -> None:
        self._head = head
        self._opening = _NO_OPENING
        self._ids: list[list[int]] = [[] for _ in range(n)]
        self._returns_ids = False
        self._texts = [self._template(index, VisibleText(_HOLE)) for index in range(n)]
        self._templates: dict[tuple[int, int | None], list[bytes]] = {}
        """Templates of chunks, by choice and index of the call (None: the choice's reasoning)."""
        self._opening = head.opening
        self._returns_ids = head.opening.prompt_token_ids is not msgspec.UNSET

    def first(self, index: int, usage: Usage | None = None) -> bytes:
        """The chunk that opens a choice with its role; none where every chunk has the role (resolution X-16)."""
        if self._head.dialect.role == "every":
            return b""
        return self._chunk(index, Delta(role="assistant", content=""), usage=usage)

    def change(self, index: int, change: Change, usage: Usage | None = None) -> bytes:
        """The chunk of one change, with ``usage`` where it is given."""
        bare = usage is None and not self._returns_ids
        match change:
            case VisibleText(text, logprobs):
                if bare and not logprobs:  # Nearly every chunk of nearly every stream.
                    return _quoted(text).join(self._texts[index])
                entries = ChoiceLogprobs(logprob_entries(logprobs)) if logprobs else None
                return self._chunk(index, self._delta(change), logprobs=entries, usage=usage)
            case ThoughtText() | ArgumentsText():
                return self._more(index, change) if bare else self._chunk(index, self._delta(change), usage=usage)
            case CallStarted(call, id, name, custom):
                function = FunctionDelta(name=name, arguments="")
                begun = ToolCallDelta(index=call, id=id, type="function", function=function)
                if custom:
                    begun = ToolCallDelta(index=call, id=id, type="custom", custom=CustomDelta(name=name, input=""))
                return self._chunk(index, Delta(role=self._role, tool_calls=[begun]), usage=usage)
            case Finished(reason, _):
                return self._chunk(index, Delta(), finish=self._head.dialect.word(reason), usage=usage)
            case _:
                assert_never(change)

    def _delta(self, change: VisibleText | ThoughtText | ArgumentsText) -> Delta:
        text, role = change.text, self._role
        match change:
            case VisibleText():
                return Delta(role=role, content=text)
            case ThoughtText():
                return Delta(role=role, reasoning=text, reasoning_content=text)
            case ArgumentsText(call, _, custom):
                more = ToolCallDelta(index=call, function=FunctionDelta(arguments=text))
                if custom:
                    more = ToolCallDelta(index=call, custom=CustomDelta(input=text))
                return Delta(role=role, tool_calls=[more])
            case _:
                assert_never(change)

    def _more(self, index: int, change: ThoughtText | ArgumentsText) -> bytes:
        """A chunk of more reasoning, or more arguments, with nothing else in it."""
        if self._opening is not _NO_OPENING:
            return self._chunk(index, self._delta(change))
        field = index, change.index if isinstance(change, ArgumentsText) else None
        template = self._templates.get(field)
        if template is None:
            template = self._templates[field] = self._template(index, replace(change, text=_HOLE))
        return _quoted(change.text).join(template)

    def sampled(self, index: int, ids: Sequence[int]) -> None:
        """Ids that the next chunk of the choice brings along."""
        self._ids[index] += ids

    def last(self, usage: Usage) -> bytes:
        """The chunk without choices that has the usage of all; nothing where it was not requested."""
        if not self._head.usage:
            return b""
        return self._event([], completion_usage(usage, self._head.dialect))

    @property
    def _role(self) -> Literal["assistant"] | msgspec.UnsetType:
        return "assistant" if self._head.dialect.role == "every" else msgspec.UNSET

    def _chunk(
        self,
        index: int,
        delta: Delta,
        *,
        logprobs: ChoiceLogprobs | None = None,
        finish: str | None = None,
        usage: Usage | None = None,
    ) -> bytes:
        ids, self._ids[index] = self._ids[index], []
        choice = ChunkChoice(
            index=index,
            delta=delta,
            logprobs=logprobs or self._head.no_value,
            finish_reason=finish,
            token_ids=ids if self._returns_ids else msgspec.UNSET,
        )
        return self._event([choice], msgspec.UNSET if usage is None else completion_usage(usage, self._head.dialect))

    def _event(self, choices: list[ChunkChoice], usage: CompletionUsage | msgspec.UnsetType) -> bytes:
        """The event of a chunk; one that has no usage has no such field (resolution X-55)."""
        head = self._head
        opening, self._opening = self._opening, _NO_OPENING
        chunk = ChatChunk(
            id=head.id,
            created=head.created,
            model=head.model,
            choices=choices,
            usage=usage,
            system_fingerprint=head.no_value,
            service_tier=head.service_tier,
            prompt_token_ids=opening.prompt_token_ids,
            antiphon=opening.notes,
        )
        return event(encode(chunk))

    def _template(self, index: int, change: VisibleText | ThoughtText | ArgumentsText) -> list[bytes]:
        """The chunk of a change, cut at its text."""
        return self._chunk(index, self._delta(change)).split(encode(_HOLE))


class ChatShape(msgspec.Struct, frozen=True, kw_only=True):
    """Form of an answer: choices, tokens of its prompt, and how much of it the client may see.

    ``customs`` are the names of custom tools.
    """

    n: int = 1
    prompt_tokens: int = 0
    logprobs: bool = False
    prompt_alternatives: int = 0
    expose_reasoning: bool = False
    customs: frozenset[str] = frozenset()


class ChatWriter:
    """One answer: the `Writer` of chat completions."""

    media_type = JSON

    def __init__(self, head: AnswerHead, shape: ChatShape, form: StreamForm) -> None:
        self.form = form
        self._head = head
        self._shape = shape
        self._chunks = ChunkWriter(head, shape.n)
        reveals, customs = shape.expose_reasoning, shape.customs
        self._projections = [Projection(expose_reasoning=reveals, customs=customs) for _ in range(shape.n)]
        self._tokens = [0] * shape.n
        self._begun: set[int] = set()
        self._ends: dict[int, Usage] = {}
        self._answers = [Whole() for _ in range(shape.n)]
        self._ids: list[list[int]] = [[] for _ in range(shape.n)]
        self._scored: PromptLogprobs | msgspec.UnsetType = msgspec.UNSET

    def change(self, step: StepEvents[Event]) -> bytes:
        index, events = step.choice, step.events
        before: Usage | None = None
        usage: Usage | None = None
        if self._head.continuous_usage:
            prompt = step.prompt_tokens or self._shape.prompt_tokens
            before = Usage(prompt, sum(self._tokens))
            self._tokens[index] = step.completion_tokens
            usage = Usage(prompt, sum(self._tokens))
        chunks: list[bytes] = []
        if index not in self._begun:
            self._begun.add(index)
            chunks.append(self._chunks.first(index, before))
        if step.ids:
            self._chunks.sampled(index, step.ids)
        projection = self._projections[index]
        for happened in events:
            if projection.shows_text and isinstance(happened, TextDelta):
                change: Change | None = VisibleText(happened.text, happened.logprobs)
            else:
                change = projection.feed(happened)
            if isinstance(change, Finished):
                self._ends[index] = change.usage
                if self._head.usage_at_end and self.over:  # Some dialects: with the last choice's end.
                    usage = self._usage()
            if change is not None:
                chunks.append(self._chunks.change(index, change, usage))
        return b"".join(chunks)

    def end(self) -> bytes:
        return self._chunks.last(self._usage()) + DONE

    def add(self, step: StepEvents[Event]) -> None:
        projection, answer = self._projections[step.choice], self._answers[step.choice]
        self._ids[step.choice] += step.ids
        if step.prompt is not None:
            self._scored = prompt_logprobs(step.prompt, self._shape.prompt_alternatives)
        for happened in step.events:
            if (change := projection.feed(happened)) is not None:
                answer.add(change)
            if isinstance(change, Finished):
                self._ends[step.choice] = change.usage

    def whole(self) -> bytes:
        answer = completion(self._head, self._answers, self._usage(), logprobs=self._shape.logprobs)
        opening = self._head.opening
        if opening.prompt_token_ids is not msgspec.UNSET:
            choices = [replace(choice, token_ids=ids) for choice, ids in zip(answer.choices, self._ids, strict=True)]
            answer = replace(answer, choices=choices, prompt_token_ids=opening.prompt_token_ids)
        return encode(replace(answer, prompt_logprobs=self._scored, antiphon=opening.notes))

    @property
    def over(self) -> bool:
        """Whether all choices ended."""
        return len(self._ends) == self._shape.n

    def _usage(self) -> Usage:
        return merge_usage([self._ends[index] for index in range(self._shape.n)])


def completion(head: AnswerHead, answers: Sequence[Whole], usage: Usage, *, logprobs: bool) -> ChatCompletion:
    """The whole answer."""
    return ChatCompletion(
        id=head.id,
        object=head.dialect.whole,
        created=head.created,
        model=head.model,
        choices=[_choice(head, i, answer, logprobs=logprobs) for i, answer in enumerate(answers)],
        usage=completion_usage(usage, head.dialect),
        system_fingerprint=head.no_value,
        service_tier=head.service_tier,
    )


def _choice(head: AnswerHead, index: int, answer: Whole, *, logprobs: bool) -> ChatChoice:
    assert answer.finished is not None, "a choice without its end"
    return ChatChoice(
        index=index,
        message=answer_message(answer, refusal=head.no_value),
        logprobs=ChoiceLogprobs(logprob_entries(answer.logprobs)) if logprobs else head.no_value,
        finish_reason=head.dialect.word(answer.finished.reason),
    )


def answer_message(answer: Whole, *, refusal: msgspec.UnsetType | None = None) -> AnswerMessage:
    """The one message that a chat client reads."""
    text = "".join(answer.text)
    calls = [
        AnswerToolCall(id=call.id, type="custom", custom=CustomCall(call.name, "".join(call.arguments)))
        if call.custom
        else AnswerToolCall(id=call.id, function=CalledFunction(call.name, "".join(call.arguments)))
        for call in answer.calls
    ]
    thought: str | msgspec.UnsetType = "".join(answer.reasoning) if answer.reasoning else msgspec.UNSET
    return AnswerMessage(
        content=text if text or not calls else None,
        refusal=refusal,
        tool_calls=calls or msgspec.UNSET,
        reasoning=thought,
        reasoning_content=thought,
    )


def completion_usage(usage: Usage, dialect: Dialect = OPENAI) -> CompletionUsage:
    """Cached tokens are 0 where the engine does not report them."""
    counts = CompletionUsage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
    )
    if dialect.bare:
        return counts
    return replace(
        counts,
        prompt_tokens_details=PromptDetails(usage.cached_tokens or 0),
        completion_tokens_details=CompletionDetails(usage.reasoning_tokens),
    )


def logprob_entries(logprobs: Sequence[TokenLogprob]) -> list[TokenLogprobEntry]:
    return [
        TokenLogprobEntry(_token(one), finite(one.logprob), list(one.data), [_alternative(top) for top in one.top])
        for one in logprobs
    ]


def _alternative(one: TokenLogprob) -> LogprobEntry:
    return LogprobEntry(_token(one), finite(one.logprob), list(one.data))


def _token(one: TokenLogprob) -> str:
    return one.data.decode("utf-8", "replace")


def _quoted(text: str) -> bytes:
    """A text in JSON: as `encode` has it, without its call for nearly every token."""
    try:
        return _encoder.encode(text)
    except UnicodeEncodeError:
        return encode(text)
