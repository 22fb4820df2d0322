"""Makes one message: its turn, and those that follow it while the model calls tools that run here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from antiphon.generation import Plan, RoundEvent
from antiphon.generation.rounds import Rounds
from antiphon.generation.turn import Source, steps
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post
from antiphon.tools import Offer
from antiphon.wire.messages.write import MessagesWriter


@dataclass(frozen=True, slots=True)
class MessageMaker:
    """One message of a plan. ``server``: the tools that run here; ``id`` names the state that they keep meanwhile."""

    post: Post
    plan: Plan
    server: Offer | None
    id: str

    async def answer(self, writer: MessagesWriter) -> None:
        """Runs the turns when it is this request's turn, and sends what ``writer`` makes of them."""
        run = self.post.driver([self._source()])
        async with self.post.admitted():
            await self.post.deliver(run, writer, Work())

    def _source(self) -> Source[RoundEvent]:
        meter = self.post.meter()
        if self.server is None:
            return partial(steps, self.plan, meter)
        return Rounds(self.plan, self.server.router, session=self.id, meter=meter).steps
