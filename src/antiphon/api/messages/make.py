"""Makes one message: its turn, and those that follow it while the model calls tools that run here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import msgspec

from antiphon.conversation import FinishReason, Message
from antiphon.generation import Plan, RoundEvent, StepEvents, prompt_read
from antiphon.generation.meter import Deadline
from antiphon.generation.rounds import Rounds
from antiphon.generation.turn import Source
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post

from .read import RequestedMessage
from .unfinished import MessageMemory
from .write import MessagesWriter


class PlannedMessage(msgspec.Struct, frozen=True):
    """A request that can be answered. ``memory`` is where its turn is stored while calls of it wait for results."""

    requested: RequestedMessage
    plan: Plan
    memory: MessageMemory


@dataclass(slots=True)
class MessageMaker:
    """One message. ``id`` names the state that tools of this server keep while it is made."""

    post: Post
    planned: PlannedMessage
    id: str
    _all: Sequence[Message] | None = field(default=None, init=False)

    async def answer(self, writer: MessagesWriter) -> None:
        """Runs the turns when it is this request's turn, and sends what ``writer`` makes of them."""
        keep = self._keep if self.planned.plan.request.calls else None
        run = self.post.driver([self._source()], keep=keep)
        async with self.post.admitted():
            await self.post.deliver(run, writer, Work())

    def _source(self) -> Source[RoundEvent]:
        """A limit of no tokens reads the prompt, for a next request to go on from."""
        plan, server, meter = self.planned.plan, self.planned.requested.tools.server, self.post.meter()
        if plan.sampling.max_tokens == 0:
            return partial(prompt_read, plan, meter, reason=FinishReason.LENGTH_OUTPUT)
        if server is None:
            return self.post.turn(plan, meter)
        return partial(self._rounds, Rounds(plan, server.router, session=self.id, meter=meter))

    async def _rounds(self, rounds: Rounds, deadline: Deadline) -> AsyncGenerator[StepEvents[RoundEvent], None]:
        before = len(rounds.request.conversation.messages)
        async with aclosing(rounds.steps(deadline)) as steps:
            async for step in steps:
                self._all = rounds.request.conversation.messages[before:]
                yield step

    async def _keep(self, messages: Sequence[Message]) -> None:
        """Stores all that the message became, results of our tools too."""
        await self.planned.memory.keep(messages if self._all is None else self._all)
