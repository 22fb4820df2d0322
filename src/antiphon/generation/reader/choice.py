"""One choice: what its engine samples, as the events of a turn, until something ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from antiphon.conversation import (
    Channel,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    TextDelta,
    TurnEnded,
)
from antiphon.engines import EngineEnd, Step
from antiphon.errors import Position, UnsupportedError
from antiphon.formats import ForeseeingParser
from antiphon.formats.format import Rest, last_events, rest_of
from antiphon.formats.offered_calls import MALFORMED, NOT_ALLOWED
from antiphon.generation.call_ids import CallIds
from antiphon.generation.constraint import ReplyGuard
from antiphon.generation.plan import Draft
from antiphon.tokens import Control

from .channels import Counts, InferredChannels
from .confidence import REPEATED, UNSURE, AnsweredCalls, Confidence
from .ids import IdReader, PendingLogprobs, StopStrings, foreign_ends, requested_ends

CUT = (EngineEnd.LENGTH_OUTPUT, EngineEnd.LENGTH_CONTEXT)


class ChoiceReader:
    """Reads the steps of one choice. ``guard`` checks a constrained reply against its grammar."""

    def __init__(self, plan: Draft, choice: int = 0, guard: ReplyGuard | None = None) -> None:
        self._plan = plan
        self._guard = guard
        self._ids = IdReader(plan.model.tokenizer, plan.format)
        self._confidence = Confidence() if plan.sampling.confidence else None
        self._parser = plan.parser(self._confidence.sure if self._confidence is not None else None)
        self._foresees = self._parser if isinstance(self._parser, ForeseeingParser) else None
        self._stops = StopStrings(plan.request.stop, included=plan.request.include_stop)
        self._call_ids = CallIds(plan.request, choice)
        self._logprobs = PendingLogprobs()
        self.counts = Counts(len(plan.prompt_ids))
        self._offered = plan.request.calls
        self._channels = InferredChannels(plan.format, self.counts, reads_miscalls=plan.request.reads_miscalls)
        self.sampled: list[int] = []
        """Every id of the choice, where the turn is remembered."""
        self._whole = 0
        """Ids up to the end of the last message that is whole."""
        self.own_ids: dict[str, str] = {}
        """The ids of calls that were given anew, with those that the model wrote."""
        self._collects_ids = plan.remembered or plan.request.return_token_ids
        self._returned = 0
        self._plain = not plan.request.stop
        self._end_ids = foreign_ends(plan)
        self._stop_ids = requested_ends(plan)
        self._stopped = self._finished = False
        self.messages: list[Message] = []
        """The messages that ended."""
        self._finisher = guard.finisher if guard is not None else None
        self._open: Message | None = None
        self._called = self._called_enough = self._inexact = self._broke_off = False
        self._answered = AnsweredCalls(plan.request.conversation.messages)
        self.over = False

    def read(self, step: Step) -> list[Event]:
        """The events of one step; nothing after the choice is over."""
        if self.over:
            return []
        if self._finisher is not None:
            step = self._finisher.fitted(step)
        if step.cached_tokens is not None:
            self.counts.cached = step.cached_tokens
        if step.prompt_tokens is not None:
            self.counts.prompt = step.prompt_tokens
        if self._guard is not None:
            self._guard.follow(step.ids)
        before = self.counts.completion
        events, ended = self._read(step)
        if self._collects_ids:
            self.sampled += step.ids[: self.counts.completion - before]
            if step.text and not step.ids:
                self._miss_ids()
        if ended or step.end is not None:
            events += self._finish(step.end)
        return events if len(step.ids) < 2 else _merged(events)

    def _read(self, step: Step) -> tuple[list[Event], bool]:
        """The events of what the step says, up to what ends the reply, and whether that was met."""
        events: list[Event] = []
        if step.text is not None:
            events += self._pass(self._parser.feed(self._ids.feed_text(step.text)))
        ended = step.text is not None and self._ended
        ids, texts, i = step.ids, self._texts(step), 0
        while i < len(ids) and not ended:
            if texts is not None and (count := self._more_text(texts, i)):
                events += self._run(ids[i : i + count], texts[i : i + count])
                i += count
                continue
            if self._confidence is not None and step.logprobs:
                self._confidence.add(step.logprobs[i].data, step.logprobs[i].logprob)
            elif step.logprobs:
                self._logprobs.add(step.logprobs[i], control=self._ids.is_control(ids[i]))
            read = self._feed(ids[i])
            events += read
            ended = not (len(read) == 1 and isinstance(read[0], TextDelta)) and self._ended
            i += 1
        return events, ended

    def _texts(self, step: Step) -> list[str | None] | None:
        """The texts of a step whose ids need not all be read one by one."""
        if len(step.ids) < 2 or step.logprobs or not self._plain or self._foresees is None:
            return None
        texts = self._ids.texts(step.ids)
        for i, id in enumerate(step.ids if self._stop_ids or self._end_ids else ()):
            if id in self._stop_ids or id in self._end_ids:
                texts[i] = None
        return texts

    def _more_text(self, texts: Sequence[str | None], start: int) -> int:
        """How many of them, from ``start`` on, are just more text of the open message."""
        if self._foresees is None or not self._channels.passes or not (count := self._foresees.more_text(texts, start)):
            return 0
        return 0 if self._ids.buffering or self._logprobs.waiting else count

    def _run(self, ids: Sequence[int], texts: Sequence[str | None]) -> Sequence[Event]:
        """Many ids at once, of which nothing is reported but their text. They count as if each came alone."""
        self.counts.completion += len(ids)
        if self._open is not None and self._open.channel == Channel.ANALYSIS:
            self.counts.reasoning += len(ids)
        self._ids.skip(ids)
        return self._parser.feed(("".join(filter(None, texts)),))

    def _miss_ids(self) -> None:
        """Raises `UnsupportedError` where the engine wrote a text and reports no ids of it, and they are requested."""
        self._inexact = True
        if self._plan.request.return_token_ids:
            raise UnsupportedError("the engine reports no token ids", position=Position(path="return_token_ids"))

    def replies(self) -> Iterator[tuple[Sequence[Message], Sequence[int], bool]]:
        """The reply as a later request may have it, its ids, and whether these say what it does, and no more.

        Of a call that was cut there is nothing; or all that was sampled, where a client sends it back as it is.
        """
        exact = not (self._cut or self._inexact)
        cut = any(message.is_call and message.end is End.NONE for message in self.messages)
        yield self.messages, self.sampled[: self._whole] if cut else self.sampled, exact
        if cut and exact:
            closed = [replace(one, end=End.CALL) if one.is_call else one for one in self.messages]
            yield closed, self.sampled, True

    def take_ids(self) -> tuple[int, ...]:
        """The ids that were read since they were taken last, where the turn is remembered.

        Those behind a call wait: they may begin a further one that is none of the reply.
        """
        waits = self._called and self._open is None and not self.over
        returned, self._returned = self._returned, max(self._returned, self._whole if waits else len(self.sampled))
        return tuple(self.sampled[returned : self._returned])

    def close(self) -> list[Event]:
        """The engine's output ended without a reason: the answer was cut."""
        return [] if self.over else self._finish(EngineEnd.LENGTH_OUTPUT)

    @property
    def rest(self) -> Rest | None:
        """The place where the choice stands, as `RestingParser` has it, with all that is between parser and events."""
        if not (self._channels.passes and self._ids.at_rest and self._stops.at_rest) or self._logprobs.waiting:
            return None
        return rest_of(self._parser)

    def read_plain(self, text: str) -> list[Event]:
        """The events of a text that is text whatever it spells."""
        return self._pass(self._parser.feed((text,)))

    def _feed(self, id: int) -> Sequence[Event]:
        """One id at a time, so that what is counted does not depend on how the engine cut its steps."""
        self.counts.completion += 1
        if self._open is not None and self._open.channel == Channel.ANALYSIS:
            self.counts.reasoning += 1
        if id in self._stop_ids:
            self._stopped = True
            return []
        if id in self._end_ids:
            return []
        pieces = self._ids.feed(id)
        events = self._parser.feed(pieces)
        if len(events) == 1 and isinstance(events[0], TextDelta):
            if self._plain and self._channels.passes and not self._logprobs.waiting:
                return events  # Nearly every token of nearly every reply.
        elif not events and not (pieces and isinstance(pieces[-1], Control)):
            return events  # Nearly every token of what a call begins with.
        passed = self._pass(events)
        if pieces and isinstance(pieces[-1], Control):
            self._ids.forget()
        return passed

    @property
    def _ended(self) -> bool:
        """Something that was read ends the reply."""
        return self._parser.ended is not None or self._cut or self._called_out

    @property
    def _cut(self) -> bool:
        """One of the request's own stops was met."""
        return self._stopped or self._stops.matched is not None

    @property
    def _called_out(self) -> bool:
        """The reply ends with the call that it has: there is to be one, or the model has no other."""
        return self._called_enough or (self._called and self._plan.request.one_call)

    def _calls_no_more(self, event: ParserEvent) -> bool:
        """Whether a required reply, which has called, begins a further call that the model would not make by itself."""
        if not self._called or not isinstance(event, MessageStarted) or not event.message.is_call:
            return False
        if self._confidence is None or self._plan.request.tool_choice.mode != "required":
            return False
        name = (event.message.recipient or "").rpartition(".")[2]
        self._called_enough = not self._confidence.prefers(name)
        return self._called_enough

    def _pass(self, events: Sequence[ParserEvent]) -> list[Event]:
        """Parser events on their way out: texts get their log probabilities, messages channels; stops are found."""
        passed: list[ParserEvent] = []
        for event in events:
            if self._called_out:
                break
            if self._calls_no_more(event):
                passed.append(Incident(UNSURE, self.counts.completion, ""))
                break
            if isinstance(event, MessageStarted) and self._is_miscall(event.message):
                found = Incident(NOT_ALLOWED, self.counts.completion, event.message.recipient or "")
                passed += self._channels.feed(found)
            passed += self._collected(self._channels.feed(self._note(event)))
        return list(self._stops.filter(passed))

    def _is_miscall(self, message: Message) -> bool:
        """Whether the message calls what is not there."""
        return message.is_call and self._offered is not None and message.recipient not in self._offered

    def _collected(self, events: Sequence[ParserEvent]) -> Sequence[ParserEvent]:
        """The events, of which the messages that ended are the reply's."""
        repeated: list[ParserEvent] = []
        for event in events:
            if isinstance(event, MessageEnded):
                self.messages.append(event.message)
                if event.message.end is not End.NONE:
                    self._whole = self.counts.completion
                if event.message.is_call and event.message.end is not End.NONE:
                    self._called = True
                    if self._answered.has(event.message):
                        repeated.append(Incident(REPEATED, self.counts.completion, event.message.text))
        return [*events, *repeated] if repeated else events

    def _note(self, event: ParserEvent) -> ParserEvent:
        match event:
            case MessageStarted(message):
                if message.header:
                    header = self._ids.header_as_sampled(message.header, message.role)
                    message = replace(message, header=header)
                self._open = self._call_ids.identified(message)
                own, given = message.call_id, self._open.call_id
                if own is not None and given is not None and own != given:
                    # Frames name each call once, so there the model's own id cannot stand again.
                    self.own_ids[given] = own
                    self._inexact |= self._plan.format.framed
                return MessageStarted(self._open)
            case TextDelta(text):
                logprobs = self._logprobs.take()
                return TextDelta(text, logprobs) if logprobs else event
            case MessageEnded(message):
                return self._message_ended(message)
            case Incident():
                return event

    def _message_ended(self, message: Message) -> MessageEnded:
        open, self._open = self._open, None
        self._logprobs.clear()
        sampled: dict[str, Any] = {"text": self._ids.as_sampled(message.text)}
        if open and open.header and open.header == message.header:
            sampled["header"] = open.header  # which has the ids that were sampled
        if message.end is End.NONE:
            sampled["end"] = self._assumed_end(message)
        if message.is_call:
            sampled["call_id"] = open.call_id if open else None
        return MessageEnded(replace(message, **sampled))

    def _assumed_end(self, message: Message) -> End:
        """How a message ended that nothing in the reply ended (A-H10): a call did where the model stopped."""
        if message.is_call:
            broken = is_cut(message.text)
            self._broke_off = broken and self._finished and not self._stopped
            return End.CALL if self._broke_off or ((self._finished or self._stopped) and not broken) else End.NONE
        return End.END if self._stopped else End.NONE

    def _finish(self, end: EngineEnd | None) -> list[Event]:
        self.over, self._finished = True, end is EngineEnd.STOP
        if self._called_enough:
            del self.sampled[self._whole :]
        events: list[Event] = []
        if self._stops.matched is None and not self._called_out:
            limited = end in CUT and not self._ended  # a step may say so that has the reply's own end, too
            if limited and (tail := self._ids.drop_tail()):
                self._inexact = True
                events.append(Incident("cut_mark", self.counts.completion, tail))
            buffered = self._ids.close()
            events += self._pass(self._parser.feed(buffered)) if buffered else []
            events += self._pass(last_events(self._parser, cut=limited))
        cut = self._stops.matched is not None or (end in CUT and self._parser.ended is None)
        inferred = self._collected(self._channels.close(cut=cut))
        events += inferred if self._stops.matched is not None else self._stops.filter(inferred)
        usage = self.counts.usage()
        if self._broke_off:
            events.append(Incident(MALFORMED, self.counts.completion, ""))
        matched = self._stops.matched or self._parser.ended
        return [*events, *self._checked(end), TurnEnded(self._reason(end), usage, matched)]

    def _checked(self, end: EngineEnd | None) -> list[Incident]:
        """A constrained reply that claims to be whole is whole, and its values are what was requested."""
        cut = end in CUT and self._parser.ended is None
        if self._guard is None or cut or self._cut:
            return []
        if not self._called_out:
            self._guard.finish()
        return self._guard.faults(self.messages)

    def _reason(self, end: EngineEnd | None) -> FinishReason:
        """From what was read first, from the engine's word second (P-08)."""
        finished = self._finisher is not None and self._finisher.ended
        if (self._called_out or (self._cut and self._called)) and not finished:
            return FinishReason.TOOL_CALL
        if self._cut:
            return FinishReason.STOP_SEQUENCE
        if finished or (self._parser.ended is None and end in CUT):
            full = self.counts.prompt + self.counts.completion >= self._plan.model.context
            return FinishReason.LENGTH_CONTEXT if full else FinishReason.LENGTH_OUTPUT
        return FinishReason.TOOL_CALL if self._called else FinishReason.STOP_EOS


def is_cut(arguments: str) -> bool:
    """Whether there are none, or they begin as JSON does and are none."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return arguments.lstrip()[:1] in ("", "{", "[")
    return False


def _merged(events: Sequence[Event]) -> list[Event]:
    """Adjacent texts joined: a step's text stays one event."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            merged[-1] = TextDelta(last.text + event.text, last.logprobs + event.logprobs)
        else:
            merged.append(event)
    return merged
