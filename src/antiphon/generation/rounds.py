"""Turns that go on: turn → calls → results → turn, until an answer, a caller's function, or a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from antiphon.conversation import (
    FUNCTIONS,
    Conversation,
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    Role,
    ToolChoice,
    TurnEnded,
    Usage,
)
from antiphon.errors import Position, UnsupportedError
from antiphon.tools import (
    TOOL_UNKNOWN,
    Router,
    ToolCall,
    ToolCancelled,
    ToolEnded,
    ToolError,
    ToolEvent,
    ToolResult,
    ToolStarted,
)
from antiphon.tools.call import dump

from .constraint import prepare_turn
from .images import left_out
from .meter import UNLIMITED, UNMETERED, Deadline, Meter
from .plan import Plan
from .reply import StepEvents
from .request import TurnRequest
from .resume.tape import ReplayLog
from .turn import Source, steps

RoundEvent = Event | ToolEvent
"""An event of `run_rounds`: the events of the model's turns, and those of the tools between them."""


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """``rounds`` turns at most, and ``tool_seconds`` for the calls of all turns; calls beside each other count once."""

    rounds: int = 16
    tool_seconds: float = 600.0


MISSES = 2
"""Turns with calls of what is not there that are answered; those of a later one are read as text."""
MOST_NAMES = 40
"""Tools that an error names to the model, at most."""
UNENDED = TurnEnded(FinishReason.ERROR, Usage())


@dataclass(slots=True)
class Turn:
    """One of the turns, as far as it has come."""

    messages: list[Message] = field(default_factory=list)
    ended: TurnEnded = UNENDED

    @property
    def calls(self) -> list[Message]:
        """The calls that are whole."""
        return [message for message in self.messages if message.is_call and message.end is not End.NONE]

    def note(self, events: Sequence[Event]) -> list[RoundEvent]:
        """The events without the turn's end."""
        passed: list[RoundEvent] = []
        for event in events:
            if isinstance(event, TurnEnded):
                self.ended = event
                continue
            if isinstance(event, MessageEnded):
                self.messages.append(event.message)
            passed.append(event)
        return passed


@dataclass(slots=True)
class Rounds:
    """One request with server-side tools, from the ``plan`` of its first turn on.

    ``approved`` are calls of the conversation that run before the first turn: their results take the place of what
    answers them there. Calls to recipients that are ``gated`` go back to the caller, for its user to approve.
    ``session`` names the state that tools keep between calls; ``envelope``: results are wrapped as OpenChatML has them.
    """

    plan: Plan
    router: Router
    limits: RoundLimits = RoundLimits()
    session: str = ""
    envelope: bool = False
    meter: Meter = UNMETERED
    approved: Sequence[Message] = ()
    gated: Collection[str] = ()
    log: ReplayLog | None = None
    request: TurnRequest = field(init=False)
    """Grows by the replies and the results; read it afterwards."""
    completion_tokens: int = field(default=0, init=False)
    """How many tokens were sampled so far, in all turns."""
    _before: int = field(init=False)
    """How many messages there were before the first turn."""
    _seconds: float = field(init=False)
    """Seconds that are left for tools."""
    _results: list[Message] = field(default_factory=list, init=False)
    """The results of the calls that ran last."""

    def __post_init__(self) -> None:
        self.request = self.plan.request
        self._before = len(self.request.conversation.messages)
        self._seconds = self.limits.tool_seconds

    @property
    def turn(self) -> tuple[Message, ...]:
        """All that the request became so far, of the turns that are over: messages of the model, results of tools."""
        return self.request.conversation.messages[self._before :]

    async def steps(self, deadline: Deadline | None = None) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        """The events of all turns, tool events between them, and one `TurnEnded` with the usage of all.

        Calls to tools that the router does not serve go back to the caller: the turn ends with ``tool_call`` once the
        served ones are answered. Reasoning of the open turn stays in the conversation, so the next sampling sees it;
        the format's history policy drops it after the final answer. Closing the generator cancels engine and tools.
        """
        _check_possible(self.request)
        usage = Usage()
        if self.approved:
            async with aclosing(self._run(self.approved)) as first:
                async for step in first:
                    yield step
            self.request = replace(self.request, conversation=self._with_results())
        misses = 0
        for number in range(self.limits.rounds):
            turn, before = Turn(), self.completion_tokens
            if number or self.approved:
                self.plan = await prepare_turn(self.plan.model, self.request, off_loop=True)
            reads = misses < MISSES and bool(self.request.calls and self.router.recipients)
            plan = replace(self.plan, request=replace(self.plan.request, reads_miscalls=reads))
            async with aclosing(steps(plan, self.meter, deadline, log=self.log)) as sampled:
                async for step in sampled:
                    self.completion_tokens = before + step.completion_tokens
                    if events := turn.note(step.events):
                        yield StepEvents(0, events, self.completion_tokens)
            ended = turn.ended
            usage = sum_of(usage, ended.usage)
            calls = turn.calls
            served = [message for message in calls if self._serves(message.recipient or "")]
            missing = [message for message in calls if reads and not self._is_offered(message.recipient or "")]
            if ended.reason is not FinishReason.TOOL_CALL or not (served or missing):
                self._grow(turn.messages)
                yield self._step(msgspec.structs.replace(ended, usage=usage))
                return
            async with aclosing(self._run(served, missing)) as ran:
                async for step in ran:
                    yield step
            misses += bool(missing)
            self._grow([*turn.messages, *_in_order(calls, self._results)])
            if len(served) + len(missing) < len(calls):
                yield self._step(msgspec.structs.replace(ended, usage=usage))
                return
        yield self._step(Incident("tool_rounds_exceeded", self.limits.rounds))
        yield self._step(TurnEnded(FinishReason.LENGTH_OUTPUT, usage))

    def _step(self, event: RoundEvent) -> StepEvents[RoundEvent]:
        return StepEvents(0, (event,), self.completion_tokens)

    def cancel(self, call_id: str, reason: str = "the call was cancelled") -> bool:
        """Give up one call of a tool that waits or runs; the turns go on with ``E-TOOL-CANCELLED`` as its result."""
        return self.router.cancel(call_id, session=self.session, reason=reason)

    def _is_offered(self, recipient: str) -> bool:
        return self.request.calls is None or recipient in self.request.calls

    def _serves(self, recipient: str) -> bool:
        return self._is_offered(recipient) and recipient not in self.gated and self.router.serves(recipient)

    def _refused(self, message: Message) -> Iterator[StepEvents[RoundEvent]]:
        """The events of a call of what is not there, whose result tells the model what there is."""
        names = sorted(self.request.calls or ())[:MOST_NAMES]
        if not self.plan.format.framed:  # its prompts have no namespaces
            names = [name.removeprefix(f"{FUNCTIONS}.") for name in names]
        call = ToolCall.of(message, fallback_id="", session=self.session, owner=self.request.tenant.owner)
        why = f"there is no tool {call.recipient[:80]!r}; there are {', '.join(names)}"
        result = ToolResult(call=call, error=ToolError(TOOL_UNKNOWN, why))
        self._results.append(result.message(envelope=self.envelope))
        yield self._step(ToolStarted(call))
        yield self._step(ToolEnded(result))

    async def _run(
        self, calls: Sequence[Message], missing: Sequence[Message] = ()
    ) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        """The events of calls, and of those of what is not there, whose results are then the latest."""
        self._results, began = [], self.router.clock()
        owner = self.request.tenant.owner
        tool_calls = [
            ToolCall.of(one, fallback_id=f"call_{i}", session=self.session, owner=owner) for i, one in enumerate(calls)
        ]
        run = self.router.run if self.log is None else partial(self.log.replay_results, self.router)
        async with aclosing(run(tool_calls, seconds=max(0.0, self._seconds))) as events:
            async for event in events:
                if isinstance(event, ToolEnded):
                    event = await self._readable(event)
                    self._results.append(event.result.message(envelope=self.envelope))
                yield self._step(event)
        self._seconds -= self.router.clock() - began
        for message in missing:
            for step in self._refused(message):
                yield step

    async def _readable(self, event: ToolEnded) -> ToolEnded:
        """The result without what is no image: this turn's next prompt would be refused for it, and each one after."""
        model, output = self.plan.model, event.result.output
        if output is None or not output.media or not model.image_mark:
            return event
        media = await model.images.readable(output.media, self.request.tenant.domain())
        if len(media) == len(output.media):
            return event
        text = output.content if isinstance(output.content, str) else dump(output.content)
        output = replace(output, content=text + left_out(len(output.media) - len(media)), media=media)
        return ToolEnded(replace(event.result, output=output))

    def _with_results(self) -> Conversation:
        """The conversation, with the latest results in the place of what answers their calls."""
        conversation, results = self.request.conversation, {message.call_id: message for message in self._results}
        answered = tuple(
            results.get(message.call_id, message) if message.role is Role.TOOL else message
            for message in conversation.messages
        )
        return replace(conversation, messages=answered)

    def _grow(self, messages: Sequence[Message]) -> None:
        """The reply is history now; a call that was required was made, and the model is free to answer.

        The one call of a tool that was named is the only one.
        """
        choice = self.request.tool_choice
        called = any(message.is_call and self._is_offered(message.recipient or "") for message in messages)
        free = ToolChoice("none") if choice.once else ToolChoice("auto", choice.names)
        free = free if choice.mode == "required" and called else choice
        conversation = self.request.conversation.add(*messages)
        self.request = replace(self.request, conversation=conversation, tool_choice=free)


def _check_possible(request: TurnRequest) -> None:
    """Several turns have several prompts, and one answer."""
    if request.n != 1:
        raise UnsupportedError("server-side tools need n = 1", position=Position(path="n"))
    for name in request.of_ids:
        raise UnsupportedError(
            f"{name} cannot be honoured where the server runs tools: several prompts have one answer",
            position=Position(path=name),
            hint="Leave server-side tools out, and answer calls yourself.",
        )


def turns_of(
    plan: Plan,
    router: Router | None,
    *,
    limits: RoundLimits = RoundLimits(),
    session: str = "",
    meter: Meter = UNMETERED,
    approved: Sequence[Message] = (),
    gated: Collection[str] = (),
    log: ReplayLog | None = None,
) -> Source[RoundEvent]:
    """The turn of ``plan``, and those that follow it while the model calls tools that ``router`` serves.

    ``approved`` and ``gated`` are those of `Rounds`. ``log`` records them, or says how they were made
    first. Without a router there is one turn, whose calls go back to the caller.
    """
    if router is None:
        return partial(steps, plan, meter, log=log)
    return Rounds(plan, router, limits, session, meter=meter, approved=approved, gated=gated, log=log).steps


async def run_rounds(
    plan: Plan,
    router: Router | None = None,
    *,
    limits: RoundLimits = RoundLimits(),
    session: str = "",
    meter: Meter = UNMETERED,
) -> AsyncGenerator[RoundEvent, None]:
    """The events of `turns_of`, one by one. Closing the generator stops the engine and the tools."""
    turns = turns_of(plan, router, limits=limits, session=session, meter=meter)
    async with aclosing(turns(Deadline(UNLIMITED))) as sampled:
        async for step in sampled:
            for event in step.events:
                yield event


def _in_order(calls: Sequence[Message], results: Sequence[Message]) -> list[Message]:
    """Results in the order of their calls, whatever order they came in: the same history every time."""
    by_id = {message.call_id: message for message in results}
    return [by_id[call.call_id] for call in calls if call.call_id in by_id]


def sum_of(before: Usage, turn: Usage) -> Usage:
    """The cost of a request so far: every round's prompt is evaluated, so prompts add up as well."""
    return Usage(
        prompt_tokens=before.prompt_tokens + turn.prompt_tokens,
        completion_tokens=before.completion_tokens + turn.completion_tokens,
        cached_tokens=None if turn.cached_tokens is None else (before.cached_tokens or 0) + turn.cached_tokens,
        reasoning_tokens=before.reasoning_tokens + turn.reasoning_tokens,
    )


__all__ = ["RoundEvent", "RoundLimits", "Rounds", "ToolCancelled", "ToolEnded", "ToolStarted"]


# Turns that others may cancel while they run: one call of a tool, or all of it.


class CancellableRounds:
    """A `Rounds` whose `steps` end early, as cancelled, once `cancel` was called. For the event loop's own thread."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._timer: asyncio.Timeout | None = None
        self._cancelled = False

    @property
    def turn(self) -> tuple[Message, ...]:
        """`Rounds.turn`."""
        return self._rounds.turn

    def cancel(self) -> None:
        """Stop the engine and the tools now."""
        self._cancelled = True
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(0)

    def cancel_call(self, call_id: str, reason: str) -> bool:
        """Give up one call that waits or runs; the turns go on. False where there is none of that id."""
        return self._rounds.cancel(call_id, reason)

    async def steps(self, deadline: Deadline | None = None) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        """The steps of the rounds; where they were cancelled, a `TurnEnded` that says so is the last."""
        async with aclosing(self._rounds.steps(deadline)) as steps:
            while not self._cancelled and (step := await self._next(steps)) is not None:
                yield step
        if self._cancelled:
            tokens = self._rounds.completion_tokens
            usage = Usage(prompt_tokens=len(self._rounds.plan.prompt_ids), completion_tokens=tokens)
            yield StepEvents(0, (TurnEnded(FinishReason.CANCELLED, usage),), tokens)

    async def _next(self, steps: AsyncGenerator[StepEvents[RoundEvent], None]) -> StepEvents[RoundEvent] | None:
        """The next step; None where there is none, or where `cancel` came meanwhile."""
        try:
            async with asyncio.timeout(None) as self._timer:
                return await anext(steps, None)
        except TimeoutError:
            if not self._cancelled:
                raise
            return None
        finally:
            self._timer = None
