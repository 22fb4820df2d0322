"""A stream that its client may resume: stored as it is made, and gone on with at another server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import msgspec

from antiphon.errors import AntiphonError, ConflictError, OverloadedError, RequestError
from antiphon.generation.resume.tape import ReplayLog
from antiphon.store import Key
from antiphon.wire.errors import refused
from antiphon.wire.writer import StreamForm, events_in, with_id

from .context import REASONING, Context
from .exchange import FAULTS, SESSION_HEADERS, Exchange
from .gate.keys import Scope
from .journal import AbandonedRun, Journal, Numbered
from .recovery import note_attempt
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


class Recording:
    """Makes one stream whose events are stored before anybody gets them. ``form`` writes its errors.

    ``left``: it is gone on with. ``unforeseen`` reports an internal error.
    """

    def __init__(
        self,
        context: Context,
        key: Key,
        head: StreamHead,
        form: StreamForm,
        *,
        left: AbandonedRun[StreamRun] | None,
        unforeseen: Callable[[Exception], AntiphonError],
    ) -> None:
        self._context = context
        self._form = form
        self._left = left
        self._unforeseen = unforeseen
        self._count = 0
        self._failed: str | None = None
        """The code of the error that it ended with."""
        self.run = StreamRun(key) if left is None else left.run
        self._journal = Journal[None](
            context.stored_runs,
            context.leases,
            self.run,
            head,
            None,
            lambda events, state: self.run.add(events),
            open=lambda write: context.archive.store.put_all(write),
            left=left,
            gather=context.rules.gather,
        )

    @property
    def replay_log(self) -> ReplayLog:
        return self._journal.replay_log

    def publish(self, written: bytes) -> asyncio.Future[None] | None:
        """Takes what the writer made of a step; what it returns is to be awaited."""
        return self._journal.publish(self._numbered(written), None)

    def _numbered(self, written: bytes) -> Iterator[Numbered]:
        for event in events_in(written):
            yield self._count, with_id(self._count, event)
            self._count += 1

    def begin(self, work: Callable[[], Coroutine[Any, Any, None]], end: Callable[[], bytes]) -> asyncio.Task[None]:
        """`make` in a task of its own, which does not end with the request."""
        self._context.runs.add(self.run)
        return self._context.runs.spawn(self.make(work, end))

    async def make(self, work: Callable[[], Coroutine[Any, Any, None]], end: Callable[[], bytes]) -> None:
        """Makes it by ``work``, and stores what ``end`` writes after it. Whatever becomes of it, the run says so."""
        runs = self._context.runs
        runs.add(self.run)
        try:
            if self._left is not None:
                await note_attempt(self._context, self._left)
            await work()
            await self._end(end())
        except AntiphonError as error:
            await self._break(error)
        except asyncio.CancelledError:
            self.run.close(OverloadedError("The server stopped before the answer was whole.", code="draining"))
            raise
        except Exception as error:  # noqa: BLE001 - nobody waits: the stream itself must carry the error
            await self._break(self._unforeseen(error))
        finally:
            self.run.close()
            await self._journal.close()
            runs.remove(self.run)

    async def _end(self, written: bytes) -> None:
        before = self._count
        try:
            await self._journal.end(self._numbered(written), None, lambda one: self._context.archive.store.put_all(one))
        except AntiphonError:
            self._count = before
            raise

    async def _break(self, error: AntiphonError) -> None:
        """It does not get to its end: it is another server's, or nobody knows it, or its last event is the error."""
        if await self._journal.is_not_ours(error):
            return
        if not self._journal.begun:
            self.run.close(error)
            return
        try:
            await self._end(self._form.error(error))
            self._failed = error.code
        except AntiphonError as failed:
            FAULTS.warning("the end of %s is not stored: %s", self.run.id, failed.code)
            self.run.close(error)

    def leave(self, making: asyncio.Task[None], exchange: Exchange) -> None:
        """The client that began it is gone, or has all of it. Where nothing is stored yet, nobody can come back for it.

        Else it is made to its end, and counts among the requests of its key until then.
        """
        exchange.error = exchange.error or self._failed
        if not self._journal.begun:
            making.cancel()
        elif not making.done():
            self._context.runs.spawn(self._behind(making))

    async def _behind(self, making: asyncio.Task[None]) -> None:
        with self._context.rates.behind(self.run.owner):
            await asyncio.wait([making])
