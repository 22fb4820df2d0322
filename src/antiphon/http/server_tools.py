"""Chat completions with tools that run on this side: only where the request, or the server's owner, says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from antiphon.conversation import Event, Message, MessageEnded, MessageStarted
from antiphon.generation import Meter, Plan, StepEvents
from antiphon.generation.meter import Deadline
from antiphon.generation.resume.tape import ReplayLog
from antiphon.generation.rounds import Rounds
from antiphon.tools import Offer, ToolCancelled, ToolEnded, ToolStarted


@dataclass(slots=True)
class ServerToolUse:
    """The tools of this server that one request is offered, and the router that answers its calls to them.

    ``session`` names the state that the tools keep between the calls of the request.
    """

    offer: Offer
    session: str
    _rounds: Rounds | None = None

    @property
    def turn(self) -> tuple[Message, ...]:
        """`Rounds.turn`; nothing before they began."""
        return self._rounds.turn if self._rounds else ()

    async def steps(
        self, plan: Plan, meter: Meter, deadline: Deadline, *, log: ReplayLog | None = None
    ) -> AsyncGenerator[StepEvents[Event], None]:
        """The events of all turns as the client sees them: calls that run here, and their results, are left out."""
        router = self.offer.router
        self._rounds = rounds = Rounds(plan, router, session=self.session, meter=meter, log=log)
        hidden, offered = False, plan.request.calls or ()
        async with aclosing(rounds.steps(deadline)) as steps:
            async for step in steps:
                events: list[Event] = []
                for event in step.events:
                    if isinstance(event, ToolStarted | ToolEnded | ToolCancelled):
                        continue
                    if isinstance(event, MessageStarted):
                        recipient = event.message.recipient or ""
                        hidden = event.message.is_call and (recipient not in offered or router.serves(recipient))
                    if not hidden:
                        events.append(event)
                    hidden = hidden and not isinstance(event, MessageEnded)
                if events:
                    yield StepEvents(0, events, step.completion_tokens)
