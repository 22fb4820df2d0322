"""/v1/responses and what hangs on it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from antiphon.api.archive import Past
from antiphon.api.client import read_json, while_connected
from antiphon.api.context import Context
from antiphon.api.convert.response_events import View
from antiphon.api.convert.response_items import Entry, ItemReader
from antiphon.api.convert.response_tools import Toolbox
from antiphon.api.convert.responses import (
    Asked,
    check_possible,
    conversation_id,
    head_of,
    plan_response,
    read_request,
    sampled,
)
from antiphon.api.errors import INTERNAL, ClientGone
from antiphon.api.exchange import FAULTS, KEY, Exchange
from antiphon.api.listing import listed
from antiphon.api.respond import Order, Responder
from antiphon.api.runs import ResponseCancelled, Run
from antiphon.api.schemas.response_events import StreamEvent
from antiphon.api.schemas.response_items import InputItem
from antiphon.api.schemas.responses import (
    DeletedResponse,
    Response,
    ResponsesRequest,
    TokenCount,
    TokensRequest,
)
from antiphon.api.sse import DONE, HEADERS, Outbox, fill, send_events
from antiphon.api.wire import decode, encode
from antiphon.conversation import Message
from antiphon.errors import AntiphonError, Position, RequestError
from antiphon.generation import Model


class Responses:
    """Makes responses, and keeps those that are to be kept."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self, prefix: str) -> list[Route]:
        path = f"{prefix}/responses"
        return [
            Route(path, Create(self._context), methods=["POST"]),
            Route(f"{path}/input_tokens", self.input_tokens, methods=["POST"]),
            Route(f"{path}/{{id}}", self.retrieve, methods=["GET"]),
            Route(f"{path}/{{id}}", self.delete, methods=["DELETE"]),
            Route(f"{path}/{{id}}/cancel", self.cancel, methods=["POST"]),
            Route(f"{path}/{{id}}/input_items", self.input_items, methods=["GET"]),
        ]

    async def retrieve(self, request: Request) -> HttpResponse:
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if run is not None and run.response.store:
            return _json(run.response)
        return _json((await self._context.archive.response(owner, id)).response)

    async def delete(self, request: Request) -> HttpResponse:
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if run is not None:
            await run.cancel()
        await self._context.archive.forget(owner, id)
        return _json(DeletedResponse(id=id))

    async def cancel(self, request: Request) -> HttpResponse:
        """Stops a response that is being made; one that is finished is told as it is."""
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if run is not None:
            await run.cancel()
            return _json(run.response)
        return _json((await self._context.archive.response(owner, id)).response)

    async def input_items(self, request: Request) -> HttpResponse:
        owner, id = _whose(request)
        await self._context.archive.response(owner, id)
        entries = await self._context.archive.items(owner, id, output=False)
        return _json(listed(entries, request.query_params, newest_first=True))

    async def input_tokens(self, request: Request) -> HttpResponse:
        """How many tokens the prompt of such a request has."""
        exchange: Exchange = request.scope[KEY]
        body = await read_json(request.scope, request.receive, self._context.limits)
        wire, ignored = decode(body, TokensRequest)
        exchange.ignored = tuple(ignored)
        model = await self._context.model(wire.model)
        reader = Reader(self._context, exchange, secrets.token_hex(12))
        past = await reader.past(wire)
        entries = await reader.entries(wire, past)
        asked = reader.asked(wire, past, entries, affinity=None)
        plan = await asyncio.to_thread(plan_response, model, asked)
        return _json(TokenCount(input_tokens=len(plan.prompt_ids)))


class Reader:
    """Reads one request: what was said before it, its items, its turn."""

    def __init__(self, context: Context, exchange: Exchange, token: str) -> None:
        self._context = context
        self._exchange = exchange
        self._owner = exchange.owner
        self._token = token

    async def past(self, wire: TokensRequest) -> Past:
        archive = self._context.archive
        if wire.previous_response_id:
            return await archive.past(self._owner, wire.previous_response_id)
        if conversation := conversation_id(wire):
            return Past(tuple(await archive.conversation_items(self._owner, conversation)), conversation)
        return Past()

    async def entries(self, wire: TokensRequest, past: Past) -> tuple[Entry, ...]:
        items = [InputItem(role="user", content=wire.input)] if isinstance(wire.input, str) else wire.input
        if not items and not past.entries:
            raise RequestError(
                "input must say something.", code="missing_required_parameter", position=Position(path="input")
            )
        reader = ItemReader(
            token=self._token,
            unseal=lambda sealed, path: self._context.seal.open(sealed, self._owner, path),
            before=[message for entry in past.entries for message in entry.messages],
            known=await self._known(items or [], past),
        )
        return tuple(reader.read(items or []))

    async def _known(self, items: list[InputItem], past: Past) -> dict[str, Entry]:
        """The items that are only referred to: of this conversation, or of a response that is kept."""
        wanted = {item.id or "" for item in items if item.type == "item_reference"}
        known = {entry.id: entry for entry in past.entries if entry.id in wanted}
        for id in sorted(wanted - known.keys()):
            response = f"resp_{id.partition('_')[2][:24]}"
            kept = await self._context.archive.items(self._owner, response)
            known |= {entry.id: entry for entry in kept if entry.id == id}
        return known

    def asked(self, wire: TokensRequest, past: Past, entries: tuple[Entry, ...], *, affinity: str | None) -> Asked:
        context = self._context
        messages: list[Message] = [message for entry in (*past.entries, *entries) for message in entry.messages]
        return read_request(
            wire,
            messages,
            server=Toolbox(context.tools, context.offer_tools),
            limits=context.limits,
            most_tools=context.dialect.max_tools,
            today=context.today,
            affinity=affinity,
        )


class Create:
    """POST /v1/responses: reads, plans, waits for its turn, answers: streamed, whole, or later."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[KEY]
        self._context.traffic.requests += 1
        try:
            body = await read_json(scope, receive, self._context.limits)
            await while_connected(receive, self._answer(body, scope, receive, send))
        except ClientGone:
            exchange.status = 499
            self._context.traffic.clients_gone += 1

    async def _answer(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        context, exchange = self._context, scope[KEY]
        context.lifecycle.check()
        context.admission.check()
        wire, ignored = decode(body, ResponsesRequest)
        check_possible(wire)
        exchange.stream = bool(wire.stream)
        model = await context.model(wire.model)
        exchange.model = model.name
        async with AsyncExitStack() as held:
            await held.enter_async_context(context.archive.alone(exchange.owner, conversation_id(wire)))
            order = await self._order(wire, model, exchange, Headers(scope=scope))
            exchange.ignored = (*ignored, *order.asked.ignored)
            context.traffic.ignored_fields += len(exchange.ignored)
            exchange.planned = time.perf_counter()
            answer = Answer(context, Responder(context, order), exchange)
            if wire.background:
                await answer.later(scope, receive, send, held.pop_all(), stream=exchange.stream)
            else:
                await answer.now(scope, receive, send, stream=exchange.stream)

    async def _order(self, wire: ResponsesRequest, model: Model, exchange: Exchange, headers: Headers) -> Order:
        context, token = self._context, secrets.token_hex(12)
        reader = Reader(context, exchange, token)
        past = await reader.past(wire)
        entries = await reader.entries(wire, past)
        thread = past.thread or f"resp_{token}"
        affinity = wire.prompt_cache_key or headers.get("x-session-affinity") or f"{exchange.owner}/{thread}"
        asked = sampled(reader.asked(wire, past, entries, affinity=affinity), wire)
        plan = await asyncio.to_thread(plan_response, model, asked)
        head = head_of(wire, asked, plan, id=f"resp_{token}", created=int(context.clock()))
        include = wire.include or ()
        sealed = "reasoning.encrypted_content" in include
        view = View(
            expose_reasoning=context.expose_reasoning,
            seal=(lambda message: context.seal.close(message, exchange.owner)) if sealed else None,
            code_outputs="code_interpreter_call.outputs" in include,
            container_id=f"cntr_{thread.partition('_')[2]}",
            offers=asked.tools.offers,
            served=asked.tools.served,
        )
        return Order(
            owner=exchange.owner,
            asked=asked,
            plan=plan,
            head=head,
            view=view,
            inputs=entries,
            thread=thread,
            conversation=conversation_id(wire),
        )


class Answer:
    """One response on its way to its client."""

    def __init__(self, context: Context, responder: Responder, exchange: Exchange) -> None:
        self._context = context
        self._responder = responder
        self._exchange = exchange

    async def now(self, scope: Scope, receive: Receive, send: Send, *, stream: bool) -> None:
        """The answer, made while the client waits; one that hangs up ends it."""
        run = self._responder.run
        async with self._context.admission.slot():
            self._exchange.admitted = time.perf_counter()
            self._context.runs.add(run)
            self._context.lifecycle.works.add(run.work)
            try:
                if stream:
                    await self._stream(run, send)
                else:
                    await _json(await self._whole(run))(scope, receive, send)
            finally:
                self._context.lifecycle.works.discard(run.work)
                self._context.runs.remove(run)
        self._exchange.tokens = self._responder.tokens

    async def later(self, scope: Scope, receive: Receive, send: Send, held: AsyncExitStack, *, stream: bool) -> None:
        """The answer is made whether the client stays or not; it gets the queued response, or follows the events.

        ``held`` is what the response has for itself until it is over.
        """
        run = self._responder.run
        self._context.runs.add(run)
        await self._responder.queue()
        queued = run.response
        self._context.runs.spawn(self._in_background(run, held))
        if stream:
            await follow(run, send)
        else:
            await _json(queued)(scope, receive, send)

    async def _whole(self, run: Run) -> Response:
        try:
            await run.work.run(self._exhaust())
        except ResponseCancelled as error:
            self._responder.broken(error)
            await self._responder.settle()
        return self._responder.response

    async def _exhaust(self) -> None:
        async with aclosing(self._responder.events()) as events:
            async for _ in events:
                self._note()

    async def _in_background(self, run: Run, held: AsyncExitStack) -> None:
        context = self._context
        context.lifecycle.works.add(run.work)
        try:
            await run.work.run(self._admitted())
        except AntiphonError as error:
            self._responder.broken(error)
        except Exception as error:  # noqa: BLE001 - nobody waits: the response itself must tell
            self._responder.broken(self._unforeseen(error))
        finally:
            await self._responder.settle()
            await held.aclose()
            context.lifecycle.works.discard(run.work)
            context.runs.remove(run)

    async def _admitted(self) -> None:
        async with self._context.admission.slot():
            await self._exhaust()

    async def _stream(self, run: Run, send: Send) -> None:
        limits = self._context.limits
        outbox = Outbox(limits.stream_buffer, limits.keep_alive)
        writer = asyncio.ensure_future(fill(outbox, self._chunks(), run.work, self._unforeseen))
        try:
            await send_events(outbox, send, error_event=self._last)
        except ResponseCancelled as error:
            self._responder.broken(error)
            raise
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)
            await self._responder.settle()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._responder.events()) as events:
            async for event in events:
                self._note()
                yield named_event(event)
        yield DONE

    def _last(self, error: AntiphonError) -> bytes:
        return b"".join(map(named_event, self._responder.broken(error))) + DONE

    def _note(self) -> None:
        if self._exchange.first_event is None:
            self._exchange.first_event = time.perf_counter()

    def _unforeseen(self, error: Exception) -> AntiphonError:
        FAULTS.log(logging.ERROR, "%s failed", self._exchange.id, exc_info=error)
        return INTERNAL


async def follow(run: Run, send: Send, *, after: int = -1) -> None:
    """The events of a response that is made in the background; hanging up ends the following, not the response."""
    await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
    async with aclosing(run.follow(after)) as events:
        async for event in events:
            await send({"type": "http.response.body", "body": named_event(event), "more_body": True})
    await send({"type": "http.response.body", "body": DONE, "more_body": False})


def named_event(event: StreamEvent) -> bytes:
    """One event; its name is its type, as this API has it."""
    name = event.__struct_config__.tag
    return b"event: %b\ndata: %b\n\n" % (str(name).encode(), encode(event))


def _whose(request: Request) -> tuple[str, str]:
    exchange: Exchange = request.scope[KEY]
    return exchange.owner, request.path_params["id"]


def _json(value: object) -> HttpResponse:
    return HttpResponse(encode(value), media_type="application/json")
