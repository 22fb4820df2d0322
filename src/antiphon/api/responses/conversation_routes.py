"""/v1/conversations: stored histories, to which responses add."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.errors import NotFoundError, Position, RequestError
from antiphon.http.attachments import attach
from antiphon.http.client import read_json
from antiphon.http.context import Context
from antiphon.http.exchange import exchange_of, json_response
from antiphon.wire.dialect import check_metadata
from antiphon.wire.json import decode

from .archive import ResponseArchive
from .item_schema import InputItem
from .items import Entry, ItemReader, page_of
from .schema import Conversation, ConversationCreate, ConversationUpdate, DeletedConversation, ItemsCreate

MOST_ITEMS = 20
"""At most, in one request."""

Body = TypeVar("Body", bound=msgspec.Struct)
Handle = Callable[["Conversations", Request], Awaitable[Response]]


def with_room(handle: Handle) -> Handle:
    """A handler whose body has its room until it is answered."""

    async def handled(self: Conversations, request: Request) -> Response:
        with self.context.large.room() as request.state.room:
            return await handle(self, request)

    return handled


class Conversations:
    """The routes of conversations and of their items: creating, reading, changing, deleting."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._archive = ResponseArchive(context.archive)

    @with_room
    async def create(self, request: Request) -> Response:
        owner, body = exchange_of(request).owner, await self._body(request, ConversationCreate)
        check_metadata(body.metadata)
        id = f"conv_{secrets.token_hex(12)}"
        entries = await self._read(request, body.items or [], before=())
        created = await self._archive.create_conversation(owner, id, body.metadata or {}, entries)
        return json_response(Conversation(id=id, created_at=created, metadata=body.metadata or {}))

    async def retrieve(self, request: Request) -> Response:
        return json_response(await self._conversation(request))

    @with_room
    async def update(self, request: Request) -> Response:
        body = await self._body(request, ConversationUpdate)
        check_metadata(body.metadata)
        await self._conversation(request)
        owner, id = exchange_of(request).owner, request.path_params["id"]
        await self._archive.update_conversation(owner, id, body.metadata or {})
        return json_response(await self._conversation(request))

    async def delete(self, request: Request) -> Response:
        """Its items go with it."""
        owner, id = exchange_of(request).owner, request.path_params["id"]
        async with self.context.archive.alone(owner, id) as alone:
            await self._archive.delete_conversation(owner, id, lease=alone.lease)
        return json_response(DeletedConversation(id=id))

    async def items(self, request: Request) -> Response:
        return json_response(page_of(await self._entries(request), request.query_params, newest_first=True))

    @with_room
    async def add(self, request: Request) -> Response:
        owner, id = exchange_of(request).owner, request.path_params["id"]
        body = await self._body(request, ItemsCreate)
        async with self.context.archive.alone(owner, id) as alone:
            entries = await self._read(request, body.items, before=await self._entries(request))
            await self._archive.add_items(owner, id, entries, lease=alone.lease)
        return json_response(page_of(entries, {"limit": "100"}, newest_first=False))

    async def item(self, request: Request) -> Response:
        return json_response((await self._entry(request)).item)

    async def delete_item(self, request: Request) -> Response:
        owner, id = exchange_of(request).owner, request.path_params["id"]
        async with self.context.archive.alone(owner, id) as alone:
            entry = await self._entry(request)
            await self._archive.delete_item(owner, id, entry.id, lease=alone.lease)
        return json_response(await self._conversation(request))

    async def _conversation(self, request: Request) -> Conversation:
        id = request.path_params["id"]
        metadata, created = await self._archive.conversation(exchange_of(request).owner, id)
        return Conversation(id=id, created_at=created, metadata=metadata)

    async def _entries(self, request: Request) -> list[Entry]:
        return await self._archive.conversation_items(exchange_of(request).owner, request.path_params["id"])

    async def _entry(self, request: Request) -> Entry:
        id = request.path_params["item"]
        for entry in await self._entries(request):
            if entry.id == id:
                return entry
        raise NotFoundError(f"There is no item {id[:80]!r}.", position=Position(path="item_id"))

    async def _read(self, request: Request, items: list[InputItem], *, before: Sequence[Entry]) -> list[Entry]:
        exchange, cipher = exchange_of(request), self.context.cipher
        if len(items) > MOST_ITEMS:
            raise RequestError(
                f"items: there are {len(items)}; at most {MOST_ITEMS} are added at once.",
                code="invalid_value",
                position=Position(path="items"),
            )
        reader = ItemReader(
            token=secrets.token_hex(12),
            decrypt=lambda encrypted, path, purpose: cipher.decrypt(encrypted, exchange.owner, path, purpose),
            before=before,
            known=await self._archive.known(exchange.owner, items, before),
            path="items",
        )
        return await self.context.large.run(lambda: reader.read(items), exchange.size)

    async def _body(self, request: Request, kind: type[Body]) -> Body:
        exchange = exchange_of(request)
        body = await read_json(exchange.headers, request.receive, self.context.limits, request.state.room)
        exchange.size = len(body)
        wire, names = await self.context.large.run(lambda: decode(body or b"{}", kind), len(body))
        exchange.ignored = names.ignored
        await attach(wire, self.context, exchange, request.state.room)
        return wire
