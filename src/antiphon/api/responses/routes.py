"""/v1/responses and the routes below it."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from functools import partial

from starlette.requests import Request
from starlette.responses import Response as HttpResponse

from antiphon.conversation import Event
from antiphon.errors import Position, RequestError
from antiphon.generation import Model, StepEvents, TurnRequest, constrain
from antiphon.generation.constraint import tokens_of
from antiphon.generation.recall import draft_turn
from antiphon.generation.turn import steps
from antiphon.http.context import Context
from antiphon.http.exchange import exchange_of, json_response
from antiphon.http.following import number_after, stop
from antiphon.http.gate.idempotency import in_progress
from antiphon.http.journal import run_key
from antiphon.http.lifecycle import Work
from antiphon.http.post import Post, PostRoute
from antiphon.wire.errors import refused

from .archive import SOCKET, History, ResponseArchive, forgetting_failed
from .compaction import (
    Compaction,
    check_answered,
    check_compactable,
    compacted_response,
    summary_of,
    summary_turn,
    unused,
    without_unused,
)
from .following import ResponseRun, check_known, events_after, events_response, latest, replayed
from .items import page_of
from .make import ResponseMaker
from .read import check_possible, conversation_id, with_sampling
from .request import RequestReader
from .schema import DeletedResponse, ResponsesRequest, TokenCount
from .socket_routes import ResponsesSocket

# Lets the model write the summary that a compaction is.


async def compacted(post: Post, model: Model, turn: TurnRequest) -> Compaction | None:
    """The model's summary of ``turn``'s conversation, encrypted for its owner; None where the model wrote none.

    It is written when it is this request's turn.
    """
    draft = await post.plan(model, lambda: summary_turn(turn), more=post.context.limits.off_loop_above)
    plan = await constrain(draft)
    events: list[Event] = []

    def collect(step: StepEvents[Event]) -> None:
        events.extend(step.events)

    run = post.driver([partial(steps, plan, post.meter())])
    async with post.admitted():
        await post.context.lifecycle.run(run(collect, _nothing), Work())
    summary = summary_of(events)
    if summary is None:
        return None
    return Compaction(summary, post.context.cipher.encrypt(summary.message, post.exchange.owner, "compaction"))


def _nothing(written: None) -> None:
    """All of it is read at its end."""


class Responses:
    """The routes of responses: making, reading, following, cancelling and deleting them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._archive = ResponseArchive(context.archive)
        self.socket = ResponsesSocket(context)
        self.create = CreateResponse(context)
        self.compact = CompactHistory(context)
        self.count = CountTokens(context)

    async def retrieve(self, request: Request) -> HttpResponse:
        """The response; with ``stream=true`` its events, those after number ``starting_after`` where they are stored.

        The header ``last-event-id`` says the same number, as browsers do that connect again.
        """
        owner, id = exchange_of(request).owner, request.path_params["id"]
        if request.query_params.get("stream") == "true":
            return await self._events(request)
        return json_response(await latest(self._context, owner, id))

    async def _events(self, request: Request) -> HttpResponse:
        owner, id = exchange_of(request).owner, request.path_params["id"]
        await check_known(self._context, owner, id)
        after = number_after(request.query_params, request.headers)
        events = await events_after(self._context, owner, id, after)
        if events is None and after >= 0:
            raise refused("starting_after", "the response is finished: its events are sent from the first on.")
        return events_response(self._context, events or replayed(await self._archive.finished(owner, id)))

    async def delete(self, request: Request) -> HttpResponse:
        """Deletes a stored response; one that is being made is stopped first."""
        owner, id = exchange_of(request).owner, request.path_params["id"]
        await stop(self._context, run_key(owner, id))
        await self._archive.delete_response(owner, id)
        await self._context.archive.store.delete(run_key(owner, id))
        return json_response(DeletedResponse(id=id))

    async def cancel(self, request: Request) -> HttpResponse:
        """Stops a response that is being made; one of the background that is finished is returned as it is.

        Raises `RequestError` for one that was answered at once and is finished: nothing of it can be cancelled.
        """
        owner, id = exchange_of(request).owner, request.path_params["id"]
        run = self._context.runs.get(run_key(owner, id))
        await stop(self._context, run_key(owner, id))
        if isinstance(run, ResponseRun):
            return json_response(run.response)
        response = await self._archive.finished(owner, id)
        if not response.background and response.status != "cancelled":
            raise RequestError(
                "Only a response in the background can be cancelled when it is finished.",
                code="invalid_value",
                position=Position(path="response_id"),
            )
        return json_response(response)

    async def input_items(self, request: Request) -> HttpResponse:
        owner, id = exchange_of(request).owner, request.path_params["id"]
        await self._archive.response(owner, id)
        entries = await self._archive.items(owner, id, output=False)
        return json_response(page_of(entries, request.query_params, newest_first=True))


class CreateResponse(PostRoute):
    """POST /v1/responses: reads, plans, waits until it is its turn, answers: streamed, whole, or in the background."""

    async def answer(self, post: Post) -> None:
        # Read.
        context, exchange = self._context, post.exchange
        wire = await post.read(ResponsesRequest)
        exchange.stream = bool(wire.stream)
        check_possible(wire)
        token, key = secrets.token_hex(12), exchange.headers.get("idempotency-key")
        id = f"resp_{token}"
        key = None if wire.store is False else key
        async with context.idempotency.claimed(exchange.owner, key, post.body, id) as (first, claim):
            if first != id:
                await self._repeat(post, first)
                return
            # Plan.
            model, socket = await post.model(wire.model), post.scope.get(SOCKET)
            async with AsyncExitStack() as resources:
                conversation = context.archive.alone(exchange.owner, conversation_id(wire))
                alone = await resources.enter_async_context(conversation)
                reader = RequestReader(context, exchange, token, resources, socket)
                with forgetting_failed(socket, wire.previous_response_id):
                    plan = await reader.plan(wire, model, partial(compacted, post))
                post.ignore(plan.requested.ignored)
                if wire.reasoning is not None or wire.thinking_token_budget is not None:
                    post.note_unheard(plan.first)
                # Admit, drive and write.
                maker = ResponseMaker(post, plan, claim, alone)
                await (maker.answer_queued(resources.pop_all()) if wire.background else maker.answer())

    async def _repeat(self, post: Post, id: str) -> None:
        """Answers with the response ``id``, which a request under the same idempotency key made before."""
        context, owner = self._context, post.exchange.owner
        run = context.runs.followed(run_key(owner, id))
        if run is None and not await ResponseArchive(context.archive).has(owner, id):
            raise in_progress()
        if not post.exchange.stream:
            response = await latest(context, owner, id)
            if response.status == "in_progress" and not response.background:
                raise in_progress()
            await post.send_json(response)
            return
        events = await events_after(context, owner, id)
        events = events or replayed(await ResponseArchive(context.archive).finished(owner, id))
        await post.send_response(events_response(context, events, watched=True))


class CompactHistory(PostRoute):
    """POST /v1/responses/compact: a shorter input with which the next response goes on."""

    async def answer(self, post: Post) -> None:
        context, exchange = self._context, post.exchange
        wire = await post.read(ResponsesRequest)  # Clients send the body that they would send for the response.
        check_possible(wire)
        check_compactable(wire)
        model = await post.model(wire.model)
        token = secrets.token_hex(12)
        async with AsyncExitStack() as resources:
            reader = RequestReader(context, exchange, token, resources)
            history = await reader.history(wire)
            entries = (*history.entries, *await reader.entries(wire, history))
            check_answered(entries)
            tenant = reader.tenant(wire, history.thread or f"resp_{token}")
            requested = reader.requested(model, without_unused(wire), History(entries).messages, tenant=tenant)
        requested = with_sampling(requested, wire)
        post.ignore(unused(wire))
        compaction = await compacted(post, model, requested.turn)
        if compaction is None:
            hint = "Raise max_output_tokens, or use another model."
            raise RequestError("The model wrote no summary.", code="compaction_empty", hint=hint)
        await post.send_json(compacted_response(entries, compaction, token=token, created=int(context.clock())))


class CountTokens(PostRoute):
    """POST /v1/responses/input_tokens: how many tokens the prompt of such a request has."""

    async def answer(self, post: Post) -> None:
        wire = await post.read(ResponsesRequest)  # Clients send the body that they would send for the response.
        model = await post.model(wire.model)
        async with AsyncExitStack() as resources:
            reader = RequestReader(self._context, post.exchange, secrets.token_hex(12), resources)
            history = await reader.history(wire)
            entries = (*history.entries, *await reader.entries(wire, history))
            clients = await reader.clients(wire, entries)
            requested = reader.requested(model, wire, History(entries).messages, clients=clients)
        post.ignore(requested.ignored)
        draft = await draft_turn(model, lambda: requested.turn, reader.off_loop, memory=reader.memory(model))
        for incident in draft.incidents:
            post.exchange.note_incident(incident.code)
        await post.send_json(TokenCount(input_tokens=await tokens_of(draft)))
