"""A log of all that a reply depended on beside its request, in order.

Whoever makes the reply records it. Who has the record makes the same reply once more, up to where it ends, and goes
on from there: the prompt's ids, what was sampled, what tools answered, and what was made at random on the way. What
was sampled and not recorded is sampled anew.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from antiphon.conversation import TokenLogprob
from antiphon.engines import EngineEnd, Step
from antiphon.errors import EngineLostError, OverloadedError, StoreError
from antiphon.generation.meter import UNMETERED, Meter
from antiphon.generation.plan import Plan
from antiphon.generation.sequences import common
from antiphon.structs import ready
from antiphon.tools import Router, ToolCall, ToolCancelled, ToolEnded, ToolEvent, ToolOutput, ToolResult, ToolStarted

from .continuing import continued

Value = TypeVar("Value")

ROUND = 256
"""Recorded steps that are read before others have their turn on the event loop."""
RETURN, LOOKS = 10.0, 0.1
"""Seconds in which an engine that was lost must be there again, and between two tries."""


class TurnBegan(msgspec.Struct, frozen=True, array_like=True, tag="turn"):
    """A turn, whose prompt has the first ``kept`` ids of what the turn before had in the end, and then ``more``."""

    kept: int
    more: tuple[int, ...]


class Sampled(msgspec.Struct, frozen=True, array_like=True, tag="step"):
    """A step of the engine, of the one choice."""

    ids: tuple[int, ...]
    end: EngineEnd | None = None
    cached_tokens: int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    text: str | None = None
    prompt_tokens: int | None = None


class Called(msgspec.Struct, frozen=True, array_like=True, tag="tool"):
    """An event of a call of a tool: one of these."""

    started: ToolCall | None = None
    cancelled: ToolCancelled | None = None
    result: ToolResult | None = None


class Made(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """A value that is another each time it is made: plain JSON."""

    value: Any


Input = TurnBegan | Sampled | Called | Made


def _plain(value: Any) -> str:
    """Texts that the model sampled are written as texts."""
    if isinstance(value, str):
        return str(value)
    raise TypeError


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
_DECODER: msgspec.msgpack.Decoder[list[Input]] = msgspec.msgpack.Decoder(ready(list[Input]))


def pack_inputs(inputs: Sequence[Input]) -> bytes:
    return _ENCODER.encode(inputs)


def unpack_inputs(stored: bytes) -> list[Input]:
    """Raises `StoreError` for other bytes than `pack_inputs` gives."""
    try:
        return _DECODER.decode(stored)
    except msgspec.DecodeError as error:
        raise StoreError("What a reply depends on cannot be read.", code="store_corrupt") from error


def unrecorded(one: Input) -> None:
    """Nobody records it."""


class ReplayLog:
    """``recorded`` is what an earlier maker of the reply left; ``record`` takes what comes after it."""

    def __init__(self, record: Callable[[Input], None] = unrecorded, recorded: Sequence[Input] = ()) -> None:
        self._record = record
        self._rest = deque(recorded)
        self._ids: list[int] = []
        self.answered: int = sum(isinstance(one, Called) and one.result is not None for one in recorded)
        """Calls whose results are on record."""

    def replay_plan(self, plan: Plan) -> Plan:
        """The plan of the next turn, with the prompt that the turn had when it was first made."""
        if self._rest:
            began = self._rest.popleft()
            if not isinstance(began, TurnBegan):
                raise self._departed()
            plan = replace(plan, prompt_ids=(*self._ids[: began.kept], *began.more))
        else:
            kept = common(self._ids, plan.prompt_ids)
            self._record(TurnBegan(kept, plan.prompt_ids[kept:]))
        self._ids = list(plan.prompt_ids)
        return plan

    def replay_meter(self, meter: Meter) -> Meter:
        """The meter of the turn that was planned; one that is whole on record was counted where it was made."""
        return UNMETERED if any(isinstance(one, TurnBegan | Called) for one in self._rest) else meter

    async def replay_steps(self, plan: Plan) -> AsyncGenerator[Step, None]:
        """The steps of a turn: those on record, then the engine's, which goes on after the last recorded id."""
        prompt, cached, counted = len(self._ids), False, False
        while self._rest and isinstance(one := self._rest[0], Sampled):
            self._rest.popleft()
            self._ids += one.ids
            cached = cached or one.cached_tokens is not None
            counted = counted or one.prompt_tokens is not None
            if one.text is not None:
                raise _cannot("its engine reports no token ids")
            if len(self._rest) % ROUND == 0:
                await asyncio.sleep(0)
            yield Step(
                one.ids, 0, one.logprobs, end=one.end, cached_tokens=one.cached_tokens, prompt_tokens=one.prompt_tokens
            )
            if one.end is not None:
                return
        if self._rest:
            raise self._departed()
        async with aclosing(self._continued(plan, prompt)) as steps:
            async for step in steps:
                # What was sampled before counts among the prompt of the engine's, and not among the client's.
                before, most = len(self._ids) - prompt, prompt
                if before and step.prompt_tokens is not None:
                    most = step.prompt_tokens - before
                    step = msgspec.structs.replace(step, prompt_tokens=None if counted else most)
                if before and step.cached_tokens is not None:
                    step = msgspec.structs.replace(
                        step, cached_tokens=None if cached else min(step.cached_tokens, most)
                    )
                cached = cached or step.cached_tokens is not None
                counted = counted or step.prompt_tokens is not None
                self._ids += step.ids
                self._record(
                    Sampled(step.ids, step.end, step.cached_tokens, step.logprobs, step.text, step.prompt_tokens)
                )
                yield step

    async def _continued(self, plan: Plan, prompt: int) -> AsyncGenerator[Step, None]:
        """The engine's steps; one that is lost goes on once more after the last id, as soon as it is there again."""
        lost: EngineLostError | None = None
        until, reached, has_ids = 0.0, prompt, True
        while True:
            try:
                async with aclosing(continued(plan, self._ids[prompt:])) as steps:
                    async for step in steps:
                        has_ids = has_ids and step.text is None
                        yield step
                return
            except (EngineLostError, OverloadedError) as error:
                if len(self._ids) > reached and lost is None and isinstance(error, EngineLostError) and has_ids:
                    lost, until, reached = error, time.monotonic() + RETURN, len(self._ids)
                if lost is None:
                    raise
                if len(self._ids) > reached or time.monotonic() > until:
                    raise lost from error
            await asyncio.sleep(LOOKS)

    async def replay_results(
        self, router: Router, calls: Sequence[ToolCall], *, seconds: float
    ) -> AsyncGenerator[ToolEvent, None]:
        """Events of the calls: first those on record. A call whose result is not is run, be it once more."""
        left, started = list(calls), set[str]()
        while self._rest and isinstance(one := self._rest[0], Called):
            self._rest.popleft()
            event = _event(one)
            if isinstance(event, ToolStarted):
                started.add(event.call.call_id)
            if isinstance(event, ToolEnded):
                left.remove(next(call for call in left if call.call_id == event.result.call.call_id))
            yield event
        if not left:
            return
        async with aclosing(router.run(left, seconds=seconds)) as events:
            async for event in events:
                if isinstance(event, ToolStarted) and event.call.call_id in started:
                    continue
                self._record(_called(event))
                yield event

    def replay_value(self, make: Callable[[], Value], kind: type[Value]) -> Value:
        """The value that ``make`` gave first."""
        if self._rest:
            one = self._rest.popleft()
            if not isinstance(one, Made):
                raise self._departed()
            return msgspec.convert(one.value, ready(kind))
        value = make()
        self._record(Made(msgspec.to_builtins(value)))
        return value

    def _departed(self) -> EngineLostError:
        """The error of a reply that differs from the recorded one: of another model or version of this program."""
        self._rest.clear()
        return _cannot("it is not made here as it was made before")


def _event(one: Called) -> ToolEvent:
    if one.started is not None:
        return ToolStarted(one.started)
    if one.cancelled is not None:
        return one.cancelled
    assert one.result is not None, "an input without anything"
    return ToolEnded(one.result)


def _called(event: ToolEvent) -> Called:
    match event:
        case ToolStarted(call):
            return Called(started=call)
        case ToolCancelled():
            return Called(cancelled=event)
        case ToolEnded(result):
            return Called(result=_storable(result))


def _storable(result: ToolResult) -> ToolResult:
    """The result; as its text where what the tool returned is none of JSON's values."""
    try:
        _ENCODER.encode(result)
    except (TypeError, ValueError, OverflowError, RecursionError):
        output = ToolOutput(content=result.text(envelope=False))
        return replace(result, output=output if result.ok else None)
    return result


def _cannot(why: str) -> EngineLostError:
    return EngineLostError(f"The reply cannot be continued: {why}.", hint="Try again.")
