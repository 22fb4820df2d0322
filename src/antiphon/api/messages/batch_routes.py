"""/v1/messages/batches, and the routes below it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from antiphon.http.context import Context
from antiphon.http.exchange import KEY, Exchange
from antiphon.http.post import Post, PostRoute
from antiphon.http.runs import json_response

from .batch_schema import DeletedMessageBatch, MessageBatchCreate
from .batch_service import MessageBatches, check_ended
from .batches import batch_id, lines_of

LINES = "application/x-jsonl"


class CreateMessageBatch(PostRoute):
    """POST /v1/messages/batches: takes requests, which are run beside those that wait."""

    def __init__(self, context: Context, batches: MessageBatches) -> None:
        super().__init__(context)
        self._batches = batches

    async def answer(self, post: Post) -> None:
        wire = await post.read(MessageBatchCreate)
        most = post.context.batches.max_lines
        lines = await post.off_loop(lambda: list(lines_of(wire.requests, most=most)))
        await post.send_json(await self._batches.create(post.exchange.owner, lines))


class MessageBatchRoutes:
    """The routes of batches of messages, but for making one."""

    def __init__(self, batches: MessageBatches) -> None:
        self._batches = batches

    async def list(self, request: Request) -> Response:
        """A page of the owner's batches, the newest first."""
        exchange: Exchange = request.scope[KEY]
        unknown = sorted(set(request.query_params) - {"limit", "after_id", "before_id"})
        exchange.ignored = (*exchange.ignored, *unknown)
        return json_response(await self._batches.page(exchange.owner, dict(request.query_params)))

    async def retrieve(self, request: Request) -> Response:
        owner = _owner(request)
        return json_response(await self._batches.shown(owner, await self._batches.find(owner, _id(request))))

    async def cancel(self, request: Request) -> Response:
        owner, service = _owner(request), self._batches.service
        await self._batches.find(owner, _id(request))
        return json_response(await self._batches.shown(owner, await service.cancel(owner, batch_id(_id(request)))))

    async def delete(self, request: Request) -> Response:
        """Deletes a batch that has ended, what it read and what it wrote."""
        owner = _owner(request)
        batch = await self._batches.find(owner, _id(request))
        shown = await self._batches.shown(owner, batch)
        await self._batches.service.delete(owner, batch)
        return json_response(DeletedMessageBatch(id=shown.id))

    async def results(self, request: Request) -> Response:
        exchange: Exchange = request.scope[KEY]
        batch = await self._batches.find(exchange.owner, _id(request))
        check_ended(batch)
        return StreamingResponse(self._batches.results(exchange.owner, batch, exchange.id), media_type=LINES)


def _id(request: Request) -> str:
    id: str = request.path_params["id"]
    return id


def _owner(request: Request) -> str:
    exchange: Exchange = request.scope[KEY]
    return exchange.owner
