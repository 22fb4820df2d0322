"""Goes on with responses whose servers died, or stopped: from their very last stored token."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import msgspec
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, ConflictError, EngineLostError, OverloadedError, StoreError
from antiphon.generation import Model, TurnRequest
from antiphon.generation.tape import unpack_inputs
from antiphon.http.context import Context
from antiphon.http.exchange import FAULTS, Exchange
from antiphon.http.gate.keys import Principal
from antiphon.http.journal import Left
from antiphon.http.post import Post
from antiphon.http.run_head import RunHead
from antiphon.http.runs import Run
from antiphon.store import Key, Lease
from antiphon.store.exclusive import Exclusive
from antiphon.store.runs import KIND, Batch, RunState, entry_of, published
from antiphon.wire.dialect import Dialect
from antiphon.wire.responses.compaction import Compaction
from antiphon.wire.responses.event_schema import ResponseFailed
from antiphon.wire.responses.schema import Response, ResponsesRequest
from antiphon.wire.responses.write import failed_events, numbered_bytes

from .make import ResponseMaker
from .request import RequestReader, ResponsePlan

ATTEMPTS = 10
"""How often a response is taken over of which nothing more is published, before it ends as failed."""
PATIENCE = 0.2
"""Seconds between two tries to be alone with a conversation."""
GONE = Response(id="", created_at=0, status="failed", model="", reasoning={}, temperature=0, text={}, top_p=0)
"""Of a run whose events have expired."""


@dataclass(slots=True)
class Recovery:
    """Takes over what other servers left. ``dialects`` are those in which requests came."""

    context: Context
    dialects: Mapping[str, Dialect]
    _taking: dict[Key, asyncio.Task[None]] = field(default_factory=dict)

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Looks for responses that were left, now and then, until the block is left."""
        self.context.runs.take_over = self.take
        looking = asyncio.ensure_future(self._look())
        try:
            yield
        finally:
            working = looking, *self._taking.values()
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)

    async def _look(self) -> None:
        """Each look is a query; a store that cannot be used now may be the next time."""
        while True:
            try:
                for key in await self.context.archive.store.abandoned(KIND):
                    self.take(key)
            except StoreError as error:
                FAULTS.warning("responses of other servers are not looked for: %s", error.code)
            except Exception:  # noqa: BLE001 - a store of another package
                FAULTS.exception("responses of other servers are not looked for")
            await asyncio.sleep(self.context.leases.seconds / 3)

    def take(self, key: Key) -> None:
        """Goes on with the response here, soon, where nobody else does."""
        if key not in self._taking and not self.context.lifecycle.draining:
            task = self._taking[key] = asyncio.ensure_future(self._take(key))
            task.add_done_callback(lambda done: self._taking.pop(key, None))

    async def _take(self, key: Key) -> None:
        try:
            await self._claim(key)
        except AntiphonError as error:
            FAULTS.warning("%s is not taken over now: %s", key.name, error.code)
        except Exception:  # noqa: BLE001 - nobody waits for it
            FAULTS.exception("%s is not taken over", key.name)

    async def _claim(self, key: Key) -> None:
        context, runs = self.context, self.context.stored_runs
        known = await runs.state(key) is not None
        head = await runs.head(key, RunHead) if known else None
        run = Run(key.name, key.owner, GONE if head is None else head.began(), recorded=True)
        lease = await context.leases.acquire(key, signalled=run.signalled, lost=run.lose)
        if lease is None:
            return
        state = await runs.state(key)
        if head is None or state is None or state.status == "over":
            await context.leases.release(lease)
            return
        try:
            await self._go_on(run, lease, head, state)
        except BaseException:
            await context.leases.abandon(lease)
            raise

    async def _go_on(self, run: Run, lease: Lease, head: RunHead, state: RunState) -> None:
        """Raises what is to be tried again, here or elsewhere; what never will go well ends the response."""
        batches, resources = await self.context.stored_runs.batches(lease.key), AsyncExitStack()
        run.log = published(batches)
        try:
            post, plan = await self._planned(run, head, resources)
            if state.attempts >= ATTEMPTS:
                raise EngineLostError("No server gets any further with the response.")
        except AntiphonError as error:
            if isinstance(error, OverloadedError | StoreError) or error.code == "model_not_found":
                raise
            await self._end(run, lease, error)
            return
        again = RunState(state.status, state.attempts + 1)
        await self.context.archive.store.put_all(self.context.stored_runs.write(lease.key, again, lease))
        FAULTS.info("%s is gone on with here, after %d events", run.id, len(run.log))
        alone = await self._alone(resources, run.owner, plan.conversation)
        inputs = [one for batch in batches for one in unpack_inputs(batch.inputs)]
        ResponseMaker(post, plan, Exclusive(), alone, left=Left(run, lease, inputs)).go_on(resources)

    async def _planned(self, run: Run, head: RunHead, resources: AsyncExitStack) -> tuple[Post, ResponsePlan]:
        """The plan of the response as it was made first."""
        context = replace(self.context, dialect=self.dialects.get(head.dialect, self.context.dialect))
        exchange = Exchange(
            id=f"req_{secrets.token_hex(12)}",
            method="POST",
            path="/v1/responses",
            headers=Headers(head.headers),
            principal=Principal(run.owner, frozenset(head.scopes)),
            size=len(head.body),
            stream=head.stream,
        )
        post = Post.unattended(context, exchange, head.body)
        wire = await post.read(ResponsesRequest)
        model = await post.model(run.response.model)
        reader = RequestReader(context, exchange, run.id.removeprefix("resp_"), resources, left=head)

        async def compacted(model: Model, turn: TurnRequest) -> Compaction | None:
            return None if head.compaction is None else head.compaction.read()

        return post, await reader.plan(wire, model, compacted)

    async def _alone(self, resources: AsyncExitStack, owner: str, conversation: str) -> Exclusive:
        """Waits until no other request goes on with the conversation."""
        while True:
            try:
                return await resources.enter_async_context(self.context.archive.alone(owner, conversation))
            except ConflictError:
                await asyncio.sleep(PATIENCE)

    async def _end(self, run: Run, lease: Lease, error: AntiphonError) -> None:
        """The response fails: what it was made from is not here any more, or no server gets on with it."""
        archive, runs = self.context.archive, self.context.stored_runs
        events = failed_events(run.response, error, len(run.log))
        last = events[-1]
        assert isinstance(last, ResponseFailed), "failed events end so"
        over = entry_of(Batch([numbered_bytes(event) for event in events], over=True))
        write = runs.write(lease.key, RunState("over"), lease, over)
        stored = await archive.response(run.owner, run.id)
        failed = msgspec.structs.replace(stored, response=last.response)
        await archive.store_response(run.owner, failed, also=(write,))
        await self.context.leases.release(lease)
