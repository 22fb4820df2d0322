"""Content blocks that the model writes, one message each: as events, and whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from antiphon.conversation import End, Message
from antiphon.tokens import utf8
from antiphon.wire.projection import chat_name

from .answer_schema import (
    AnswerBlock,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageEvent,
    SignatureDelta,
    TextBlock,
    TextBlockDelta,
    ThinkingBlock,
    ThinkingBlockDelta,
    ToolUseBlock,
)
from .call_ids import to_client

INVALID = "INVALID_JSON"
"""Where a whole answer has arguments that are no object, which only a model that no grammar constrains can write."""


class MessageView(msgspec.Struct, frozen=True, kw_only=True):
    """What of a turn the client sees. ``thinking``: it requested thinking blocks; ``exposed``: with their text.

    ``encrypt`` makes the signature of one; ``stops`` are the strings that it named. ``served`` are recipients that run
    here: calls of those that are ``shown`` are blocks, and so are their results; of the others there is nothing.
    """

    encrypt: Callable[[Message], str]
    thinking: bool = False
    exposed: bool = False
    stops: frozenset[str] = msgspec.field(default_factory=frozenset)
    served: frozenset[str] = msgspec.field(default_factory=frozenset)
    shown: frozenset[str] = msgspec.field(default_factory=frozenset)


class BlockWriter(Protocol):
    """One block: the events of its parts, and the block itself, None where a whole answer has none."""

    def begin(self) -> list[MessageEvent]: ...

    def add(self, text: str) -> list[MessageEvent]: ...

    def end(self, message: Message) -> list[MessageEvent]: ...

    def block(self, message: Message) -> AnswerBlock | None: ...


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
