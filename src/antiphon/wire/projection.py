"""Events → what a chat client reads. One projection, of which a stream and a whole answer are two writings."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from antiphon.conversation import (
    FUNCTIONS,
    PARAGRAPH,
    Channel,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    TokenLogprob,
    TurnEnded,
    Usage,
    visible_to_user,
)
from antiphon.tokens import utf8, whole_pairs


class VisibleText(msgspec.Struct, frozen=True, gc=False):
    """More of the visible answer."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class ThoughtText(msgspec.Struct, frozen=True, gc=False):
    """More reasoning, for servers that expose it."""

    text: str


class CallStarted(msgspec.Struct, frozen=True):
    """A tool call began; ``index`` counts the calls of its choice. ``custom``: of a custom tool."""

    index: int
    id: str
    name: str
    custom: bool = False


class ArgumentsText(msgspec.Struct, frozen=True, gc=False):
    """More of the arguments of call ``index``, byte for byte as the model wrote them; of a custom tool all its text."""

    index: int
    text: str
    custom: bool = False


CUSTOM_INPUT = "input"
"""The one argument of a custom tool, which is its text: models call it as a function."""


def custom_input(arguments: str) -> str:
    """The text of a custom tool's call, out of ``{"input": …}``; whatever else the model wrote is the text."""
    text = json_object(arguments).get(CUSTOM_INPUT)
    return text if isinstance(text, str) else str(arguments)


def json_object(text: str) -> Mapping[str, Any]:
    """The object that the text is, half a pair of surrogates in it as U+FFFD; an empty one where it is none."""
    try:
        value = json.loads(whole_pairs(text))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


INVALID = "INVALID_JSON"
"""The name, in APIs that have an object, of arguments that are none, as only an unconstrained model writes them."""


def arguments_object(text: str) -> dict[str, object]:
    """A call's arguments as the object that they are."""
    try:
        return msgspec.json.decode(utf8(text.strip() or "{}"), type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return {INVALID: str(text)}


def arguments_as_written(given: msgspec.Raw) -> msgspec.Raw:
    """A call's arguments as its model wrote them, of those that a client was given by `arguments_object`."""
    data = bytes(given)
    if INVALID.encode() in data[:64]:
        with suppress(msgspec.DecodeError):
            members = msgspec.json.decode(data, type=dict[str, str])
            text = members.get(INVALID, "")
            if members == arguments_object(text):
                return msgspec.Raw(msgspec.json.encode(text))
    return given


class Finished(msgspec.Struct, frozen=True):
    reason: FinishReason
    usage: Usage


Change = VisibleText | ThoughtText | CallStarted | ArgumentsText | Finished


class Projection:
    """One choice as a chat client may see it: hidden messages are gone, bundled ones are one.

    ``customs`` are the names of custom tools, whose text is given when it is whole: it comes wrapped in JSON.
    """

    def __init__(self, *, expose_reasoning: bool = False, customs: Collection[str] = ()) -> None:
        self._expose_reasoning = expose_reasoning
        self._customs = customs
        self._field: type[VisibleText] | type[ThoughtText] | type[ArgumentsText] | None = None
        self._calls = 0
        self._shown: set[type[VisibleText] | type[ThoughtText]] = set()
        self._fresh = False
        self.shows_text = False
        """Whether more text is more of the visible answer, as it is: so it is for nearly every event of a turn."""

    def feed(self, event: Event) -> Change | None:
        """Returns the change that ``event`` makes for the client; None: nothing."""
        if self.shows_text and isinstance(event, TextDelta):
            return VisibleText(event.text, event.logprobs)  # Nearly every event of nearly every turn.
        match event:
            case TextDelta(text, logprobs):
                return self._text(text, logprobs)
            case MessageStarted(message):
                return self._start(message)
            case MessageEnded(message):
                self._field, self.shows_text = None, False
                if message.is_call and chat_name(message) in self._customs:
                    return ArgumentsText(self._calls - 1, custom_input(message.text), custom=True)
                return None
            case Incident():
                return None
            case TurnEnded(reason, usage):
                return Finished(reason, usage)
            case _:
                assert_never(event)

    def _start(self, message: Message) -> Change | None:
        self._fresh, self.shows_text = True, False
        if message.is_call:
            name = chat_name(message)
            custom = name in self._customs
            self._field = None if custom else ArgumentsText
            self._calls += 1
            return CallStarted(self._calls - 1, message.call_id or f"call_{self._calls - 1}", name, custom)
        self._field = None
        if visible_to_user(message):
            self._field = VisibleText
        elif message.channel == Channel.ANALYSIS and self._expose_reasoning:
            self._field = ThoughtText
        return None

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Change | None:
        field = self._field
        if field is None:
            return None
        if field is ArgumentsText:
            return ArgumentsText(self._calls - 1, text)
        apart = PARAGRAPH if self._fresh and field in self._shown else ""
        self._fresh = False
        if field is VisibleText:
            self.shows_text = True
            self._shown.add(VisibleText)
            return VisibleText(apart + text, logprobs)
        self._shown.add(ThoughtText)
        return ThoughtText(apart + text)


def chat_name(message: Message) -> str:
    """A recipient as a function's name: ``functions.f`` is ``f``; others keep their namespace, the dot spelt ``__``."""
    recipient = message.recipient or ""
    name = recipient.removeprefix(f"{FUNCTIONS}.")
    return name if name != recipient else name.replace(".", "__")


@dataclass(slots=True)
class WholeCall:
    id: str
    name: str
    custom: bool = False
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Whole:
    """One choice, collected from its changes."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[WholeCall] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finished: Finished | None = None

    def add(self, change: Change) -> None:
        match change:
            case VisibleText(text, logprobs):
                self.text.append(text)
                self.logprobs += logprobs
            case ThoughtText(text):
                self.reasoning.append(text)
            case CallStarted(_, id, name, custom):
                self.calls.append(WholeCall(id, name, custom))
            case ArgumentsText(index, text):
                self.calls[index].arguments.append(text)
            case Finished():
                self.finished = change
            case _:
                assert_never(change)


def whole(events: Iterable[Event], *, expose_reasoning: bool = False) -> Whole:
    """A choice's events as one answer."""
    projection, answer = Projection(expose_reasoning=expose_reasoning), Whole()
    for event in events:
        if (change := projection.feed(event)) is not None:
            answer.add(change)
    return answer
