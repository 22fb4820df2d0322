"""Reads a request for a response: the conversation before it, its own items, its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import date
from typing import TypeVar

import msgspec

from antiphon.api.chat.request import turn_memory
from antiphon.conversation import Message, Usage
from antiphon.errors import Position, RequestError
from antiphon.formats import NO_OPINION
from antiphon.generation import Draft, Model, Plan, TurnRequest, check_visible, constrain
from antiphon.generation.recall import draft_turn
from antiphon.generation.unfinished import TurnMemory
from antiphon.http.context import Context
from antiphon.http.exchange import Exchange
from antiphon.http.gate.keys import Scope
from antiphon.http.post import Post
from antiphon.http.recorded import carried
from antiphon.store import pack, unpack
from antiphon.structs import ready
from antiphon.tenancy import Tenant
from antiphon.tools.mcp import ClientServers, ClientToolSet
from antiphon.wire.dialect import DOCUMENTED
from antiphon.wire.errors import refused
from antiphon.wire.json import encode

from .archive import History, ResponseArchive, SocketTurn
from .compaction import Compaction, Summary, compaction_due, standing
from .item_schema import Annotation, InputItem
from .items import Entry, ItemReader
from .known import not_read
from .mcp_tools import ApprovedCall, Listing, approved_calls, client_servers, listed_before, read_server
from .output import ResponseView
from .read import RequestedResponse, conversation_id, head_of, read_request, with_sampling
from .schema import Response, ResponsesRequest, ResponsesTool, TokensRequest
from .tools import NO_SERVERS

# Connections to the MCP servers that a request names, for as long as it lives.


class ClientConnections:
    """``servers`` None: none may be named. ``resources`` are released when the request is over.

    ``listings`` are those that the request did not bring along.
    """

    def __init__(self, servers: ClientServers | None, resources: AsyncExitStack) -> None:
        self._servers = servers
        self._resources = resources
        self.listings: tuple[Listing, ...] = ()

    async def opened(self, tools: Sequence[ResponsesTool], entries: Sequence[Entry]) -> Mapping[str, ClientToolSet]:
        """The servers among ``tools`` by their labels. Raises `RequestError` for one that may not be connected to.

        One that ``entries`` list is connected to when it is called; the others are asked for their tools now, all at
        once. One that does not answer has an ``error`` and no tools.
        """
        if self._servers is None:
            return {}
        found = [self._tool_set(tool, path, self._servers) for path, tool in client_servers(tools, self._servers)]
        self._resources.push_async_callback(_close, found)
        unlisted = []
        for server in found:
            listed = listed_before(entries, server.label)
            if listed is None or len(listed) > server.reach.tools:
                unlisted.append(server)
            else:
                server.offer(listed)
        await asyncio.gather(*(server.look() for server in unlisted))
        self.listings = tuple(Listing(server.label, server.all, server.error) for server in unlisted)
        return {server.label: server for server in found}

    def _tool_set(self, tool: ResponsesTool, path: str, servers: ClientServers) -> ClientToolSet:
        from antiphon.tools.mcp.http import objection_to_text  # it needs the SDK, which is an optional extra

        server = read_server(tool, path, servers)
        if (reason := objection_to_text(server.url or "", servers.networks)) is not None:
            raise refused(f"{path}.server_url", f"{reason}.")
        return ClientToolSet(tool.server_label or "", server, servers.reach, tool.server_description or "")


async def _close(servers: Sequence[ClientToolSet]) -> None:
    """All at once: one that hangs is not waited for by the others."""
    await asyncio.gather(*(server.aclose() for server in servers), return_exceptions=True)


# What another server needs to go on with a response: the request as it came, and what was decided for it.


class StoredCompaction(msgspec.Struct, frozen=True):
    message: bytes
    usage: Usage
    encrypted: str

    def read(self) -> Compaction:
        return Compaction(Summary(unpack(self.message), self.usage), self.encrypted)


class RunHead(msgspec.Struct, frozen=True, kw_only=True):
    """``body`` is the request as it came in the dialect ``dialect``; ``response`` the response at its beginning.

    ``before`` is how many items of the conversation were there; ``day`` is the prompt's.
    """

    body: bytes
    dialect: str
    headers: dict[str, str]
    scopes: list[Scope]
    stream: bool
    response: bytes
    day: date
    call_key: str
    before: int
    compaction: StoredCompaction | None = None

    def began(self) -> Response:
        return msgspec.json.decode(self.response, type=ready(Response))


def head_of_run(
    post: Post, response: Response, request: TurnRequest, *, before: int, compaction: Compaction | None
) -> RunHead:
    """``request`` is that of the first turn, ``before`` how many items of the conversation were there."""
    exchange, today, stored = post.exchange, request.conversation.settings.current_date, None
    assert today is not None, "every prompt of a response has its day"
    if compaction is not None:
        summary = compaction.summary
        stored = StoredCompaction(pack(summary.message), summary.usage, compaction.encrypted)
    return RunHead(
        body=encode(exchange.attached) if exchange.attached else post.body,
        dialect=post.context.dialect.name,
        headers=carried(exchange.headers),
        scopes=sorted(exchange.principal.scopes),
        stream=exchange.stream,
        response=encode(response),
        day=today,
        call_key=request.call_key,
        before=before,
        compaction=stored,
    )


Result = TypeVar("Result")


class ResponsePlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that is decided before the first token. ``first`` is the plan of the first turn.

    ``inputs`` are the items that this request brought, ``before`` those that it goes on from; ``thread`` is
    `StoredResponse`'s. ``memory`` stores the turn while calls of it wait. ``listings`` are of MCP servers that the
    client named and that were not listed before; ``approved`` are the calls to them that run first.
    """

    owner: str
    requested: RequestedResponse
    first: Plan
    head: Response
    view: ResponseView
    memory: TurnMemory
    before: tuple[Entry, ...]
    inputs: tuple[Entry, ...]
    thread: str
    conversation: str = ""
    compaction: Compaction | None = None
    socket: SocketTurn | None = None
    listings: tuple[Listing, ...] = ()
    approved: tuple[ApprovedCall, ...] = ()

    @property
    def has_secrets(self) -> bool:
        """The request names MCP servers of the client's, with what opens them: that is written nowhere."""
        return bool(self.requested.tools.named or self.listings or self.approved)

    @property
    def session(self) -> str:
        """Names the state that tools keep between the calls of this thread."""
        return session_of(self.owner, self.thread)


Compact = Callable[[Model, TurnRequest], Awaitable[Compaction | None]]
"""Lets a model write the summary of a conversation."""


class RequestReader:
    """Reads one request. ``token`` is what its ids are made of; ``socket`` is there where it came over a WebSocket.

    ``resources`` are released when the request is over: among them the connections to MCP servers that it names.
    ``left``: it is read once more, to go on with the response where another server stopped.
    """

    def __init__(
        self,
        context: Context,
        exchange: Exchange,
        token: str,
        resources: AsyncExitStack,
        socket: SocketTurn | None = None,
        *,
        left: RunHead | None = None,
    ) -> None:
        self._left = left
        self._context = context
        self._clients = ClientConnections(context.client_mcp, resources)
        self._exchange = exchange
        self._owner = exchange.owner
        self._token = token
        self._socket = socket

    async def history(self, wire: TokensRequest) -> History:
        """The items before the request: of the response, or of the conversation, that it continues."""
        archive = ResponseArchive(self._context.archive)
        if wire.previous_response_id:
            remembered = self._socket.memory.history(wire.previous_response_id) if self._socket else None
            return remembered or await archive.history(self._owner, wire.previous_response_id)
        if conversation := conversation_id(wire):
            items = await archive.conversation_items(self._owner, conversation)
            return History(tuple(items if self._left is None else items[: self._left.before]), conversation)
        return History()

    async def entries(self, wire: TokensRequest, history: History) -> tuple[Entry, ...]:
        """The items of the request itself."""
        items = [InputItem(role="user", content=wire.input)] if isinstance(wire.input, str) else wire.input
        if not items and not history.entries:
            raise RequestError(
                "input must say something.", code="missing_required_parameter", position=Position(path="input")
            )
        reader = ItemReader(
            token=self._token,
            decrypt=lambda content, path, purpose: self._context.cipher.decrypt(content, self._owner, path, purpose),
            before=standing(history.entries),
            whole=history.thread is not None,
            known=await ResponseArchive(self._context.archive).known(self._owner, items or [], history.entries),
        )
        return tuple(await self._context.large.run(lambda: reader.read(items or []), self._exchange.size))

    async def off_loop(self, work: Callable[[], Result]) -> Result:
        """Work on the whole request and what is before it, always beside the event loop."""
        return await self._context.large.run(work, max(self._exchange.size, self._context.limits.off_loop_above + 1))

    def requested(
        self,
        model: Model,
        wire: TokensRequest,
        messages: tuple[Message, ...],
        *,
        tenant: Tenant | None = None,
        clients: Mapping[str, ClientToolSet] = NO_SERVERS,
    ) -> RequestedResponse:
        """The turn after ``messages``, with this server's tools and limits, and those of ``clients``."""
        context = self._context
        return read_request(
            wire,
            messages,
            server=context.tools.offered(builtins=model.format.framed) if context.tools else None,
            offer_tools=context.offer_tools,
            limits=context.limits,
            most_tools=context.dialect.max_tools,
            documented=DOCUMENTED if context.dialect.strict else NO_OPINION,
            today=context.today if self._left is None else self._left.day,
            tenant=tenant or self._exchange.tenant,
            clients=clients,
        )

    async def clients(self, wire: TokensRequest, entries: Sequence[Entry]) -> Mapping[str, ClientToolSet]:
        """The MCP servers that the client names, by their labels, connected until the request is over."""
        return await self._clients.opened(wire.tools or [], entries)

    def memory(self, model: Model) -> TurnMemory:
        """The unfinished turns that the request may go on with; its client sees what the server's tools did."""
        return turn_memory(self._context, self._exchange, model, self.off_loop, exact=True)

    def tenant(self, wire: ResponsesRequest, thread: str) -> Tenant:
        """The tenant whose cache the response uses: its thread's, where the client names no other."""
        tenant = self._exchange.tenant
        affinity = wire.prompt_cache_key or tenant.affinity or session_of(self._owner, thread)
        return tenant.asking(affinity=affinity, salt=wire.cache_salt)

    async def plan(self, wire: ResponsesRequest, model: Model, compact: Compact) -> ResponsePlan:
        """All that is decided before the first token. Raises `RequestError` naming the field.

        ``compact`` is called for a prompt beyond the threshold that the request names.
        """
        id, owner = f"resp_{self._token}", self._owner
        history = await self.history(wire)
        inputs = await self.entries(wire, history)
        thread = history.thread or id
        entries = (*history.entries, *inputs)
        clients = await self.clients(wire, entries)

        memory = self.memory(model)

        async def drafted(entries: tuple[Entry, ...]) -> tuple[RequestedResponse, Draft]:
            messages = History(entries).messages
            requested = self.requested(model, wire, messages, tenant=self.tenant(wire, thread), clients=clients)
            requested = with_sampling(requested, wire)
            if self._left is not None:
                requested = msgspec.structs.replace(
                    requested, turn=replace(requested.turn, call_key=self._left.call_key)
                )
            return requested, await draft_turn(model, lambda: requested.turn, self.off_loop, memory=memory)

        requested, draft = await drafted(entries)
        approved = approved_calls(entries, requested.tools.named, len(history.entries))
        if approved and self._socket is not None and not self._socket.generate:
            raise refused("generate", "a call that is approved runs, and its result is answered.")
        compaction = None
        if not approved and await compaction_due(wire, History(entries).messages, draft):
            compaction = await compact(model, replace(requested.turn, max_tokens=None))
        if compaction is not None:
            requested, draft = await drafted((*entries, compaction.entry))
        check_visible(draft, reveals=self._context.reveals(self._exchange))
        items = wire.input if isinstance(wire.input, list) else []
        unread = not_read(items, [not entry.messages for entry in inputs], memory.recalled)
        requested = msgspec.structs.replace(requested, ignored=(*requested.ignored, *unread))
        first, left, created = await constrain(draft), self._left, int(self._context.clock())
        return ResponsePlan(
            owner=owner,
            requested=requested,
            first=first,
            head=left.began() if left else head_of(wire, requested, first, id=id, created=created),
            view=self._view(wire, requested, thread),
            memory=memory,
            before=history.entries,
            inputs=inputs,
            thread=thread,
            conversation=conversation_id(wire),
            compaction=compaction,
            socket=self._socket,
            listings=self._clients.listings,
            approved=tuple(approved),
        )

    def _view(self, wire: ResponsesRequest, requested: RequestedResponse, thread: str) -> ResponseView:
        context, owner, include = self._context, self._owner, wire.include or ()
        encrypted = "reasoning.encrypted_content" in include
        return ResponseView(
            expose_reasoning=context.reveals(self._exchange),
            encrypt=(lambda message: context.cipher.encrypt(message, owner)) if encrypted else None,
            code_outputs="code_interpreter_call.outputs" in include,
            search_sources="web_search_call.action.sources" in include,
            container_id=f"cntr_{thread.partition('_')[2]}",
            offers=requested.tools.offers,
            served=requested.tools.served,
            gated=requested.tools.gated,
            named=requested.tools.named,
            cite=lambda text: self._citations(session_of(owner, thread), text),
        )

    def _citations(self, session: str, text: str) -> list[Annotation]:
        found = self._context.tools.citations(session, text) if self._context.tools else ()
        return [Annotation(start_index=one.start, end_index=one.end, url=one.url, title=one.title) for one in found]


def session_of(owner: str, thread: str) -> str:
    """The name of a thread's state in tools, and of its cache in the engine."""
    return f"{owner}/{thread}"
