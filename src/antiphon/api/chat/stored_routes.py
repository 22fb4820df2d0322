"""Chat completions that are stored: listing, reading, changing and deleting them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.responses.item_schema import ItemList
from antiphon.api.responses.items import Entry, limit_of, newest_is_first, page_of
from antiphon.http.context import Context
from antiphon.http.exchange import exchange_of, json_response
from antiphon.http.post import Post, PostRoute
from antiphon.wire.dialect import OPENAI, check_metadata
from antiphon.wire.writer import JSON

from .archive import ChatCompletionUpdate, CompletionArchive, Cursor, DeletedChatCompletion, filter_of

PAGE = {"after", "limit", "order"}


class StoredCompletions:
    """The routes of stored completions; they are OpenAI's, whatever the dialect of the answers."""

    def __init__(self, context: Context) -> None:
        self._stored = CompletionArchive(context.archive)
        self.update = UpdateCompletion(context)

    async def list(self, request: Request) -> Response:
        """A page of the owner's completions, oldest first unless ``order`` is desc."""
        query = request.query_params
        filter, others = filter_of(query.multi_items())
        exchange_of(request).ignore(sorted(others - PAGE))
        cursor = Cursor(query.get("after", ""), newest_is_first(query, usual=False))
        page, more = await self._stored.page(exchange_of(request).owner, filter, cursor, limit_of(query))
        ids = list(page) or [""]
        data = [msgspec.Raw(completion) for completion in page.values()]
        return json_response(ItemList(data=data, first_id=ids[0], last_id=ids[-1], has_more=more))

    async def retrieve(self, request: Request) -> Response:
        completion = await self._stored.completion(exchange_of(request).owner, request.path_params["id"])
        return Response(completion, media_type=JSON)

    async def delete(self, request: Request) -> Response:
        id = request.path_params["id"]
        await self._stored.delete(exchange_of(request).owner, id)
        return json_response(DeletedChatCompletion(id=id))

    async def messages(self, request: Request) -> Response:
        """A page of the messages that a completion answers, oldest first unless ``order`` is desc."""
        exchange_of(request).ignore(sorted(set(request.query_params) - PAGE))
        messages = await self._stored.messages(exchange_of(request).owner, request.path_params["id"])
        return json_response(page_of([Entry(one, ()) for one in messages], request.query_params, newest_first=False))


class UpdateCompletion(PostRoute):
    """POST /v1/chat/completions/{id}: replaces the pairs of a stored completion."""

    def __init__(self, context: Context) -> None:
        super().__init__(replace(context, dialect=OPENAI))

    async def answer(self, post: Post) -> None:
        wire = await post.read(ChatCompletionUpdate)
        check_metadata(wire.metadata)
        owner, id = post.exchange.owner, post.scope["path_params"]["id"]
        stored = CompletionArchive(post.context.archive)
        await stored.update(owner, id, wire.metadata or {})
        await post.send_response(Response(await stored.completion(owner, id), media_type=JSON))
