"""Turns that others may cancel while they run: one call of a tool, or all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from antiphon.conversation import FinishReason, Message, TurnEnded, Usage

from .event import StepEvents
from .meter import Deadline
from .rounds import RoundEvent, Rounds


class CancellableRounds:
    """A `Rounds` whose `steps` end early, as cancelled, once `cancel` was called. For the event loop's own thread."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._before = len(rounds.request.conversation.messages)
        self._timer: asyncio.Timeout | None = None
        self._cancelled = False

    @property
    def turn(self) -> tuple[Message, ...]:
        """All that the request became so far, of the turns that are over: messages of the model, results of tools."""
        return self._rounds.request.conversation.messages[self._before :]

    def cancel(self) -> None:
        """Stop the engine and the tools now."""
        self._cancelled = True
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(0)

    def cancel_call(self, call_id: str, reason: str) -> bool:
        """Give up one call that waits or runs; the turns go on. False where there is none of that id."""
        return self._rounds.cancel(call_id, reason)

    async def steps(self, deadline: Deadline | None = None) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        """Those of the rounds; where they were cancelled, a `TurnEnded` that says so is the last."""
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
