"""One turn: prompt → engine → parser → events. Streaming and not streaming are these events, collected or not."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import count

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
    TokenLogprob,
    TurnEnded,
    Usage,
)
from antiphon.engines import EngineEnd, Step
from antiphon.errors import EngineError
from antiphon.tokens import Control, ControlScanner, Piece, PieceDecoder, SampledText, Tokenizer, utf8

from .barred import without_calls
from .event import ChoiceEvent
from .held import ReplyGuard
from .plan import Plan, stop_ids
from .stops import StopStrings


def run_turn(plan: Plan) -> AsyncGenerator[ChoiceEvent, None]:
    """The events of every choice; each choice ends with one `TurnEnded`. Closing the generator stops the engine.

    Errors are the engine's: `EngineLostError`, `OverloadedError` …; what came before them was said.
    """
    filter = plan.model.filter
    events = _events(plan)
    return events if filter is None else filter(events, prompt_tokens=len(plan.prompt_ids))


async def _events(plan: Plan) -> AsyncGenerator[ChoiceEvent, None]:
    if plan.request.requires_grammar and plan.held is None and not plan.request.best_effort:
        raise EngineError("a plan that must be held was run without its grammar", code="grammar_missing")
    readers = [ChoiceReader(plan, choice) for choice in range(plan.request.n)]
    if plan.sampling.max_tokens > 0:
        steps = plan.model.engine.generate(
            plan.prompt_ids,
            plan.sampling,
            n=plan.request.n,
            grammar=plan.grammar,
            affinity=plan.request.affinity,
        )
        async with aclosing(steps):
            async for step in steps:
                reader = readers[step.choice]
                for event in reader.read(step):
                    yield ChoiceEvent(step.choice, event, reader.completion_tokens)
                if reader.over and all(other.over for other in readers):
                    break
    for choice, reader in enumerate(readers):
        for event in reader.close():
            yield ChoiceEvent(choice, event, reader.completion_tokens)


class ChoiceReader:
    """Reads what the engine says for one choice: ids → pieces → events, until something ends it."""

    def __init__(self, plan: Plan, choice: int = 0) -> None:
        self._plan = plan
        self._piece = plan.model.tokenizer.piece
        self._call_ids = _call_ids(plan, choice)
        self._decoder = PieceDecoder(plan.model.tokenizer)
        self._scanner = ControlScanner(plan.model.format.controls)
        self._parser = plan.parser()
        self._guard = None if plan.held is None else ReplyGuard(plan.held, plan)
        self._said: list[Message] = []
        self._stops = StopStrings(plan.request.stop)
        self._plain = not plan.request.stop and plan.request.tool_choice.mode != "none"
        self._end_ids = _foreign_ends(plan)
        self._open: Message | None = None
        self._pending: list[TokenLogprob] = []
        self._sampled: list[int] = []
        self._called = False
        self.completion_tokens = 0
        self._reasoning_tokens = 0
        self._cached_tokens: int | None = None
        self.over = False

    def read(self, step: Step) -> list[Event]:
        """The events of one step; nothing after the choice is over."""
        if self.over:
            return []
        if step.cached_tokens is not None:
            self._cached_tokens = step.cached_tokens
        if self._guard is not None:
            self._guard.follow(step.ids)
        events: list[Event] = []
        if step.text is not None:
            events += self._pass(self._parser.feed(self._scanner.feed(step.text)))
        ended = step.text is not None and self._ended
        for i, id in enumerate(step.ids):
            if ended:
                break
            if step.logprobs:
                self._await_text(step.logprobs[i])
            events += self._feed(id)
            ended = self._ended
        if ended or step.end is not None:
            events += self._finish(step.end)
        return events if len(step.ids) < 2 else _merged(events)

    def close(self) -> list[Event]:
        """The engine has nothing more to say, and did not say why: the answer was cut."""
        return [] if self.over else self._finish(EngineEnd.LENGTH_OUTPUT)

    def _feed(self, id: int) -> list[Event]:
        """One id at a time, so that what is counted does not depend on how the engine cut its steps."""
        self.completion_tokens += 1
        if self._open is not None and self._open.channel == Channel.ANALYSIS:
            self._reasoning_tokens += 1
        if id in self._end_ids:
            return []
        control = isinstance(self._piece(id), Control)
        if not control:
            self._sampled.append(id)
        events = self._pass(self._parser.feed(self._decoder.feed((id,))))
        if control:
            self._sampled = []
        return events

    def _await_text(self, told: TokenLogprob) -> None:
        """A token's log probability goes with the text that it becomes; a control becomes none, nor do those before."""
        if isinstance(self._piece(told.id), Control):
            self._pending = []
        else:
            self._pending.append(told)

    @property
    def _ended(self) -> bool:
        """Something that was read ends the reply."""
        return self._parser.ended is not None or self._stops.matched is not None or self._called_alone

    @property
    def _called_alone(self) -> bool:
        return self._called and not self._plan.request.parallel_tool_calls

    def _pass(self, events: Sequence[ParserEvent]) -> list[Event]:
        """Parser events on their way out: log probabilities put to their text, stop strings looked for."""
        if self._plain and not self._pending and len(events) == 1 and isinstance(events[0], TextDelta):
            return list(events)  # Nearly every token of nearly every reply.
        request, noted = self._plan.request, list[ParserEvent]()
        if request.tool_choice.mode == "none":
            own = (namespace.name for namespace in request.conversation.builtins)
            events = list(without_calls(events, own, position=self.completion_tokens))
        for event in events:
            if self._called_alone:
                break
            noted.append(self._note(event))
        return list(self._stops.filter(noted))

    def _note(self, event: ParserEvent) -> ParserEvent:
        match event:
            case MessageStarted(message):
                self._open = self._identified(message)
                return MessageStarted(self._open)
            case TextDelta(text):
                pending, self._pending = tuple(self._pending), []
                return TextDelta(text, pending) if pending else event
            case MessageEnded(message):
                self._said.append(message)
                known = self._open.call_id if self._open else None
                self._open, self._pending = None, []
                self._called = self._called or (message.is_call and message.end is not End.NONE)
                message = replace(message, text=self._as_sampled(message.text))
                return MessageEnded(replace(message, call_id=known) if message.is_call else message)
            case Incident():
                return event

    def _as_sampled(self, text: str) -> str:
        """The text with the ids that were sampled since the last control, where they are just this text.

        A text that was cut or mended is another text than they say, and is encoded anew in the next prompt.
        """
        sampled, self._sampled = tuple(self._sampled), []
        tokenizer = self._plan.model.tokenizer
        return SampledText(text, sampled, tokenizer.name) if text and _says(tokenizer, sampled, text) else text

    def _identified(self, message: Message) -> Message:
        """A call under the model's own id, or the next of ours."""
        if not message.is_call or message.call_id is not None:
            return message
        return replace(message, call_id=next(self._call_ids))

    def _finish(self, end: EngineEnd | None) -> list[Event]:
        self.over = True
        events: list[Event] = []
        if self._stops.matched is None and not self._called_alone:
            held: list[Piece] = [*self._scanner.close(), *self._decoder.close()]
            events += self._pass(self._parser.feed(held)) if held else []
            events += self._pass(self._parser.close())
        usage = Usage(
            prompt_tokens=len(self._plan.prompt_ids),
            completion_tokens=self.completion_tokens,
            cached_tokens=self._cached_tokens,
            reasoning_tokens=self._reasoning_tokens,
        )
        matched = self._stops.matched or self._parser.ended
        return [*events, *self._checked(end), TurnEnded(self._reason(end), usage, matched)]

    def _checked(self, end: EngineEnd | None) -> list[Incident]:
        """A held reply that claims to be whole is whole, and its values are what was asked for."""
        cut = end in (EngineEnd.LENGTH_OUTPUT, EngineEnd.LENGTH_CONTEXT) and self._parser.ended is None
        if self._guard is None or cut or self._stops.matched is not None:
            return []
        if not self._called_alone:
            self._guard.finish()
        return self._guard.faults(self._said)

    def _reason(self, end: EngineEnd | None) -> FinishReason:
        """From what was read first, from the engine's word second (P-08)."""
        if self._stops.matched is not None:
            return FinishReason.STOP_SEQUENCE
        if self._called_alone:
            return FinishReason.TOOL_CALL
        if self._parser.ended is None and end in (EngineEnd.LENGTH_OUTPUT, EngineEnd.LENGTH_CONTEXT):
            full = len(self._plan.prompt_ids) + self.completion_tokens >= self._plan.model.context
            return FinishReason.LENGTH_CONTEXT if full else FinishReason.LENGTH_OUTPUT
        return FinishReason.TOOL_CALL if self._called else FinishReason.STOP_EOS


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


def _says(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> bool:
    pieces = map(tokenizer.piece, ids)
    return b"".join(piece for piece in pieces if isinstance(piece, bytes)) == utf8(text)


def _call_ids(plan: Plan, choice: int) -> Iterator[str]:
    """Ids in document order, none of them in the conversation yet; each choice has its own."""
    prefix = plan.request.call_prefix if plan.request.n == 1 else f"{plan.request.call_prefix}{choice}_"
    messages = plan.request.conversation.messages
    taken = {message.call_id for message in messages}
    first = sum(message.is_call for message in messages)
    return (id for id in (f"{prefix}{number}" for number in count(first)) if id not in taken)


def _foreign_ends(plan: Plan) -> frozenset[int]:
    """The model's end tokens that the format does not know: they end the reply and are no part of it.

    ``ignore_eos``: the format's own ends too, which then end nothing.
    """
    if plan.request.ignore_eos:
        return plan.model.engine.info.end_ids | stop_ids(plan.model)
    tokenizer = plan.model.tokenizer
    known = {tokenizer.control_id(control) for control in plan.model.format.controls}
    known |= {tokenizer.control_id(stop) for stop in plan.model.format.stops if isinstance(stop, Control)}
    return plan.model.engine.info.end_ids - known
