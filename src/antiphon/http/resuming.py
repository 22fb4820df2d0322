"""Streams whose servers died, or stopped: how another goes on with one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import msgspec
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, ConflictError, NotFoundError, OverloadedError, StoreError
from antiphon.store import Key
from antiphon.store.runs import Batch, RunState, entry_of
from antiphon.wire.writer import events_in, with_id

from .context import Context
from .errors import ErrorShape
from .exchange import FAULTS, Exchange
from .gate.keys import Principal
from .journal import AbandonedRun
from .post import Post, PostRoute
from .recorded import AbandonedStream, StreamHead, StreamRun


class StreamResumer(msgspec.Struct, frozen=True):
    """Goes on with streams by the routes that answered their requests, by path. ``shape`` is of errors at a path."""

    context: Context
    routes: Mapping[str, PostRoute]
    shape: Callable[[str, Headers], ErrorShape]

    @property
    def head(self) -> type[StreamHead]:
        return StreamHead

    def run(self, key: Key, head: StreamHead | None) -> StreamRun:
        return StreamRun(key)

    async def go_on(self, left: AbandonedRun[StreamRun], head: StreamHead, failed: AntiphonError | None) -> None:
        """Returns when it is made; what never will go well ends the stream."""
        exchange = self._exchange(left, head)
        try:
            if failed is not None:
                raise failed
            route = self.routes.get(head.path)
            if route is None:
                raise NotFoundError("This server has no such path.", code="model_not_found")
            with self.context.rates.behind(left.run.owner):
                await route.go_on(exchange, AbandonedStream(head, left))
        except AntiphonError as error:
            if isinstance(error, OverloadedError | StoreError | ConflictError) or error.code == "model_not_found":
                raise
            await self._end(left, Post.unattended(self.context, exchange, head.body).form.error(error))

    def _exchange(self, left: AbandonedRun[StreamRun], head: StreamHead) -> Exchange:
        headers = Headers(head.headers)
        return Exchange(
            id=f"req_{secrets.token_hex(12)}",
            method="POST",
            path=head.path,
            headers=headers,
            principal=Principal(left.run.owner, frozenset(head.scopes)),
            size=len(head.body),
            errors=self.shape(head.path, headers),
        )

    async def _end(self, left: AbandonedRun[StreamRun], written: bytes) -> None:
        """The stream ends with an error: what it was made from is not here any more, or no server gets on with it."""
        run, runs = left.run, self.context.stored_runs
        events = [with_id(number, event) for number, event in enumerate(events_in(written), len(run.log))]
        over = entry_of(Batch(events, over=True))
        await self.context.archive.store.put_all(runs.write(run.key, RunState("over"), left.lease, over))
        await self.context.leases.release(left.lease)
        FAULTS.warning("%s cannot be gone on with", run.id)
