"""Events of a turn → content blocks, one after the other: as named events, or whole. One reading, two writings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec
from msgspec import UNSET

from antiphon.conversation import (
    Channel,
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
from antiphon.generation import RoundEvent, StepEvents
from antiphon.tools import ToolCancelled, ToolEnded, ToolStarted
from antiphon.wire.json import encode
from antiphon.wire.writer import JSON, StreamForm, event_bytes

from .answer_schema import (
    AnswerBlock,
    ContentBlockStart,
    ContentBlockStop,
    MessageAnswer,
    MessageDelta,
    MessageEvent,
    MessageStart,
    MessageStop,
    MessageUsage,
    OutputTokensDetails,
    Ping,
    StopChange,
    StopDetails,
    StopReason,
)
from .block_writers import (
    BlockWriter,
    MessageView,
    ServerCalls,
    ServerUseWriter,
    TextWriter,
    ThinkingWriter,
    ToolUseWriter,
)

STOP_REASONS: Mapping[FinishReason, StopReason] = {
    FinishReason.STOP_EOS: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.TOOL_CALL: "tool_use",
    FinishReason.LENGTH_OUTPUT: "max_tokens",
    FinishReason.LENGTH_CONTEXT: "model_context_window_exceeded",
    FinishReason.CONTENT_FILTER: "refusal",
}
"""Resolution X-02, in this API's words; a turn that ends otherwise is an error."""
PAUSED = "tool_rounds_exceeded"
"""The incident after which the client may send the answer back, for the model to go on with its calls."""


class MessagesWriter:
    """One answer: the `Writer` of Messages. ``head`` is the message without content.

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
        self._open: BlockWriter | None = None
        self._calls = ServerCalls(view)
        self._paused = False
        self._index = 0
        self._content: list[AnswerBlock] = []
        self._last: MessageDelta | None = None

    def change(self, step: StepEvents[RoundEvent]) -> bytes:
        begun = () if self._begun else self._begin(step.cached_tokens, step.prompt_tokens)
        return b"".join(map(event_bytes, [*begun, *self._events(step)]))

    def end(self) -> bytes:
        return event_bytes(MessageStop())

    def add(self, step: StepEvents[RoundEvent]) -> None:
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

    def _begin(self, cached: int | None, prompt: int | None = None) -> list[MessageEvent]:
        if self._begun:
            return []
        self._begun = True
        usage = message_usage(Usage(prompt or self._prompt_tokens, 0, cached))
        usage = msgspec.structs.replace(usage, output_tokens_details=UNSET)
        return [MessageStart(msgspec.structs.replace(self._head, usage=usage))]

    def _events(self, step: StepEvents[RoundEvent]) -> list[MessageEvent]:
        return [event for happened in step.events for event in self._feed(happened)]

    def _feed(self, event: RoundEvent) -> list[MessageEvent]:
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
            case ToolEnded():
                return self._answered(event)
            case Incident(kind):
                self._paused = self._paused or kind == PAUSED
                return []
            case ToolStarted() | ToolCancelled():
                return []
            case _:
                assert_never(event)

    def _block(self, message: Message) -> BlockWriter | None:
        """The block that a message becomes; None for what this client does not see."""
        if message.is_call:
            return self._call(message)
        if visible_to_user(message):
            return TextWriter(self._index)
        if message.channel == Channel.ANALYSIS and self._view.thinking:
            return ThinkingWriter(self._index, self._view)
        return None

    def _call(self, message: Message) -> BlockWriter | None:
        if message.recipient in self._view.shown:
            return ServerUseWriter(self._index, message, self._calls)
        own = self._view.own is None or message.recipient in self._view.own
        return ToolUseWriter(self._index, message) if own else None

    def _answered(self, event: ToolEnded) -> list[MessageEvent]:
        """The result of a call that ran here is a block in one piece, where the client sees the call."""
        block = self._calls.result(event.result)
        if block is None:
            return []
        self._content.append(block)
        self._index += 1
        return [ContentBlockStart(self._index - 1, block), ContentBlockStop(self._index - 1)]

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
        reason = "pause_turn" if self._paused else STOP_REASONS.get(end.reason)
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
            msgspec.structs.replace(message_usage(end.usage), server_tool_use=self._calls.usage),
            self._head.context_management,
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
