"""Turns that go on: turn → calls → results → turn, until an answer, a caller's function, or a limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from antiphon.conversation import (
    End,
    Event,
    FinishReason,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    TextDelta,
    ToolChoice,
    TurnEnded,
    Usage,
)
from antiphon.errors import Position, UnsupportedError
from antiphon.tools import Router, ToolCall, ToolCancelled, ToolEnded, ToolEvent, ToolStarted

from .model import Model
from .plan import Plan
from .request import TurnRequest
from .turn import run_turn

RoundEvent = Event | ToolEvent


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """``rounds`` turns at most, and ``tool_seconds`` for all calls of the request together."""

    rounds: int = 16
    tool_seconds: float = 600.0


Planner = Callable[[Model, TurnRequest], Awaitable[Plan]]


@dataclass(slots=True)
class Rounds:
    """One request with server-side tools. ``conversation`` grows by what was said and answered; read it afterwards."""

    model: Model
    request: TurnRequest
    router: Router
    plan: Planner
    limits: RoundLimits = RoundLimits()
    session: str = ""
    envelope: bool = False
    completion_tokens: int = 0
    """How many tokens were sampled so far, in all turns."""

    async def run(self) -> AsyncGenerator[RoundEvent, None]:
        """The events of all turns, tool events between them, and one `TurnEnded` with the usage of all.

        Calls to tools that the router does not serve go back to the caller: the turn ends with ``tool_call`` once our
        own are answered. Reasoning of the open turn stays in the conversation, so the next sampling sees it; the
        format's history policy drops it after the final answer. Closing the generator cancels engine and tools.
        """
        if self.request.n != 1:
            raise UnsupportedError("server-side tools need n = 1", position=Position(path="n"))
        usage = Usage()
        seconds = self.limits.tool_seconds
        for _ in range(self.limits.rounds):
            said: list[Message] = []
            async with aclosing(self._turn(said)) as turn:
                async for event in turn:
                    if isinstance(event, TurnEnded):
                        ended = event
                    else:
                        yield event
            usage = _sum(usage, ended.usage)
            calls = [message for message in said if message.is_call and message.end is not End.NONE]
            own = [message for message in calls if self.router.serves(message.recipient or "")]
            if ended.reason is not FinishReason.TOOL_CALL or not own:
                self._grow(said)
                yield replace(ended, usage=usage)
                return
            results: list[Message] = []
            async with aclosing(self._answers(own, seconds)) as answers:
                async for tool_event in answers:
                    if isinstance(tool_event, ToolEnded):
                        results.append(tool_event.result.message(envelope=self.envelope))
                        seconds -= tool_event.result.seconds
                    yield tool_event
            self._grow([*said, *_in_order(own, results)])
            if len(own) < len(calls):
                yield replace(ended, usage=usage)
                return
        yield Incident("tool_rounds_exceeded", self.limits.rounds)
        yield TurnEnded(FinishReason.LENGTH_OUTPUT, usage)

    async def _turn(self, said: list[Message]) -> AsyncGenerator[Event, None]:
        before = self.completion_tokens
        async with aclosing(run_turn(await self.plan(self.model, self.request))) as turn:
            async for choice_event in turn:
                match choice_event.event:
                    case MessageEnded(message):
                        said.append(message)
                    case MessageStarted() | TextDelta() | Incident() | TurnEnded():
                        pass
                self.completion_tokens = before + choice_event.completion_tokens
                yield choice_event.event

    async def _answers(self, own: Sequence[Message], seconds: float) -> AsyncGenerator[ToolEvent, None]:
        calls = [ToolCall.of(message, fallback_id=f"call_{i}", session=self.session) for i, message in enumerate(own)]
        async with aclosing(self.router.run(calls, seconds=max(0.0, seconds))) as events:
            async for event in events:
                yield event

    def _grow(self, messages: Sequence[Message]) -> None:
        """What was said is history now; a call that was required was made, and the model is free to answer."""
        choice = self.request.tool_choice
        called = any(message.is_call for message in messages)
        free = ToolChoice("auto", choice.names) if choice.mode == "required" and called else choice
        conversation = self.request.conversation.add(*messages)
        self.request = replace(self.request, conversation=conversation, tool_choice=free)


def _in_order(calls: Sequence[Message], results: Sequence[Message]) -> list[Message]:
    """Results in the order of their calls, whatever order they came in: the same history every time."""
    by_id = {message.call_id: message for message in results}
    return [by_id[call.call_id] for call in calls]


def _sum(before: Usage, turn: Usage) -> Usage:
    """What the request cost so far: every round's prompt is evaluated, so prompts add up as well."""
    return Usage(
        prompt_tokens=before.prompt_tokens + turn.prompt_tokens,
        completion_tokens=before.completion_tokens + turn.completion_tokens,
        cached_tokens=None if turn.cached_tokens is None else (before.cached_tokens or 0) + turn.cached_tokens,
        reasoning_tokens=before.reasoning_tokens + turn.reasoning_tokens,
    )


__all__ = ["RoundEvent", "RoundLimits", "Rounds", "ToolCancelled", "ToolEnded", "ToolStarted"]
