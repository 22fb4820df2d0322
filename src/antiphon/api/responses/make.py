"""Makes one response, for a client that waits or in the background, and stores it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial

import msgspec

from antiphon.conversation import Message
from antiphon.errors import AntiphonError
from antiphon.generation import RoundEvent, Rounds, StepEvents, prompt_read
from antiphon.generation.turn import OutputT, Send, Source, in_order, steps
from antiphon.http.exchange import FAULTS, json_response
from antiphon.http.following import making_key
from antiphon.http.journal import AbandonedRun, Journal, Numbered, Recorder, run_key
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post
from antiphon.store import Key, Lease, Write
from antiphon.store.leases import Exclusive
from antiphon.wire.writer import DONE, StreamForm, event_bytes

from .archive import ResponseArchive, StoredResponse
from .event_schema import ResponseCancelled, StreamEvent
from .following import ResponseRun, events_response
from .items import Entry
from .output import ItemMessages
from .request import ResponsePlan, head_of_run
from .schema import Response
from .write import ResponseWriter, error_bytes, numbered_bytes

ResponseJournal = Journal[Response]


class ResponseMaker:
    """Makes the response of one plan. Streamed, whole or in the background, its turns are driven by `_drive` alone.

    One that is recorded is stored as it is made, before anybody gets it, and who gets it follows the run. ``left``: it
    is gone on with.
    """

    def __init__(
        self,
        post: Post,
        plan: ResponsePlan,
        claim: Exclusive,
        alone: Exclusive,
        *,
        left: AbandonedRun[ResponseRun] | None = None,
    ) -> None:
        """``claim`` is what an idempotency key gives, ``alone`` the conversation; who lost one of them is stopped."""
        context = post.context
        self._post = post
        self._runs = context.runs
        self._plan = plan
        key = run_key(plan.owner, plan.head.id)
        self._run = ResponseRun(key, response=plan.head) if left is None else left.run
        self._journal = self._recorded(left)
        view = plan.view if self._journal is None else plan.view.replayed(self._journal.replay_log)
        self._writer = ResponseWriter(
            plan.head, view, context.clock, plan.compaction, listings=plan.listings, approved=plan.approved
        )
        self._record = ResponseRecord(
            ResponseArchive(context.archive),
            plan,
            self._run,
            self._writer,
            self._journal,
            claim=claim.lease,
            alone=alone.lease,
        )
        self._recorder = Recorder(context, post.exchange, self._run, self._journal, self._record)
        claim.lost = alone.lost = self._run.lose
        self._run.counted = lambda: self._writer.completion_tokens

    def _recorded(self, left: AbandonedRun[ResponseRun] | None) -> ResponseJournal | None:
        """Opens the journal of its events; None where they are not stored (`StoredRuns.records`)."""
        context, head, plan = self._post.context, self._plan.head, self._plan
        if left is None and not context.stored_runs.records(
            background=head.background,
            stream=self._post.exchange.stream and (plan.socket is None or plan.socket.generate),
            stored=head.store and not plan.has_secrets,
        ):
            return None
        return Journal(
            context,
            self._run,
            head_of_run(self._post, head, plan.first.request, before=len(plan.before), compaction=plan.compaction),
            self._run.response,
            self._run.publish,
            status=lambda response: "queued" if response.status == "queued" else "in_progress",
            open=lambda write: self._record.store(also=(write,)),
            besides=(Key("response", plan.owner, head.id),),
            left=left,
        )

    async def answer(self) -> None:
        """Makes it while the client waits; a client that hangs up ends it. A cancelled one is stored as far as it is.

        Raises `ResponseCancelled` where a stream has not begun.
        """
        post, run, writer = self._post, self._run, self._writer
        if self._journal is not None:
            form = StreamForm(lambda error: error_bytes(error, len(run.log) - 1) + DONE)
            await self._recorder.send(self._followed, lambda write: post.stream(write, writer.end, form, Work()))
            return
        self._runs.add(run)
        try:
            await post.deliver(self._drive, writer, run.work)
        except ResponseCancelled as error:
            writer.fail(error)
            await self._record.end()
            if post.exchange.stream:
                raise
            await post.send_whole(writer)
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
            await self._post.context.admission.check_all(run.owner)
            if self._journal is None:
                leases, key = self._post.context.leases, making_key(run.owner, run.id)
                await resources.enter_async_context(leases.hold(key, signalled=run.signalled))
                self._own(resources)
                await self._record.store()
                self._publish(self._writer.queued())
            else:
                self._own(resources)
                await self._journal.begin(numbered(self._writer.queued()), self._writer.response)
            queued = run.response
            self._runs.spawn(self._in_background(resources.pop_all()))
        if self._post.exchange.stream:
            await self._post.send_response(events_response(self._post.context, run.follow(), watched=True))
        else:
            await self._post.send_response(json_response(queued))

    async def go_on(self) -> None:
        """Makes the rest of an `AbandonedRun`; returns when it is made."""
        if self._plan.head.background:
            self._publish(self._writer.queued())
        await self._recorder.make(self._followed)

    def _own(self, resources: AsyncExitStack) -> None:
        self._runs.add(self._run)
        resources.callback(self._runs.remove, self._run)
        resources.enter_context(self._post.context.rates.behind(self._run.owner))

    async def _in_background(self, resources: AsyncExitStack) -> None:
        async with resources:
            await self._recorder.make(self._followed)

    async def _followed(self) -> None:
        """Makes it for those who follow the run."""
        await self._drive(self._writer.events, self._publish)

    def _publish(self, events: list[StreamEvent]) -> asyncio.Future[None] | None:
        """Hands events to those who follow the response, stored first where it is recorded."""
        if self._journal is not None:
            return self._journal.publish(numbered(events), self._writer.response)
        self._run.publish([event_bytes(event) for event in events], self._writer.response)
        return None

    async def _drive(self, write: Callable[[StepEvents[RoundEvent]], OutputT], send: Send[OutputT]) -> None:
        """Runs the turns when it is this request's turn. The last step is sent when the response is stored."""
        async with self._post.admitted():
            if self._plan.head.background:
                self._publish(self._writer.admitted())
            plan, rounds, log = self._plan, self._rounds(), self._journal.replay_log if self._journal else None
            source: Source[RoundEvent] = partial(steps, plan.first, self._post.meter(), log=log)
            if plan.socket is not None and not plan.socket.generate:
                source = partial(prompt_read, plan.first, self._post.meter())
            elif rounds is not None:
                source = rounds.steps
            keep = in_order(plan.memory.keeper(plan.first.request, rounds), self._record.settle)
            await self._post.driver([source], keep=keep)(write, send)

    def _rounds(self) -> Rounds | None:
        """All turns that it takes with tools of the server; None where there is to be one."""
        plan, tools = self._plan, self._plan.requested.tools
        approved = [call.message for call in plan.approved]
        runnable = tools.served.union(message.recipient or "" for message in approved)
        router = None
        log, most = None if self._journal is None else self._journal.replay_log, plan.head.max_tool_calls
        if most is not None and log is not None:
            most = max(0, most - log.answered)
        if runnable and tools.router is not None:
            router = tools.router.only(runnable, most=most)
        if router is None:
            return None
        return Rounds(
            plan.first,
            router,
            session=plan.session,
            meter=self._post.meter(),
            approved=approved,
            gated=tools.gated,
            log=log,
        )


class ResponseRecord:
    """The stored record of one response: its inputs once, and when it is over its outputs."""

    def __init__(
        self,
        archive: ResponseArchive,
        plan: ResponsePlan,
        run: ResponseRun,
        writer: ResponseWriter,
        journal: ResponseJournal | None,
        *,
        claim: Lease | None,
        alone: Lease | None,
    ) -> None:
        self._archive = archive
        self._claim = claim
        self._alone = alone
        self._journal = journal
        self._plan = plan
        self._run = run
        self._writer = writer
        self._unstored = () if journal is not None and journal.begun else plan.inputs
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
            if self._journal is None:
                await self.store(outputs, conversation=added)
            else:
                await self._journal.end(
                    numbered(self._writer.latest),
                    self._writer.response,
                    lambda write: self.store(outputs, conversation=added, also=(write,)),
                )
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

    async def fail(self, error: AntiphonError) -> None:
        """Publishes the events with which the response fails, and stores them, before that where it is recorded."""
        events = self._writer.fail(error)
        if self._journal is not None:
            await self.settle()
        else:
            self._run.publish([event_bytes(event) for event in events], self._writer.response)
            await self.end()

    async def end(self) -> None:
        """`settle`, where nobody waits for it any more: that it is not stored is in the log."""
        try:
            await self.settle()
        except Exception:  # noqa: BLE001 - what is released after this must be released
            FAULTS.exception("%s is not stored", self._writer.response.id)

    async def store(self, outputs: Sequence[Entry] = (), *, conversation: str = "", also: Sequence[Write] = ()) -> None:
        """Stores the response as it is, unless its request has ``store: false``, and does what is ``also`` written.

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
            also=also,
        )
        self._unstored, self._claim = (), None  # What is stored has its key.


def numbered(events: Iterable[StreamEvent]) -> Iterator[Numbered]:
    return ((event.sequence_number, numbered_bytes(event)) for event in events)


def _entry(entry: ItemMessages) -> Entry:
    item = None if entry.item is None else msgspec.to_builtins(entry.item)
    return Entry(item, tuple(entry.messages))
