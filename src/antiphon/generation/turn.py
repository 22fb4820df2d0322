"""One turn: prompt → engine → reader → events. It is pulled by who iterates over it, or pushed to who is served."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace as replace_in

from antiphon.conversation import Event, FinishReason, Incident, Message, MessageEnded, TextDelta, TurnEnded
from antiphon.tokens import Control

from .constraint import guard_of
from .departure import GrammarViolation
from .meter import UNLIMITED, UNMETERED, Deadline, Meter, TimeLimits
from .plan import Plan
from .reader import ChoiceReader
from .reader.ids import spelled
from .reply import ChoiceEvent, PromptLogprobs, StepEvents
from .resume.continuing import begun
from .resume.tape import ReplayLog

EventT = TypeVar("EventT")
OutputT = TypeVar("OutputT")
Source = Callable[[Deadline], AsyncGenerator[StepEvents[EventT], None]]
"""Begins the events of a request, whose turns report to the deadline when they begin, write and end."""
Send = Callable[[OutputT], Awaitable[None] | None]
"""Takes what was written of a step; what it returns is awaited before the next."""
Keep = Callable[[Sequence[Message]], Awaitable[None]]
"""Stores the messages of a choice that ended."""


async def run_turn(plan: Plan, *, meter: Meter = UNMETERED) -> AsyncGenerator[ChoiceEvent, None]:
    """The events of every choice; each choice ends with one `TurnEnded`. Closing the generator stops the engine.

    Errors are the engine's: `EngineLostError`, `OverloadedError` …; the events before them remain valid.
    """
    async with aclosing(steps(plan, meter)) as turn:
        async for step in turn:
            for event in step.events:
                yield ChoiceEvent(step.choice, event, step.completion_tokens)


def in_order(*keeps: Keep | None) -> Keep | None:
    """All of them, each once the one before has stored what it stores."""
    given = [keep for keep in keeps if keep is not None]

    async def keep(messages: Sequence[Message]) -> None:
        for one in given:
            await one(messages)

    return keep if given else None


async def drive(
    source: Source[EventT],
    write: Callable[[StepEvents[EventT]], OutputT],
    send: Send[OutputT],
    *,
    limits: TimeLimits = UNLIMITED,
    keep: Keep | None = None,
) -> None:
    """Runs a request to its end: ``write`` makes something of each step, and ``send`` takes what is not empty.

    This coroutine is to be a task of its own: then nothing comes between the event loop and the engine. ``keep`` is
    awaited with the messages of each choice before its end is sent: whoever has the end can rely on it.
    Raises what the engine raises, and `OverloadedError` when a turn exceeds ``limits``.
    """
    messages: defaultdict[int, list[Message]] = defaultdict(list)
    async with Deadline(limits) as deadline, aclosing(source(deadline)) as turn:
        async for step in turn:
            written = write(step)
            for event in step.events if keep is not None else ():
                if isinstance(event, MessageEnded):
                    messages[step.choice].append(event.message)
                elif isinstance(event, TurnEnded) and keep is not None:
                    await keep(messages[step.choice])
            waits = send(written) if written else None
            if waits is not None:
                await waits


async def steps(
    plan: Plan,
    meter: Meter = UNMETERED,
    deadline: Deadline | None = None,
    *,
    first_choice: int = 0,
    log: ReplayLog | None = None,
    whole: bool = False,
) -> AsyncGenerator[StepEvents[Event], None]:
    """The events of a turn, step by step of its engine; its choices are numbered from ``first_choice`` on.

    ``log``: what was recorded of the turn stands for what the engine would say, and the rest is recorded (n = 1).
    ``whole``: nobody reads before the end, so that the engine may be asked for whole replies.
    """
    plan = _asked_whole(plan) if whole and log is None else plan
    if log is not None:
        plan = log.replay_plan(plan)
        meter = log.replay_meter(meter)
    async with Metering(plan, meter, deadline) as metering:
        readers = [ChoiceReader(plan, choice, guard_of(plan)) for choice in range(plan.request.n)]
        scored = None if plan.request.prompt_logprobs is None else await _scored(plan, plan.request.prompt_logprobs)
        notes = _Notes(plan, scored, first_choice)
        if plan.sampling.max_tokens > 0:
            sampling = begun(plan) if log is None else log.replay_steps(plan)
            async with aclosing(sampling) as sampled:
                async for step in sampled:
                    choice, reader = first_choice + step.choice, readers[step.choice]
                    if events := reader.read(step):
                        now, tokens = time.perf_counter(), reader.counts.completion
                        more = tokens - metering.tokens.get(choice, 0)
                        metering.tokens[choice] = tokens
                        if metering.last and more:
                            metering.between((now - metering.last) / more)
                            metering.last = now
                        # What is noted of text is its time, here: a call for each token costs as much as reading it.
                        if not metering.last or len(events) > 1 or not isinstance(events[0], TextDelta):
                            metering.note(events, choice)
                        counts = reader.counts
                        happened = StepEvents(choice, events, tokens, (), None, counts.cached, counts.prompt)
                        yield notes.of(reader, happened) if notes.many or reader.over else happened
                    if reader.over and all(other.over for other in readers):
                        break
        for choice, reader in enumerate(readers, first_choice):
            if events := reader.close():
                metering.note(events, choice)
                metering.tokens[choice] = reader.counts.completion
                counts = reader.counts
                happened = StepEvents(choice, events, counts.completion, (), None, counts.cached, counts.prompt)
                yield notes.of(reader, happened) if notes.many or reader.over else happened
    await notes.stored()


def _asked_whole(plan: Plan) -> Plan:
    """The plan, which asks the engine for whole replies where it ends them by itself as the reader would."""
    request, format = plan.request, plan.format
    if not plan.model.engine.info.whole or plan.constraint is not None or format.framed:
        return plan
    if request.stop or request.one_call or plan.sampling.logprobs is not None:
        return plan
    tokenizer = plan.model.tokenizer
    if not all(isinstance(stop, Control) and tokenizer.control_id(stop) is not None for stop in format.stops):
        return plan
    return replace(plan, sampling=replace(plan.sampling, whole=True))


async def _scored(plan: Plan, alternatives: int) -> PromptLogprobs:
    """The log probabilities of the prompt."""
    scored = await plan.model.engine.score(plan.prompt_ids, alternatives=alternatives, tenant=plan.request.tenant)
    return [None if one is None else spelled(one, plan.model.tokenizer) for one in scored]


class _Notes:
    """Adds to a turn's events what its request wants to know besides; remembers a choice that is over."""

    def __init__(self, plan: Plan, scored: PromptLogprobs | None, first_choice: int) -> None:
        self._plan = plan
        self._scored = scored
        self._unsent = set(range(first_choice, first_choice + plan.request.n)) if scored is not None else set[int]()
        self._request = plan.request
        self._writing: list[asyncio.Task[None]] = []
        self.many = scored is not None or plan.request.return_token_ids
        """There is more than what the end of a choice brings; for nearly every request there is not."""

    async def stored(self) -> None:
        """Waits until other servers find what is remembered of the turn."""
        if self._writing:
            await asyncio.wait(self._writing)

    def of(self, reader: ChoiceReader, step: StepEvents[Event]) -> StepEvents[Event]:
        """The step with what is to be known of it."""
        if step.choice in self._unsent:
            self._unsent.remove(step.choice)
            step = replace_in(step, prompt=self._scored)
        if reader.over and self._plan.remembered:
            from .recall import remember  # to render a prompt needs no store

            self._writing += remember(self._plan, reader)
        return replace_in(step, ids=reader.take_ids()) if self._request.return_token_ids else step


class Metering:
    """Reports one turn to the meter and the deadline. It ends with the context, by what is raised there if anything is.

    Instead of a `GrammarViolation` its cause is raised.
    """

    def __init__(self, plan: Plan, meter: Meter, deadline: Deadline | None) -> None:
        self._meter = meter.begin(len(plan.prompt_ids))
        self._deadline = deadline or Deadline(UNLIMITED)
        self._deadline.begin()
        self._whole = plan.sampling.whole
        self.between = UNMETERED.between if self._whole else self._meter.between
        self.tokens: dict[int, int] = {}
        """Tokens of each choice that had any event."""
        self.last = 0.0
        """When a token came last (`time.perf_counter`); 0: none did."""
        for incident in plan.incidents:
            self._meter.incident(incident.code)

    def note(self, events: Sequence[Event], choice: int) -> None:
        """Reports the first event, incidents and ends."""
        if not self.last:
            self.last = time.perf_counter()
            if not self._whole:  # Of a whole reply nobody knows when its first token was there.
                self._meter.first()
            self._deadline.first()
        for event in events:
            if isinstance(event, Incident):
                self._meter.incident(event.code)
            elif isinstance(event, TurnEnded):
                self._meter.ended(choice, event)

    async def __aenter__(self) -> Metering:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if not isinstance(error, GrammarViolation):
            self.end(error)
            return
        ended: BaseException = error
        try:
            ended = cause = await error.cause()
        except BaseException as cancelled:
            ended = cancelled
            raise
        finally:
            self.end(ended)
        raise cause from None

    def end(self, error: BaseException | None) -> None:
        self._meter.end(self.tokens, None if error is None else self._deadline.cause(error))
        self._deadline.over()


# Several turns of one request at a time.

EventT_co = TypeVar("EventT_co", covariant=True)


class Drive(Protocol[EventT_co]):
    """Runs a request to its end, as `antiphon.generation.turn.drive` does with the events of a source."""

    def __call__(
        self, write: Callable[[StepEvents[EventT_co]], OutputT], send: Send[OutputT]
    ) -> Coroutine[Any, Any, None]: ...


async def drive_all(
    sources: Sequence[Source[EventT]],
    write: Callable[[StepEvents[EventT]], OutputT],
    send: Send[OutputT],
    *,
    at_once: int,
    limits: TimeLimits = UNLIMITED,
    keep: Keep | None = None,
) -> None:
    """`drive` for each of the sources, ``at_once`` at a time. The first error ends all and is raised."""
    if len(sources) == 1:  # The event loop resumes a task of its own without the frames of those who wait for it.
        return await asyncio.create_task(drive(sources[0], write, send, limits=limits, keep=keep))
    waiting = iter(sources)

    async def work() -> None:
        for source in waiting:
            await drive(source, write, send, limits=limits, keep=keep)

    workers = [asyncio.create_task(work()) for _ in range(max(1, min(at_once, len(sources))))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


# A prompt that is read and not answered, so that a next one goes on from it in the engine's cache.


async def prompt_read(
    plan: Plan, meter: Meter, deadline: Deadline, *, reason: FinishReason = FinishReason.STOP_EOS
) -> AsyncGenerator[StepEvents[Event], None]:
    """The end of a turn, for that ``reason``, once the engine has read its prompt; at most one token is sampled."""
    one = replace(plan, sampling=replace(plan.sampling, max_tokens=1))
    async with aclosing(steps(one, meter, deadline)) as sampled:
        async for step in sampled:
            if isinstance(end := step.events[-1], TurnEnded):
                usage = msgspec.structs.replace(end.usage, completion_tokens=0, reasoning_tokens=0)
                yield StepEvents(0, (TurnEnded(reason, usage),), 0)
