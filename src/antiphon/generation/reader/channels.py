"""The channel of text whose own header does not say it (F-18): inferred once for a reply, before any output sees it.

Models forget the channel, or write a word for the answer in its place (``response``). Such a text is buffered until it
is known what it is: reasoning, when an answer, a call, or another such text begins after it; the answer, when the reply
ends without one. It is as long as the reply at most, which the request's limit bounds. On any other channel that there
is not (``thinking``, ``comentary``) it is reasoning, and nobody is shown it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
    TokenLogprob,
    Usage,
    visible_to_user,
)
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.offered_calls import NOT_ALLOWED, as_answer, is_for_tool

# How many tokens a choice took.


class Counts:
    """Tokens of one choice, counted id by id: the engine's way to cut its steps changes nothing."""

    __slots__ = ("cached", "completion", "prompt", "reasoning")

    def __init__(self, prompt: int) -> None:
        """``prompt``: tokens of the prompt, as far as they are known before it is read."""
        self.prompt = prompt
        self.completion = 0
        self.reasoning = 0
        self.cached: int | None = None

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self.prompt,
            completion_tokens=self.completion,
            cached_tokens=self.cached,
            reasoning_tokens=self.reasoning,
        )


_CHANNELS = frozenset(channel.value for channel in Channel)
_ANSWERS = frozenset({"answer", "output", "response"})
"""Words that models write in place of the channel of an answer."""
_KNOWN = {None, *_CHANNELS, *_ANSWERS}
_GUESSES = frozenset({"unmarked-final", NOT_ALLOWED})
"""Incidents before a message whose channel ``final`` is the reader's word and not the model's."""


class _Kind(Enum):
    """Why a message is buffered."""

    TEXT = auto()
    """It may be the answer, and may be reasoning."""
    ANSWER = auto()
    """It is the answer as soon as it has text; another text waits that is the answer if this one stays empty."""
    HIDDEN = auto()
    """It is on an unknown channel, and is not buffered."""
    CALL = auto()
    """Its header has no ``<|message|>``: without arguments it is no call."""
    MISCALL = auto()
    """It calls what is not there: its end says whether it is for a tool, or a text for somebody."""
    STRAY = auto()
    """Text outside of every message."""


@dataclass(slots=True)
class _Buffered:
    """A message that waits. ``tokens``: how many it took, once it ended."""

    kind: _Kind
    message: Message
    parts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    blank: bool = True
    end: MessageEnded | None = None
    tokens: int = 0

    def add(self, delta: TextDelta) -> None:
        self.parts.append(delta.text)
        self.logprobs += delta.logprobs
        self.blank = self.blank and not delta.text.strip()

    def events(self, channel: str | None) -> list[ParserEvent]:
        """The message up to here, on this channel."""
        events: list[ParserEvent] = [MessageStarted(_on(channel, self.message))]
        if self.parts:
            events.append(TextDelta("".join(self.parts), tuple(self.logprobs)))
        if self.end is not None:
            events.append(MessageEnded(_on(channel, self.end.message)))
        return events


class InferredChannels:
    """Passes the events of one reply on, each message under the channel that it is shown and stored under.

    ``counts`` gets the tokens of what turned out to be reasoning. ``reads_miscalls``: calls of what is not there are
    calls; else nobody is shown one, and it stands among the reasoning. In formats without channels nothing is
    inferred. Of the others only Harmony leaves open what a missing channel means; elsewhere it is ``final`` (A-O01).
    """

    def __init__(self, format: Format, counts: Counts, *, reads_miscalls: bool = True) -> None:
        self._counts = counts
        self._reads_miscalls = reads_miscalls
        self._infers = format.framed
        self._missing_is_final = not isinstance(format, Harmony)
        self._candidate: _Buffered | None = None
        """The text that is the answer if nothing says otherwise; hidden messages may have come after it."""
        self._stray: _Buffered | None = None
        """Text outside of messages, which is the answer if there is nothing else."""
        self._followed = False
        """A message began after the last of these."""
        self._open: _Buffered | None = None
        """The open message, where it is buffered."""
        self._channel: Channel | None = None
        """The channel of the open message, where it is passed and its own header says something else."""
        self._decided = False
        """The reply has its answer, or a call."""
        self._guessed = self._cut_header = self._miscalls = False
        self._begun = 0
        self.passes = not self._infers
        """Text of the open message goes on as it is."""

    def feed(self, event: ParserEvent) -> list[ParserEvent]:
        """The events that are decided now."""
        if not self._infers:
            return [event]
        match event:
            case TextDelta():
                return [event] if self.passes else self._text(event)
            case MessageStarted(message):
                return self._start(message)
            case MessageEnded():
                return self._end(event)
            case Incident():
                self._note(event)
                return [event]

    def close(self, *, cut: bool) -> list[ParserEvent]:
        """The reply ended. ``cut``: by its limit; then a text that other messages followed is not its answer."""
        events: list[ParserEvent] = []
        if self._stray is not None:
            events = self._release(Channel.ANALYSIS)
            self._candidate, self._stray = self._stray, None
        return [*events, *self._release(Channel.ANALYSIS if cut and self._followed else Channel.FINAL)]

    # What comes before a message

    def _note(self, incident: Incident) -> None:
        match incident.code:
            case "missing-message":
                self._cut_header = True
            case "truncated-header":
                self._guessed = self._cut_header = False
            case "channel-repaired" | "dup-channel":  # ``finals`` is final; beside other words it may be one of them
                self._guessed |= " " in incident.text
            case "stray-text":
                self._add_stray(incident.text)
            case code:
                self._guessed |= code in _GUESSES
                self._miscalls |= code == NOT_ALLOWED

    def _add_stray(self, text: str) -> None:
        """Long text comes in parts."""
        if self._decided:
            return
        before = "".join(self._stray.parts) if self._stray is not None and not self._followed else ""
        text, message = before + text, Message(role=Role.ASSISTANT)
        end = MessageEnded(replace(message, text=text))
        self._stray = _Buffered(_Kind.STRAY, message, [text], blank=False, end=end)
        self._followed = False

    def _start(self, message: Message) -> list[ParserEvent]:
        kind = self._kind(message)
        self._guessed = self._cut_header = self._miscalls = False
        self._followed = True
        self._channel, self.passes = None, True
        if self._candidate is not None:
            self._stray = None
        noted: list[ParserEvent] = []
        if kind is _Kind.HIDDEN:
            self._channel = Channel.ANALYSIS
            noted = [Incident("channel-hidden", self._counts.completion, message.channel or "")]
        elif kind is _Kind.TEXT and self._decided:
            self._channel = Channel.ANALYSIS
        elif kind is _Kind.ANSWER and self._candidate is None and self._stray is None:
            self.passes = self._decided
        elif kind is not None:
            self._open, self.passes = _Buffered(kind, message), False
            place = self._counts.completion
            return [Incident("channel-undecided", place, message.channel or "")] if kind is _Kind.TEXT else []
        settled = self._settle() if message.is_call else []
        return [*noted, *settled, MessageStarted(_on(self._channel or message.channel, message))]

    def _kind(self, message: Message) -> _Kind | None:
        """Why the message must wait; None where it is what its header says."""
        if message.is_call:
            return _Kind.MISCALL if self._miscalls else _Kind.CALL if self._cut_header else None
        if message.channel is None:
            unsure = self._guessed or not self._missing_is_final
        elif _is_unknown(message.channel):
            return _Kind.HIDDEN
        elif message.channel not in _CHANNELS:
            unsure = True
        else:
            doubtful = self._cut_header or message.recipient not in (None, "user")
            unsure = visible_to_user(message) and (self._guessed or (doubtful and message.is_preamble))
        if unsure:
            return _Kind.TEXT
        return _Kind.ANSWER if message.effective_channel == Channel.FINAL else None

    # The open message

    def _text(self, delta: TextDelta) -> list[ParserEvent]:
        if self._open is None:
            self._decided = self.passes = bool(delta.text.strip())
            return [delta]
        waited = self._open.blank
        self._open.add(delta)
        return self._first_words(self._open) if waited and not self._open.blank else []

    def _first_words(self, open: _Buffered) -> list[ParserEvent]:
        """The open message turns out not to be empty."""
        if open.kind is _Kind.TEXT:
            return self._replace_candidate(open)
        if open.kind is _Kind.MISCALL:
            return []  # only its end says whether this is a call
        if open.kind is _Kind.CALL and not "".join(open.parts).lstrip().startswith(("{", "[")):
            return []  # only its end says whether these are arguments
        self._open, self.passes = None, True
        return [*self._settle(), *open.events(open.message.channel)]

    def _end(self, event: MessageEnded) -> list[ParserEvent]:
        tokens, self._begun = self._counts.completion - self._begun, self._counts.completion
        open, self._open = self._open, None
        if open is not None:
            open.end, open.tokens = event, tokens
            if open.kind is _Kind.MISCALL or (open.kind is _Kind.CALL and not open.blank):
                return self._unmarked_call(open, event.message)
            if open.kind is _Kind.TEXT and open.parts and self._candidate is None:
                self._candidate, self._followed = open, False  # blanks, which are the answer if there is no other
            return []  # what is empty is no answer and no call
        if self._channel is None:
            called = event.message.end is End.CALL  # to whomever: the reply was to go on, and is not answered
            return [event, *(self._settle() if called else [])]
        self._counts.reasoning += tokens
        return [MessageEnded(_on(self._channel, event.message))]

    def _unmarked_call(self, open: _Buffered, call: Message) -> list[ParserEvent]:
        """A call whose header was cut, and whose text is no JSON, or one of what is not there: what its end says."""
        miscall, called = open.kind is _Kind.MISCALL, call.end is End.CALL
        if called and (not miscall or (self._reads_miscalls and is_for_tool(call))):
            return [*self._settle(), *open.events(call.channel)]
        open.kind, open.message, open.end = _Kind.TEXT, as_answer(open.message), MessageEnded(as_answer(call))
        if open.blank and not called:
            return []
        if _is_unknown(call.channel) or (miscall and is_for_tool(call)):
            self._counts.reasoning += open.tokens
            return open.events(Channel.ANALYSIS)
        events = self._replace_candidate(open)
        return events if not self._decided else self._release(Channel.ANALYSIS)

    # Decisions

    def _replace_candidate(self, other: _Buffered) -> list[ParserEvent]:
        events = self._release(Channel.ANALYSIS)
        self._candidate, self._stray, self._followed = other, None, False
        return events

    def _settle(self) -> list[ParserEvent]:
        """The answer begins, or a call: what waited was reasoning."""
        self._decided, self._stray = True, None
        return self._release(Channel.ANALYSIS)

    def _release(self, channel: Channel) -> list[ParserEvent]:
        candidate, self._candidate = self._candidate, None
        if candidate is None or (candidate.kind is _Kind.STRAY and channel is Channel.ANALYSIS):
            return []
        if channel is Channel.ANALYSIS:
            self._counts.reasoning += candidate.tokens
        return [Incident("channel-inferred", self._counts.completion, channel.value), *candidate.events(channel)]


def with_channels(events: Iterable[ParserEvent], format: Format) -> list[ParserEvent]:
    """All events of a whole reply, each message under the channel that it is shown under."""
    channels = InferredChannels(format, Counts(0))
    return [*(passed for event in events for passed in channels.feed(event)), *channels.close(cut=False)]


def _is_unknown(channel: str | None) -> bool:
    """Whether that names an unknown channel, and is no word for the answer either; marks name none."""
    return channel not in _KNOWN and any(char.isalnum() for char in channel or "")


def _on(channel: str | None, message: Message) -> Message:
    """The message on this channel; its header, and what it was for, say the channel that it was on."""
    return message if message.channel == channel else replace(message, channel=channel, intent=None, header=())
