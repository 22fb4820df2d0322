"""Responses whose servers died, or stopped: how another goes on with one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

import msgspec
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, ConflictError
from antiphon.generation import Model, TurnRequest
from antiphon.http.context import Context
from antiphon.http.exchange import Exchange
from antiphon.http.gate.keys import Principal
from antiphon.http.journal import AbandonedRun
from antiphon.http.post import Post
from antiphon.http.recovery import last_write
from antiphon.store import Key
from antiphon.store.leases import Exclusive
from antiphon.wire.dialect import Dialect

from .archive import ResponseArchive
from .compaction import Compaction
from .event_schema import ResponseFailed
from .following import ResponseRun
from .make import ResponseMaker
from .request import RequestReader, ResponsePlan, RunHead
from .schema import Response, ResponsesRequest
from .write import failed_events, numbered_bytes

PATIENCE = 0.2
"""Seconds between two tries to be alone with a conversation."""
GONE = Response(id="", created_at=0, status="failed", model="", reasoning={}, temperature=0, text={}, top_p=0)
"""The response of a run whose events have expired."""


class ResponseResumer(msgspec.Struct, frozen=True):
    """Goes on with responses. ``dialects`` are those in which requests came."""

    context: Context
    dialects: Mapping[str, Dialect]

    @property
    def head(self) -> type[RunHead]:
        return RunHead

    def run(self, key: Key, head: RunHead | None) -> ResponseRun:
        return ResponseRun(key, response=GONE if head is None else head.began())

    async def go_on(self, left: AbandonedRun[ResponseRun], head: RunHead) -> None:
        """Returns when it is made."""
        async with AsyncExitStack() as resources:
            post, plan = await self._planned(left.run, head, resources)
            alone = await self._alone(resources, left.run.owner, plan.conversation)
            await ResponseMaker(post, plan, Exclusive(), alone, left=left).go_on()

    async def fail(self, left: AbandonedRun[ResponseRun], head: RunHead, error: AntiphonError) -> None:
        run, archive = left.run, ResponseArchive(self.context.archive)
        events = failed_events(run.response, error, len(run.log))
        last = events[-1]
        assert isinstance(last, ResponseFailed), "failed events end so"
        write = last_write(self.context, left, [numbered_bytes(event) for event in events])
        stored = await archive.response(run.owner, run.id)
        failed = msgspec.structs.replace(stored, response=last.response)
        await archive.store_response(run.owner, failed, also=(write,))

    async def _planned(self, run: ResponseRun, head: RunHead, resources: AsyncExitStack) -> tuple[Post, ResponsePlan]:
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
