"""One response on its way: turns, what they are to the client, and what is kept of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec

from antiphon.api.post import Post
from antiphon.conversation import Message
from antiphon.errors import AntiphonError
from antiphon.generation import Model, Plan, RoundEvent, Rounds, StepEvents, TurnRequest
from antiphon.generation.turn import Source, drive, steps
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.items import Entry
from antiphon.wire.responses.read import Asked, prepare_response
from antiphon.wire.responses.schema import Response
from antiphon.wire.responses.write import ItemMessages, Projector, View

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
    """Makes one response. `run_to` is the only road: what streams, what does not, and what runs in the background."""

    def __init__(self, post: Post, order: Order) -> None:
        self._post = post
        self._context = context = post.context
        self._order = order
        self._projector = Projector(order.head, order.view, context.clock)
        self._kept_inputs = self._settled = self._begun = False
        self.run = Run(order.head.id, order.owner, order.head)

    @property
    def response(self) -> Response:
        return self._projector.response

    async def queue(self) -> list[StreamEvent]:
        """Keeps the response as queued, so that it is there before anybody is told of it."""
        await self._keep_record()
        return self._noted(self._projector.queued())

    async def run_to(self, send: Callable[[list[StreamEvent]], Awaitable[None] | None]) -> None:
        """Makes the response and sends its events. The last is sent when the response is kept.

        Errors of queue and engine are raised.
        """
        if self.run.cancelled:
            raise ResponseCancelled("The response was cancelled.")

        def sent(events: list[StreamEvent]) -> Awaitable[None] | None:
            return send(self._noted(events))

        async with self._post.admitted():
            await drive(self._source(), self._written, sent, limits=self._post.time_limits, keep=self._keep)

    def _written(self, step: StepEvents[RoundEvent]) -> list[StreamEvent]:
        events = [] if self._begun else self._projector.begin()
        self._begun = True
        for happened in step.events:
            events += self._projector.feed(happened)
        return events

    async def _keep(self, messages: Sequence[Message]) -> None:
        await self.settle()

    def broken(self, error: AntiphonError) -> list[StreamEvent]:
        """The last events of a response that did not get to its end; `settle` is to follow."""
        if self._projector.over:
            return []
        cancelled = isinstance(error, ResponseCancelled)
        return self._noted(self._projector.cancel() if cancelled else self._projector.fail(error))

    def _noted(self, events: list[StreamEvent]) -> list[StreamEvent]:
        kept = events if self.response.background else []
        self.run.tell(kept, self.response)
        return events

    def _source(self) -> Source[RoundEvent]:
        requested, plan, meter = self._order.asked, self._order.plan, self._post.meter()
        if not requested.tools.served or requested.tools.router is None:
            return partial(steps, plan, meter)

        async def planned(model: Model, request: TurnRequest) -> Plan:
            return await prepare_response(model, replace(requested, turn=request))

        rounds = Rounds(
            plan.model,
            plan.request,
            requested.tools.router.only(requested.tools.served, most=self._order.head.max_tool_calls),
            planned,
            session=f"{self._order.owner}/{self._order.thread}",
            first=plan,
            meter=meter,
        )
        return rounds.steps

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


def _entry(said: ItemMessages) -> Entry:
    item = None if said.item is None else msgspec.to_builtins(said.item)
    return Entry(item, tuple(said.messages))
