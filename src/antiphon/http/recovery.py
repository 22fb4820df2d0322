"""Goes on with answers whose servers died, or stopped: from their very last stored token."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, ConflictError, EngineLostError, NotFoundError, OverloadedError, StoreError
from antiphon.generation.resume.tape import unpack_inputs
from antiphon.store import Key, Lease, Write
from antiphon.store.runs import Batch, RunState, entry_of, published
from antiphon.wire.writer import events_in, with_id

from .context import Context
from .errors import ErrorShape
from .exchange import FAULTS, Exchange
from .gate.keys import Principal
from .journal import AbandonedRun
from .lazy_route import LazyObject
from .post import Post, PostRoute
from .recorded import AbandonedStream, StreamHead, StreamRun
from .runs import Run

ATTEMPTS = 10
"""How often an answer is taken over of which nothing more is published, before it ends as failed."""

Head = TypeVar("Head")


class Resumer(Protocol[Head]):
    """Goes on with the runs of one kind. ``head`` is the kind of what each of them began with."""

    @property
    def head(self) -> type[Head]: ...

    def run(self, key: Key, head: Head | None) -> Run:
        """The run, of which nothing is published yet. None: its events have expired."""

    async def go_on(self, left: AbandonedRun[Any], head: Head) -> None:
        """Makes the rest of it, beside all requests. Raises what keeps it from being made, before it is begun."""

    async def fail(self, left: AbandonedRun[Any], head: Head, error: AntiphonError) -> None:
        """Stores that it ends with ``error``."""


@dataclass(slots=True)
class Recovery:
    """Takes over what other servers left. ``resumers`` make a `Resumer` each, by the kinds of their runs."""

    context: Context
    resumers: Mapping[str, LazyObject]
    _taking: dict[Key, asyncio.Task[None]] = field(default_factory=dict)

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Looks for answers that were left, now and then, until the block is left."""
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
        """Each look is a query a kind; a store that cannot be used now may be the next time."""
        while True:
            try:
                for kind in self.resumers:
                    for key in await self.context.archive.store.abandoned(kind):
                        self.take(key)
            except StoreError as error:
                FAULTS.warning("answers of other servers are not looked for: %s", error.code)
            except Exception:  # noqa: BLE001 - a store of another package
                FAULTS.exception("answers of other servers are not looked for")
            await asyncio.sleep(self.context.leases.seconds / 3)

    def take(self, key: Key) -> None:
        """Goes on with the answer here, soon, where nobody else does."""
        if key not in self._taking and not self.context.lifecycle.draining:
            task = self._taking[key] = asyncio.ensure_future(self._take(key))
            task.add_done_callback(lambda done: self._taking.pop(key, None))

    async def _take(self, key: Key) -> None:
        try:
            await self._claim(key, await self.resumers[key.kind].get())
        except AntiphonError as error:
            FAULTS.warning("%s is not taken over now: %s", key.name, error.code)
        except Exception:  # noqa: BLE001 - nobody waits for it
            FAULTS.exception("%s is not taken over", key.name)

    async def _claim(self, key: Key, resumer: Resumer[Head]) -> None:
        context, runs = self.context, self.context.stored_runs
        known = await runs.state(key) is not None
        head = await runs.head(key, resumer.head) if known else None
        run = resumer.run(key, head)
        lease = await context.leases.acquire(key, signalled=run.signalled, lost=run.lose)
        if lease is None:
            return
        state = await runs.state(key)
        if head is None or state is None or state.status == "over":
            await context.leases.release(lease)
            return
        try:
            await self._go_on(await self._left(run, lease), head, resumer, state.attempts)
        except BaseException:
            await context.leases.abandon(lease)
            raise

    async def _left(self, run: Run, lease: Lease) -> AbandonedRun[Run]:
        batches = await self.context.stored_runs.batches(run.key)
        run.recorded, run.log = True, published(batches)
        return AbandonedRun(run, lease, [one for batch in batches for one in unpack_inputs(batch.inputs)])

    async def _go_on(self, left: AbandonedRun[Run], head: Head, resumer: Resumer[Head], attempts: int) -> None:
        """Returns when it is made; what never will go well ends it. Raises what is to be tried again."""
        try:
            if attempts >= ATTEMPTS:
                raise EngineLostError("No server gets any further with the answer.")
            with self.context.rates.behind(left.run.owner):
                await resumer.go_on(left, head)
        except AntiphonError as error:
            if isinstance(error, OverloadedError | StoreError | ConflictError) or error.code == "model_not_found":
                raise
            await resumer.fail(left, head, error)
            await self.context.leases.release(left.lease)
            FAULTS.warning("%s cannot be gone on with: %s", left.run.id, error.code)


def last_write(context: Context, left: AbandonedRun[Any], events: list[bytes]) -> Write:
    """The write with which a run is over that another server left: ``events`` are its last."""
    over = entry_of(Batch(events, over=True))
    return context.stored_runs.write(left.run.key, RunState("over"), left.lease, over)


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

    async def go_on(self, left: AbandonedRun[StreamRun], head: StreamHead) -> None:
        """Returns when it is made."""
        route = self.routes.get(head.path)
        if route is None:
            raise NotFoundError("This server has no such path.", code="model_not_found")
        await route.go_on(self._exchange(left, head), AbandonedStream(head, left))

    async def fail(self, left: AbandonedRun[StreamRun], head: StreamHead, error: AntiphonError) -> None:
        post, route = Post.unattended(self.context, self._exchange(left, head), head.body), self.routes.get(head.path)
        written = (await route.form(post) if route else post.form).error(error)
        events = [with_id(number, event) for number, event in enumerate(events_in(written), len(left.run.log))]
        await self.context.archive.store.put_all(last_write(self.context, left, events))

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
