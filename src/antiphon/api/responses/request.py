"""One Responses request: what was said before it, its items, its turn."""

from __future__ import annotations

from starlette.datastructures import Headers

from antiphon.api.context import Context
from antiphon.api.http.exchange import Exchange
from antiphon.conversation import Message
from antiphon.errors import Position, RequestError
from antiphon.generation import Model
from antiphon.wire.responses.item_schema import Annotation, InputItem
from antiphon.wire.responses.items import Entry, ItemReader
from antiphon.wire.responses.read import (
    Asked,
    conversation_id,
    head_of,
    prepare_response,
    read_request,
    with_sampling,
)
from antiphon.wire.responses.schema import (
    ResponsesRequest,
    TokensRequest,
)
from antiphon.wire.responses.write import View

from .archive import Past
from .make import Order


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
            unseal=lambda sealed, path: self._context.cipher.decrypt(sealed, self._owner, path),
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

    def asked(
        self, model: Model, wire: TokensRequest, past: Past, entries: tuple[Entry, ...], *, affinity: str | None
    ) -> Asked:
        context = self._context
        messages: list[Message] = [message for entry in (*past.entries, *entries) for message in entry.messages]
        return read_request(
            wire,
            messages,
            server=context.tools.offered(builtins=model.format.framed) if context.tools else None,
            offer_tools=context.offer_tools,
            limits=context.limits,
            most_tools=context.dialect.max_tools,
            today=context.today,
            affinity=affinity,
        )

    async def order(self, wire: ResponsesRequest, model: Model, headers: Headers) -> Order:
        """All that is decided before the first token. Raises `RequestError` naming the field."""
        context, exchange, id = self._context, self._exchange, f"resp_{self._token}"
        past = await self.past(wire)
        entries = await self.entries(wire, past)
        thread = past.thread or id
        affinity = wire.prompt_cache_key or headers.get("x-session-affinity") or f"{exchange.owner}/{thread}"
        asked = with_sampling(self.asked(model, wire, past, entries, affinity=affinity), wire)
        plan = await prepare_response(model, asked)
        head = head_of(wire, asked, plan, id=id, created=int(context.clock()))
        include = wire.include or ()
        sealed = "reasoning.encrypted_content" in include
        view = View(
            expose_reasoning=context.reveals(exchange),
            seal=(lambda message: context.cipher.encrypt(message, exchange.owner)) if sealed else None,
            code_outputs="code_interpreter_call.outputs" in include,
            container_id=f"cntr_{thread.partition('_')[2]}",
            offers=asked.tools.offers,
            served=asked.tools.served,
            cite=lambda text: self._citations(f"{exchange.owner}/{thread}", text),
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

    def _citations(self, session: str, text: str) -> list[Annotation]:
        found = self._context.tools.citations(session, text) if self._context.tools else ()
        return [Annotation(start_index=one.start, end_index=one.end, url=one.url, title=one.title) for one in found]
