"""One response on its way: turns, what they are to the client, and what is kept of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import msgspec

from antiphon.api.call import Call
from antiphon.errors import AntiphonError
from antiphon.generation import Model, Plan, TurnRequest, run_turn
from antiphon.generation.rounds import RoundEvent, Rounds
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.items import Entry
from antiphon.wire.responses.read import Asked, prepare_response
from antiphon.wire.responses.schema import Response
from antiphon.wire.responses.write import Projector, Said, View

from .archive import StoredResponse
from .runs import ResponseCancelled, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """All that was decided before the first token. ``inputs`` are the items that this request brought."""

    owner: str
    asked: Asked
    plan: Plan
    head: Response
    view: View
    inputs: tuple[Entry, ...]
    thread: str
    conversation: str = ""


class Responder:
    """Makes one response. `events` is the only road: what streams, what does not, and what runs in the background."""

    def __init__(self, call: Call, order: Order) -> None:
        self._call = call
        self._context = context = call.context
        self._order = order
        self._projector = Projector(order.head, order.view, context.clock)
        self._kept_inputs = self._settled = False
        self.run = Run(order.head.id, order.owner, order.head)

    @property
    def response(self) -> Response:
        return self._projector.response

    async def queue(self) -> list[StreamEvent]:
        """Keeps the response as queued, so that it is there before anybody is told of it."""
        await self._keep_record()
        return self._told(self._projector.queued())

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """The response's events. The last comes when the response is kept. Errors of queue and engine are raised."""
        if self.run.cancelled:
            raise ResponseCancelled("The response was cancelled.")
        begun = False
        async with self._call.admitted(), aclosing(self._turns()) as turns:
            async for event in turns:
                told = [] if begun else self._begin()
                begun = True
                told += self._projector.feed(event)
                await self.settle()
                for one in self._told(told):
                    yield one

    def _begin(self) -> list[StreamEvent]:
        self._call.note_event()
        return self._projector.begin()

    def broken(self, error: AntiphonError) -> list[StreamEvent]:
        """The last events of a response that did not get to its end; `settle` is to follow."""
        if self._projector.over:
            return []
        cancelled = isinstance(error, ResponseCancelled)
        return self._told(self._projector.cancel() if cancelled else self._projector.fail(error))

    def _told(self, events: list[StreamEvent]) -> list[StreamEvent]:
        kept = events if self.response.background else []
        self.run.tell(kept, self.response)
        return events

    async def _turns(self) -> AsyncGenerator[RoundEvent, None]:
        asked, plan = self._order.asked, self._order.plan
        if not asked.tools.served or asked.tools.router is None:
            async with aclosing(run_turn(plan)) as turn:
                async for choice_event in turn:
                    yield choice_event.event
            return
        ready: list[Plan] = [plan]

        async def planned(model: Model, request: TurnRequest) -> Plan:
            return ready.pop() if ready else await prepare_response(model, replace(asked, turn=request))

        rounds = Rounds(
            plan.model,
            plan.request,
            asked.tools.router.only(asked.tools.served, most=self._order.head.max_tool_calls),
            planned,
            session=f"{self._order.owner}/{self._order.thread}",
        )
        async with aclosing(rounds.run()) as events:
            async for event in events:
                yield event

    async def settle(self) -> None:
        """Once the response is over: what was said goes to the conversation and to the archive."""
        if self._settled or not self._projector.over:
            return
        self._settled = True
        order, archive = self._order, self._context.archive
        outputs = [_entry(said) for said in self._projector.said]
        if order.conversation and self.response.status in ("completed", "incomplete"):
            await archive.add_items(order.owner, order.conversation, [*order.inputs, *outputs])
        await self._keep_record(outputs)

    async def _keep_record(self, outputs: Sequence[Entry] = ()) -> None:
        order = self._order
        if not self.response.store:
            return
        inputs = () if self._kept_inputs else order.inputs
        self._kept_inputs = True
        stored = StoredResponse(self.response, order.thread, order.conversation)
        await self._context.archive.keep(order.owner, stored, inputs=inputs, outputs=outputs)


def _entry(said: Said) -> Entry:
    item = None if said.item is None else msgspec.to_builtins(said.item)
    return Entry(item, tuple(said.messages))
