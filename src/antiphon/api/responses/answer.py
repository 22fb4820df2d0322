"""A response on its way to its client: now, later, or again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from msgspec.structs import replace
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send

from antiphon.api.http.sse import Outbox, headers_of
from antiphon.api.post import Post
from antiphon.errors import AntiphonError, ConflictError
from antiphon.wire.json import encode
from antiphon.wire.responses.event_schema import StreamEvent
from antiphon.wire.responses.replay import replay
from antiphon.wire.responses.schema import (
    Response,
    ResponseError,
)
from antiphon.wire.sse import DONE
from antiphon.wire.writer import EVENT_STREAM, StreamForm

from .make import Responder
from .runs import ResponseCancelled, Run


class ResponseAnswer:
    """One response on its way to its client."""

    def __init__(self, post: Post, responder: Responder) -> None:
        self._post = post
        self._context = post.context
        self._responder = responder

    async def now(self, *, stream: bool) -> None:
        """The answer, made while the client waits; one that hangs up ends it."""
        run = self._responder.run
        self._context.runs.add(run)
        try:
            if stream:
                await self._stream(run)
            else:
                await self._post.send_json(await self._whole(run))
        finally:
            self._context.runs.remove(run)

    async def later(self, own: AsyncExitStack, *, stream: bool) -> None:
        """The answer is made whether the client stays or not; it gets the queued response, or follows the events.

        ``own`` is what the response has for itself until it is over; its place among its key's requests is, too.
        """
        run, runs = self._responder.run, self._context.runs
        async with own:
            runs.add(run)
            own.callback(runs.remove, run)
            own.enter_context(self._context.rates.behind(run.owner))
            await self._responder.queue()
            queued = run.response
            runs.spawn(self._in_background(run, own.pop_all()))
        await self._post.send_response(EventsResponse(run.follow()) if stream else json_response(queued))

    async def _whole(self, run: Run) -> Response:
        try:
            await self._post.run(self._responder.run_to(_unsent), run.work)
        except ResponseCancelled as error:
            self._responder.broken(error)
            await self._responder.settle()
        return self._responder.response

    async def _in_background(self, run: Run, own: AsyncExitStack) -> None:
        try:
            await self._post.run(self._responder.run_to(_unsent), run.work)
        except AntiphonError as error:
            self._responder.broken(error)
        except Exception as error:  # noqa: BLE001 - nobody waits: the response itself must tell
            self._responder.broken(self._post.unforeseen(error))
        finally:
            await self._responder.settle()
            await own.aclose()

    async def _stream(self, run: Run) -> None:
        try:
            await self._post.stream(self._write, lambda: DONE, StreamForm(self._last), run.work)
        except ResponseCancelled as error:
            self._responder.broken(error)
            raise
        finally:
            await self._responder.settle()

    async def _write(self, outbox: Outbox) -> None:
        await self._responder.run_to(lambda events: outbox.write(b"".join(map(named_event, events))))

    def _last(self, error: AntiphonError) -> bytes:
        return b"".join(map(named_event, self._responder.broken(error))) + DONE


def _unsent(events: list[StreamEvent]) -> None:
    """Nobody follows: the response itself is the answer."""


async def again(post: Post, id: str) -> None:
    """The answer to a request that came before under the same idempotency key."""
    context, exchange = post.context, post.exchange
    run = context.runs.get(exchange.owner, id)
    if run is not None and run.response.background:
        response = EventsResponse(run.follow()) if exchange.stream else json_response(run.response)
    elif await context.archive.has(exchange.owner, id):
        kept = settled((await context.archive.response(exchange.owner, id)).response)
        response = EventsResponse(replayed(kept)) if exchange.stream else json_response(kept)
    else:
        raise ConflictError(
            "The first request with this idempotency-key is still being answered.", code="idempotency_in_progress"
        )
    await post.send_response(response)


def settled(response: Response) -> Response:
    """A kept response that nobody makes any more: the server stopped, or died, while it did."""
    if response.status not in ("queued", "in_progress"):
        return response
    error = ResponseError("server_error", "The server stopped before the response was whole.")
    return replace(response, status="failed", error=error)


class EventsResponse(HttpResponse):
    """Events that are there already, or come from a run; hanging up ends the telling, not the run."""

    def __init__(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers_of(EVENT_STREAM)})
        async with aclosing(self._events) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": named_event(event), "more_body": True})
        await send({"type": "http.response.body", "body": DONE, "more_body": False})


async def replayed(response: Response) -> AsyncGenerator[StreamEvent, None]:
    for event in replay(response):
        yield event


def named_event(event: StreamEvent) -> bytes:
    """One event; its name is its type, as this API has it."""
    name = event.__struct_config__.tag
    return b"event: %b\ndata: %b\n\n" % (str(name).encode(), encode(event))


def json_response(value: object) -> HttpResponse:
    return HttpResponse(encode(value), media_type="application/json")
