"""Streams whose servers died, or stopped: how another goes on with one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

import msgspec
from starlette.datastructures import Headers

from antiphon.errors import AntiphonError, NotFoundError
from antiphon.store import Key
from antiphon.wire.writer import events_in, with_id

from .context import Context
from .errors import ErrorShape
from .exchange import Exchange
from .gate.keys import Principal
from .journal import AbandonedRun
from .post import Post, PostRoute
from .recorded import AbandonedStream, StreamHead, StreamRun
from .recovery import last_write


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
        written = Post.unattended(self.context, self._exchange(left, head), head.body).form.error(error)
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
