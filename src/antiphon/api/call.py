"""One request with a body on its way: what every such route does alike."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.errors import AntiphonError
from antiphon.generation import Model
from antiphon.wire.fields import check_fields, warnings
from antiphon.wire.json import decode, encode

from .context import Context
from .http.client import read_json, while_connected
from .http.errors import INTERNAL, ClientGone, error_event
from .http.exchange import FAULTS, KEY, Exchange
from .http.lifecycle import Work
from .http.sse import HEADERS, KEEP_ALIVE, Outbox, StreamForm, fill, send_events

Wire = TypeVar("Wire", bound=msgspec.Struct)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call:
    """The body that was read, and where its answer goes."""

    context: Context
    scope: Scope
    receive: Receive
    send: Send
    body: bytes

    @property
    def exchange(self) -> Exchange:
        exchange: Exchange = self.scope[KEY]
        return exchange

    def read(self, kind: type[Wire]) -> Wire:
        """The body as ``kind``; fields that it does not know are noted. Raises `RequestError`."""
        wire, ignored = decode(self.body, kind)
        check_fields(wire, ignored, self.context.dialect)
        self.exchange.warnings = warnings(wire)
        self.exchange.ignored = tuple(ignored)
        self.context.traffic.ignored_fields += len(ignored)
        return wire

    async def model(self, name: str | None) -> Model:
        return await self.context.model_for(self.exchange, name)

    async def planned(self, plan: Callable[[], Result], *, more: int = 0) -> Result:
        """What ``plan`` makes of the request; a long one (the body, and ``more`` bytes) beside the event loop."""
        heavy = len(self.body) + more > self.context.limits.off_loop_above
        return await asyncio.to_thread(plan) if heavy else plan()

    @asynccontextmanager
    async def admitted(self) -> AsyncIterator[None]:
        """Runs the body when it is this request's turn; all that was to be decided has been."""
        self.exchange.planned = time.perf_counter()
        async with self.context.admission.slot():
            self.exchange.admitted = time.perf_counter()
            yield

    def note_event(self) -> None:
        """The model said something."""
        if self.exchange.first_event is None:
            self.exchange.first_event = time.perf_counter()

    async def run(self, work: Awaitable[Result], own: Work | None = None) -> Result:
        """The result of ``work``, which a server that stops can end, and whoever has ``own``."""
        works, own = self.context.lifecycle.works, own or Work()
        works.add(own)
        try:
            return await own.run(work)
        finally:
            works.discard(own)

    async def tell(self, value: object) -> None:
        """The answer as one body."""
        await self.send_response(Response(encode(value), media_type="application/json"))

    async def send_response(self, response: Response) -> None:
        await response(self.scope, self.receive, self.send)

    async def stream(
        self, chunks: AsyncGenerator[bytes, None], *, work: Work | None = None, form: StreamForm | None = None
    ) -> None:
        """The answer as events. What goes wrong before the first is raised, afterwards it is the last event."""
        limits, works, work = self.context.limits, self.context.lifecycle.works, work or Work()
        form = form or StreamForm(HEADERS, KEEP_ALIVE, partial(error_event, dialect=self.context.dialect))
        outbox = Outbox(limits.stream_buffer, limits.keep_alive, form.keep_alive)
        writer = asyncio.ensure_future(fill(outbox, chunks, work, self.unforeseen))
        works.add(work)
        try:
            await send_events(outbox, self.send, error_event=form.error, headers=form.headers)
        finally:
            works.discard(work)
            self.exchange.error = outbox.error.code if outbox.error else None
            outbox.close()
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def unforeseen(self, error: Exception) -> AntiphonError:
        """What is told of a mistake of ours; what it was is in the log."""
        FAULTS.log(logging.ERROR, "%s failed", self.exchange.id, exc_info=error)
        return INTERNAL


class Posted:
    """A route that reads a body and answers it, and stops when its client hangs up."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = self._context
        context.traffic.requests += 1
        try:
            body = await self.body(scope, receive)
            await while_connected(receive, self._checked(Call(context, scope, receive, send, body)))
        except ClientGone:
            scope[KEY].status = 499
            context.traffic.clients_gone += 1

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """The body, of the kind that the route reads."""
        return await read_json(scope, receive, self._context.limits)

    async def _checked(self, call: Call) -> None:
        self._context.lifecycle.check()
        self._context.admission.check()
        self._context.rates.check(call.exchange.owner)
        await self.answer(call)

    async def answer(self, call: Call) -> None:
        """Answers one call. Raises `AntiphonError` for what is to be told instead."""
        raise NotImplementedError
