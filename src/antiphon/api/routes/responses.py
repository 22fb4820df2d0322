"""/v1/responses and what hangs on it."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from antiphon.api.context import Context
from antiphon.api.http.exchange import KEY, Exchange
from antiphon.api.post import Post, PostRoute
from antiphon.api.responses.answer import EventsResponse, ResponseAnswer, again, json_response, replayed, settled
from antiphon.api.responses.listing import listed
from antiphon.api.responses.make import Responder
from antiphon.api.responses.request import Reader
from antiphon.api.responses.runs import Run
from antiphon.wire.errors import refused
from antiphon.wire.responses.read import (
    check_possible,
    conversation_id,
    plan_response,
)
from antiphon.wire.responses.schema import (
    DeletedResponse,
    Response,
    ResponsesRequest,
    TokenCount,
    TokensRequest,
)


class Responses:
    """Makes responses, and keeps those that are to be kept."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def routes(self, prefix: str) -> list[Route]:
        path = f"{prefix}/responses"
        return [
            Route(path, Create(self._context), methods=["POST"]),
            Route(f"{path}/input_tokens", CountTokens(self._context), methods=["POST"]),
            Route(f"{path}/{{id}}", self.retrieve, methods=["GET"]),
            Route(f"{path}/{{id}}", self.delete, methods=["DELETE"]),
            Route(f"{path}/{{id}}/cancel", self.cancel, methods=["POST"]),
            Route(f"{path}/{{id}}/input_items", self.input_items, methods=["GET"]),
        ]

    async def retrieve(self, request: Request) -> HttpResponse:
        """The response; with ``stream=true`` its events, from number ``starting_after`` on while it is being made."""
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if request.query_params.get("stream") == "true":
            return await self._events(request, run)
        if run is not None and run.response.background:
            return json_response(run.response)
        return json_response(await self._kept(owner, id))

    async def _events(self, request: Request, run: Run | None) -> HttpResponse:
        owner, id = _whose(request)
        after = request.query_params.get("starting_after", "")
        if after and not (after.isascii() and after.isdecimal() and len(after) < 10):
            raise refused("starting_after", "must be the number of an event.")
        if run is not None and run.response.background:
            return EventsResponse(run.follow(int(after or -1)))
        response = await self._kept(owner, id)
        if after:
            raise refused("starting_after", "the response is finished: its events are told from the first on.")
        return EventsResponse(replayed(response))

    async def _kept(self, owner: str, id: str) -> Response:
        return settled((await self._context.archive.response(owner, id)).response)

    async def delete(self, request: Request) -> HttpResponse:
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if run is not None:
            await run.cancel()
        await self._context.archive.forget(owner, id)
        return json_response(DeletedResponse(id=id))

    async def cancel(self, request: Request) -> HttpResponse:
        """Stops a response that is being made; one that is finished is told as it is."""
        owner, id = _whose(request)
        run = self._context.runs.get(owner, id)
        if run is not None:
            await run.cancel()
            return json_response(run.response)
        return json_response(await self._kept(owner, id))

    async def input_items(self, request: Request) -> HttpResponse:
        owner, id = _whose(request)
        await self._context.archive.response(owner, id)
        entries = await self._context.archive.items(owner, id, output=False)
        return json_response(listed(entries, request.query_params, newest_first=True))


class Create(PostRoute):
    """POST /v1/responses: reads, plans, waits for its turn, answers: streamed, whole, or later."""

    async def answer(self, post: Post) -> None:
        context, exchange = self._context, post.exchange
        wire = post.read(ResponsesRequest)
        exchange.stream = bool(wire.stream)
        check_possible(wire)
        id, key = f"resp_{secrets.token_hex(12)}", exchange.headers.get("idempotency-key")
        with context.idempotency.making(exchange.owner, id):
            if key is not None and wire.store is not False:
                claimed = await context.idempotency.claim(exchange.owner, key, post.body, id)
                if claimed != id:
                    await again(post, claimed)
                    return
            await self._make(post, wire, id)

    async def _make(self, post: Post, wire: ResponsesRequest, id: str) -> None:
        context, exchange = self._context, post.exchange
        model = await post.model(wire.model)
        async with AsyncExitStack() as own:
            await own.enter_async_context(context.archive.alone(exchange.owner, conversation_id(wire)))
            reader = Reader(context, exchange, id.removeprefix("resp_"))
            order = await reader.order(wire, model, exchange.headers)
            exchange.ignored = (*exchange.ignored, *order.asked.ignored)
            context.traffic.ignored_fields += len(order.asked.ignored)
            answer = ResponseAnswer(post, Responder(post, order))
            if wire.background:
                await answer.later(own.pop_all(), stream=exchange.stream)
            else:
                await answer.now(stream=exchange.stream)


class CountTokens(PostRoute):
    """POST /v1/responses/input_tokens: how many tokens the prompt of such a request has."""

    async def answer(self, post: Post) -> None:
        wire = post.read(TokensRequest)
        model = await self._context.model(wire.model)
        reader = Reader(self._context, post.exchange, secrets.token_hex(12))
        past = await reader.past(wire)
        asked = reader.asked(model, wire, past, await reader.entries(wire, past), affinity=None)
        plan = await asyncio.to_thread(plan_response, model, asked)
        await post.send_json(TokenCount(input_tokens=len(plan.prompt_ids)))


def _whose(request: Request) -> tuple[str, str]:
    exchange: Exchange = request.scope[KEY]
    return exchange.owner, request.path_params["id"]
