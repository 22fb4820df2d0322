"""Events of a turn → content blocks, one after the other: as named events, or whole. One reading, two writings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import msgspec
from msgspec import UNSET

from antiphon.conversation import (
    Channel,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.errors import AntiphonError, EngineError
from antiphon.generation import StepEvents
from antiphon.tokens import utf8
from antiphon.wire.json import encode
from antiphon.wire.projection import chat_name
from antiphon.wire.sse import named_event
from antiphon.wire.writer import JSON, StreamForm

from .answer_schema import (
    AnswerBlock,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageAnswer,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageStop,
    MessageUsage,
    OutputTokensDetails,
    Ping,
    SignatureDelta,
    StopChange,
    StopDetails,
    StopReason,
    TextBlock,
    TextBlockDelta,
    ThinkingBlock,
    ThinkingBlockDelta,
    ToolUseBlock,
)
from .call_ids import to_client

STOP_REASONS: Mapping[FinishReason, StopReason] = {
    FinishReason.STOP_EOS: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.TOOL_CALL: "tool_use",
    FinishReason.LENGTH_OUTPUT: "max_tokens",
    FinishReason.LENGTH_CONTEXT: "model_context_window_exceeded",
    FinishReason.CONTENT_FILTER: "refusal",
}
"""Resolution X-02, in this API's words; a turn that ends otherwise is an error."""
INVALID = "INVALID_JSON"
"""Where a whole answer has arguments that are no object, which only a model that no grammar constrains can write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """What of a turn the client sees. ``thinking``: it requested thinking blocks; ``exposed``: with their text.

    ``encrypt`` makes the signature of one; ``stops`` are the strings that it named.
    """

    encrypt: Callable[[Message], str]
    thinking: bool = False
    exposed: bool = False
    stops: frozenset[str] = field(default_factory=frozenset)


class TextWriter:
    """A block of text, which begins with its first character."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._text: list[str] = []

    def begin(self) -> list[MessageEvent]:
        return []

    def add(self, text: str) -> list[MessageEvent]:
        started = [] if self._text else [ContentBlockStart(self.index, TextBlock(text=""))]
        self._text.append(text)
        return [*started, ContentBlockDelta(self.index, TextBlockDelta(text))]

    def end(self, message: Message) -> list[MessageEvent]:
        return [ContentBlockStop(self.index)] if self._text else []

    def block(self, message: Message) -> AnswerBlock | None:
        return TextBlock(text="".join(self._text)) if self._text else None


class ThinkingWriter:
    """A block of thinking, with its text where that is shown, and always with the reasoning itself, encrypted."""

    def __init__(self, index: int, view: MessageView) -> None:
        self.index = index
        self._view = view
        self._begun = False
        self._text: list[str] = []
        self._signature = ""

    def begin(self) -> list[MessageEvent]:
        return []

    def add(self, text: str) -> list[MessageEvent]:
        events: list[MessageEvent] = []
        if not self._begun:
            self._begun = True
            events.append(ContentBlockStart(self.index, ThinkingBlock(thinking="", signature="")))
        if self._view.exposed:
            self._text.append(text)
            events.append(ContentBlockDelta(self.index, ThinkingBlockDelta(text)))
        return events

    def end(self, message: Message) -> list[MessageEvent]:
        if not self._begun:
            return []
        self._signature = self._view.encrypt(message)
        return [ContentBlockDelta(self.index, SignatureDelta(self._signature)), ContentBlockStop(self.index)]

    def block(self, message: Message) -> AnswerBlock | None:
        if not self._begun:
            return None
        return ThinkingBlock(thinking="".join(self._text), signature=self._signature)


class ToolUseWriter:
    """A call, its arguments as the model writes them. One that was cut is no block of a whole answer."""

    def __init__(self, index: int, call: Message) -> None:
        self.index = index
        self._call = ToolUseBlock(id=to_client(call.call_id or f"call_{index}"), name=chat_name(call), input={})

    def begin(self) -> list[MessageEvent]:
        return [ContentBlockStart(self.index, self._call)]

    def add(self, text: str) -> list[MessageEvent]:
        return [ContentBlockDelta(self.index, InputJsonDelta(text))]

    def end(self, message: Message) -> list[MessageEvent]:
        return [ContentBlockStop(self.index)]

    def block(self, message: Message) -> AnswerBlock | None:
        if message.end is End.NONE:
            return None
        return ToolUseBlock(id=self._call.id, name=self._call.name, input=arguments_object(message.text))


def arguments_object(text: str) -> dict[str, object]:
    """A call's arguments as the object that they are."""
    try:
        return msgspec.json.decode(utf8(text.strip() or "{}"), type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return {INVALID: text}


class MessagesWriter:
    """One answer: the `Writer` of Messages. ``head`` is the message before anything was said.

    ``describe`` writes an error's last event. A stream that is silent for long begins, so that its client knows that
    it is answered.
    """

    media_type = JSON

    def __init__(self, head: MessageAnswer, view: MessageView, describe: Callable[[AntiphonError], bytes]) -> None:
        self.form = StreamForm(describe, keep_alive=self._sign_of_life)
        self._head = head
        self._view = view
        self._prompt_tokens = head.usage.input_tokens
        self._begun = False
        self._open: TextWriter | ThinkingWriter | ToolUseWriter | None = None
        self._index = 0
        self._content: list[AnswerBlock] = []
        self._last: MessageDelta | None = None

    def change(self, step: StepEvents[Event]) -> bytes:
        return b"".join(map(event_bytes, [*self._begin(step.cached_tokens), *self._events(step)]))

    def end(self) -> bytes:
        return event_bytes(MessageStop())

    def add(self, step: StepEvents[Event]) -> None:
        self._events(step)

    def whole(self) -> bytes:
        assert self._last is not None, "an answer without its end"
        delta = self._last.delta
        return encode(
            msgspec.structs.replace(
                self._head,
                content=self._content,
                stop_reason=delta.stop_reason,
                stop_sequence=delta.stop_sequence,
                stop_details=delta.stop_details,
                usage=self._last.usage,
            )
        )

    def _sign_of_life(self) -> bytes:
        return b"".join(map(event_bytes, [*self._begin(None), Ping()]))

    def _begin(self, cached: int | None) -> list[MessageEvent]:
        if self._begun:
            return []
        self._begun = True
        usage = message_usage(Usage(self._prompt_tokens, 0, cached))
        usage = msgspec.structs.replace(usage, output_tokens_details=UNSET)
        return [MessageStart(msgspec.structs.replace(self._head, usage=usage))]

    def _events(self, step: StepEvents[Event]) -> list[MessageEvent]:
        return [event for happened in step.events for event in self._feed(happened)]

    def _feed(self, event: Event) -> list[MessageEvent]:
        match event:
            case TextDelta(text):
                return self._open.add(text) if self._open is not None and text else []
            case MessageStarted(message):
                self._open = self._block(message)
                return self._open.begin() if self._open is not None else []
            case MessageEnded(message):
                return self._ended(message)
            case TurnEnded():
                self._last = self._finished(event)
                return [self._last]
            case Incident():
                return []
            case _:
                assert_never(event)

    def _block(self, message: Message) -> TextWriter | ThinkingWriter | ToolUseWriter | None:
        """The block that a message becomes; None for what this client does not see."""
        if message.is_call:
            return ToolUseWriter(self._index, message)
        if visible_to_user(message):
            return TextWriter(self._index)
        if message.channel == Channel.ANALYSIS and self._view.thinking:
            return ThinkingWriter(self._index, self._view)
        return None

    def _ended(self, message: Message) -> list[MessageEvent]:
        writer, self._open = self._open, None
        if writer is None:
            return []
        events = writer.end(message)
        self._index += bool(events)
        block = writer.block(message)
        if block is not None:
            self._content.append(block)
        return events

    def _finished(self, end: TurnEnded) -> MessageDelta:
        reason = STOP_REASONS.get(end.reason)
        if reason is None:
            raise EngineError("The answer was not finished.", hint="Try again.")
        matched = end.matched if end.matched in self._view.stops else None
        if reason == "stop_sequence" and matched is None:
            reason = "end_turn"  # a control, or an id, that ended it
        return MessageDelta(
            StopChange(
                stop_reason=reason,
                stop_sequence=matched if reason == "stop_sequence" else None,
                stop_details=StopDetails() if reason == "refusal" else UNSET,
            ),
            message_usage(end.usage),
        )


def message_usage(usage: Usage) -> MessageUsage:
    """The counts as this API divides them: what was cached is no part of ``input_tokens``."""
    cached = usage.cached_tokens
    return MessageUsage(
        input_tokens=usage.prompt_tokens - (cached or 0),
        cache_creation_input_tokens=UNSET if cached is None else 0,
        cache_read_input_tokens=UNSET if cached is None else cached,
        output_tokens=usage.completion_tokens,
        output_tokens_details=OutputTokensDetails(usage.reasoning_tokens),
    )


def event_bytes(event: MessageEvent) -> bytes:
    """One event; its name is its type."""
    return named_event(str(event.__struct_config__.tag), encode(event))
