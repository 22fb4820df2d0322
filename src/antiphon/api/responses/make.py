"""Makes one response, for a client that waits or in the background, and stores it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial

import msgspec

from antiphon.archive.responses import Archive, StoredResponse
from antiphon.conversation import Message
from antiphon.errors import AntiphonError
from antiphon.generation import RoundEvent, StepEvents, prompt_read, turns_of
from antiphon.generation.turn import Send, Source, Written
from antiphon.http.exchange import FAULTS
from antiphon.http.post import Post
from antiphon.http.runs import EventsResponse, Run, json_response
from antiphon.store import Lease
from antiphon.store.exclusive import Exclusive
from antiphon.store.store import lease_lost
from antiphon.wire.responses.ending import ResponseCancelled
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.items import Entry
from antiphon.wire.responses.output import ItemMessages
from antiphon.wire.responses.write import ResponseWriter

from .request import ResponsePlan


class ResponseMaker:
    """Makes the response of one plan. Streamed, whole or in the background, its turns are driven by `_drive` alone."""

    def __init__(self, post: Post, plan: ResponsePlan, claim: Exclusive, alone: Exclusive) -> None:
        """``claim`` is what an idempotency key gives, ``alone`` the conversation; who lost one of them is stopped."""
        self._post = post
        self._runs = post.context.runs
        self._plan = plan
        self._writer = ResponseWriter(
            plan.head,
            plan.view,
            post.context.clock,
            plan.compaction,
            listings=plan.listings,
            approved=plan.approved,
        )
        self._record = ResponseRecord(post.context.archive, plan, self._writer, claim.lease, alone.lease)
        self._run = Run(plan.head.id, plan.owner, plan.head)
        claim.lost = alone.lost = lambda: self._run.work.stop(lease_lost())

    async def answer(self) -> None:
        """Makes it while the client waits; a client that hangs up ends it. A cancelled one is stored as far as it is.

        Raises `ResponseCancelled` where a stream has not begun.
        """
        run, writer = self._run, self._writer
        self._runs.add(run)
        try:
            await self._post.deliver(self._drive, writer, run.work)
        except ResponseCancelled as error:
            writer.fail(error)
            await self._record.end()
            if self._post.exchange.stream:
                raise
            await self._post.send_whole(writer)
        finally:
            await self._record.end()
            run.response = writer.response
            self._runs.remove(run)

    async def answer_queued(self, resources: AsyncExitStack) -> None:
        """Makes it whether the client stays or not; the client gets the queued response, or follows the events.

        ``resources`` are released when the response is over; until then it counts among its key's requests.
        """
        run = self._run
        async with resources:
            self._runs.add(run)
            resources.callback(self._runs.remove, run)
            resources.enter_context(self._post.context.rates.behind(run.owner))
            await self._record.store()
            self._publish(self._writer.queued())
            queued = run.response
            self._runs.spawn(self._in_background(resources.pop_all()))
        stream = self._post.exchange.stream
        await self._post.send_response(EventsResponse(run.follow()) if stream else json_response(queued))

    async def _in_background(self, resources: AsyncExitStack) -> None:
        try:
            await self._post.run(self._drive(self._writer.events, self._publish), self._run.work)
        except AntiphonError as error:
            self._publish(self._writer.fail(error))
        except Exception as error:  # noqa: BLE001 - nobody waits: the response itself must carry the error
            self._publish(self._writer.fail(self._post.unforeseen(error)))
        finally:
            await self._record.end()
            await resources.aclose()

    def _publish(self, events: list[StreamEvent]) -> None:
        """Hands events to those who follow a response in the background."""
        self._run.add(events, self._writer.response)

    async def _drive(self, write: Callable[[StepEvents[RoundEvent]], Written], send: Send[Written]) -> None:
        """Runs the turns when it is this request's turn. The last step is sent when the response is stored."""
        async with self._post.admitted():
            await self._post.driver([self._source()], keep=self._record.settle)(write, send)

    def _source(self) -> Source[RoundEvent]:
        """The one turn of the plan, or all that it takes with tools of the server."""
        plan, tools = self._plan, self._plan.requested.tools
        approved = [call.message for call in plan.approved]
        runnable = tools.served.union(message.recipient or "" for message in approved)
        router = None
        if runnable and tools.router is not None:
            router = tools.router.only(runnable, most=plan.head.max_tool_calls)
        if plan.socket is not None and not plan.socket.generate:
            return partial(prompt_read, plan.first, self._post.meter())
        return turns_of(
            plan.first,
            router,
            session=plan.session,
            meter=self._post.meter(),
            approved=approved,
            gated=tools.gated,
        )


class ResponseRecord:
    """What is stored of one response: its inputs once, and when it is over its outputs."""

    def __init__(
        self,
        archive: Archive,
        plan: ResponsePlan,
        writer: ResponseWriter,
        claim: Lease | None = None,
        alone: Lease | None = None,
    ) -> None:
        self._archive = archive
        self._claim = claim
        self._alone = alone
        self._plan = plan
        self._writer = writer
        self._unstored = plan.inputs
        self._settled = False

    async def settle(self, messages: Sequence[Message] = ()) -> None:
        """Once the response is over, stores it and adds its items to its conversation; a second time does nothing.

        The writer has collected what is stored, so ``messages`` are not needed. Where it cannot be stored the response
        is not over, and the error is raised.
        """
        if self._settled or not self._writer.over:
            return
        self._settled = True  # Before the writes: they end even where who waits for them is cancelled.
        plan, outputs = self._plan, [_entry(entry) for entry in self._writer.entries]
        added = plan.conversation if self._writer.response.status in ("completed", "incomplete") else ""
        try:
            await self.store(outputs, conversation=added)
        except Exception:
            self._settled = False
            self._writer.withdraw()
            raise
        self._remember(outputs)

    def _remember(self, outputs: Sequence[Entry]) -> None:
        """The connection goes on from what is not stored, itself or what it went on from, unless it failed."""
        plan, response = self._plan, self._writer.response
        if plan.socket is None or (response.store and not plan.socket.memory.has(response.previous_response_id)):
            return
        if response.status in ("completed", "incomplete"):
            plan.socket.memory.remember(response.id, [*plan.before, *plan.inputs, *outputs], plan.thread)
        else:
            plan.socket.memory.forget()

    async def end(self) -> None:
        """`settle`, where nobody waits for it any more: that it is not stored is in the log."""
        try:
            await self.settle()
        except Exception:  # noqa: BLE001 - what is released after this must be released
            FAULTS.exception("%s is not stored", self._writer.response.id)

    async def store(self, outputs: Sequence[Entry] = (), *, conversation: str = "") -> None:
        """Stores the response as it stands, unless its request has ``store: false``.

        With it, or with nothing else, the items of the request and ``outputs`` are added to the conversation.
        """
        plan, response = self._plan, self._writer.response
        await self._archive.store_response(
            plan.owner,
            StoredResponse(response, plan.thread, plan.conversation) if response.store else None,
            inputs=self._unstored,
            outputs=outputs,
            conversation=conversation,
            added=[*plan.inputs, *outputs],
            lease=self._claim,
            conversation_lease=self._alone,
        )
        self._unstored, self._claim = (), None  # What is stored has its key.


def _entry(entry: ItemMessages) -> Entry:
    item = None if entry.item is None else msgspec.to_builtins(entry.item)
    return Entry(item, tuple(entry.messages))
