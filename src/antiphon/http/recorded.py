"""A stream that its client may resume: stored as it is made, and gone on with at another server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.errors import AntiphonError, ConflictError, RequestError
from antiphon.store import Key
from antiphon.wire.errors import refused
from antiphon.wire.writer import Writer, events_in, with_id

from .context import REASONING, Context
from .exchange import SESSION_HEADERS, Exchange
from .gate.keys import Scope
from .journal import AbandonedRun, Journal, Numbered
from .runs import Run

KIND = "stream"
RESUMABLE = "x-antiphon-resumable"
"""The header by which a client requests that its stream is stored as it is made."""
CARRIED = (*SESSION_HEADERS, REASONING, "accept", "traceparent")
"""Headers of a request that count for its answer, whoever makes it."""


def carried(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name] for name in CARRIED if name in headers}


def resumable(headers: Mapping[str, str]) -> bool:
    """Whether a request's client wants to be able to resume its stream. Raises `RequestError` for another value."""
    value = headers.get(RESUMABLE, "false").strip().lower()
    if value not in ("true", "false"):
        raise refused(RESUMABLE, "must be true or false.")
    return value == "true"


def unrecorded(exchange: Exchange) -> list[str]:
    """The ignored fields of a request whose answer is not stored as it is made. Raises `RequestError` for a stream."""
    if not resumable(exchange.headers):
        return []
    if exchange.stream:
        raise _refused("streams of this path cannot be resumed.")
    return [RESUMABLE]


def check_resumable(context: Context, path: str, *, several: bool, session: bool) -> None:
    """Raises `RequestError` where a stream of that path cannot be stored as it is made, or not be gone on with."""
    why = ""
    if path not in context.runs.resumable:
        why = "streams of this path cannot be resumed."
    elif several:
        why = "only a stream of one choice can be resumed."
    elif session:
        why = "the stream of a session cannot be resumed."
    elif not context.stored_runs.records(background=False, stream=True, stored=True):
        why = 'this server stores no streams: it needs a store on disk, and sessions.events = "streams".'
    if why:
        raise _refused(why)


def _refused(why: str) -> RequestError:
    return refused(RESUMABLE, why, code="unsupported_parameter")


class StreamCancelled(ConflictError):
    """A client deleted the stream; raised to those who wait for it."""

    default_code = "stream_cancelled"


class StreamRun(Run):
    """A stream while it is made."""

    def cancelled(self) -> AntiphonError:
        return StreamCancelled("The stream was deleted.")


class StreamHead(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a stream, for another server that makes it: the request as it came, and what was decided for it.

    ``began`` is Unix time in seconds; the answer's day and its time of creation are of then.
    """

    body: bytes
    path: str
    headers: dict[str, str]
    scopes: list[Scope]
    began: float
    call_key: str

    @classmethod
    def of(cls, exchange: Exchange, body: bytes, began: float, call_key: str) -> StreamHead:
        """The head for a request, whose calls have ids by ``call_key``."""
        return cls(
            body=body,
            path=exchange.path,
            headers=carried(exchange.headers),
            scopes=sorted(exchange.principal.scopes),
            began=began,
            call_key=call_key,
        )


class AbandonedStream(msgspec.Struct, frozen=True):
    """A stream that another server left, with its head."""

    head: StreamHead
    left: AbandonedRun[StreamRun]


class RecordedStream:
    """The events of a stream that ``writer`` writes, numbered as they are stored. ``left``: it is gone on with."""

    def __init__(
        self,
        context: Context,
        key: Key,
        head: StreamHead,
        writer: Writer[Any],
        left: AbandonedRun[StreamRun] | None,
    ) -> None:
        self._writer = writer
        self._count = 0
        self._store = context.archive.store
        self.run = StreamRun(key) if left is None else left.run
        self.journal = Journal[None](
            context,
            self.run,
            head,
            None,
            lambda events, state: self.run.add(events),
            open=self._store.put_all,
            left=left,
        )

    def publish(self, written: bytes) -> asyncio.Future[None] | None:
        """Takes what the writer made of a step; what it returns is to be awaited."""
        return self.journal.publish(self._numbered(written), None)

    def _numbered(self, written: bytes) -> Iterator[Numbered]:
        for event in events_in(written):
            yield self._count, with_id(self._count, event)
            self._count += 1

    async def settle(self) -> None:
        """Stores the writer's end."""
        await self._end(self._writer.end())

    async def fail(self, error: AntiphonError) -> None:
        """Stores that it ends with ``error``."""
        await self._end(self._writer.form.error(error))

    async def _end(self, written: bytes) -> None:
        before = self._count
        try:
            await self.journal.end(self._numbered(written), None, self._store.put_all)
        except BaseException:
            self._count = before
            raise
