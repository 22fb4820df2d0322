"""A prompt that is read and not answered, so that a next one goes on from it in the engine's cache."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import msgspec

from antiphon.conversation import Event, FinishReason, TurnEnded

from .event import StepEvents
from .meter import Deadline, Meter
from .plan import Plan
from .turn import steps


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
