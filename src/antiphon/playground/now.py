"""The present, for the page: the records of a key, the tools that run at the server, and how far an answer is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.chat.archive import CompletionArchive
from antiphon.api.openapi.parts import Described, named, operation
from antiphon.api.responses.archive import ResponseArchive
from antiphon.api.responses.following import ResponseRun
from antiphon.errors import NotFoundError
from antiphon.http.context import Context
from antiphon.http.exchange import KEY, Exchange, json_response
from antiphon.http.journal import run_key
from antiphon.store import Key
from antiphon.tools import Offer
from antiphon.wire.json import encode

from .routes import PROGRESS, STORED, TOOLS

# The records of a key, as the page lists and opens them; they are deleted by the routes of their own API.

MOST = 500
"""Records of each kind that are looked at."""
KINDS = {
    "responses": "response",
    "conversations": "conversation",
    "completions": "chat_completion",
    "sessions": "session",
    "files": "file",
    "batches": "batch",
}
"""Names of lists, with the kind of their records in the store."""
HIDDEN = frozenset({"reasoning_content", "thinking", "token_ids", "prompt_token_ids"})
"""Fields that show what a model thought."""

JsonObject = dict[str, Any]


class StoredRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Times are Unix times in seconds; ``expires_at`` null: never."""

    id: str
    created_at: int
    expires_at: int | None


class StoredRecords(msgspec.Struct, frozen=True, kw_only=True):
    """Records of one kind, the newest first; ``has_more``: there are others that were not looked at."""

    data: list[StoredRecord]
    has_more: bool


class StoredLists(msgspec.Struct, frozen=True, kw_only=True):
    """All that is stored for the key."""

    responses: StoredRecords
    conversations: StoredRecords
    completions: StoredRecords
    sessions: StoredRecords
    files: StoredRecords
    batches: StoredRecords


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``input``: the items or messages before, ``output``: the answer; without what the model thought, unless the
    client may see it and does not decline it.
    """

    id: str
    input: list[JsonObject]
    output: JsonObject


class Stored:
    """The two routes, each for its own key alone."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[str, Callable[[str, str], Awaitable[StoredDocument]]] = {
            "responses": self._response,
            "conversations": self._conversation,
            "completions": self._completion,
        }

    async def list(self, request: Request) -> Response:
        exchange: Exchange = request.scope[KEY]
        owner = exchange.owner
        return json_response(StoredLists(**{name: await self._records(kind, owner) for name, kind in KINDS.items()}))

    async def one(self, request: Request) -> Response:
        exchange: Exchange = request.scope[KEY]
        read = self._open.get(request.path_params["kind"])
        if read is None:
            raise NotFoundError("Nothing of that kind can be opened.", code="unknown_url")
        document = msgspec.to_builtins(await read(exchange.owner, request.path_params["id"]))
        return json_response(document if self._context.reveals(exchange) else without_thoughts(document))

    async def _records(self, kind: str, owner: str) -> StoredRecords:
        names = await self._context.archive.store.names(kind, owner)
        found = [record for name in names[:MOST] if (record := await self._record(Key(kind, owner, name))) is not None]
        found.sort(key=lambda one: (-one.created_at, one.id))
        return StoredRecords(data=found, has_more=len(names) > MOST)

    async def _record(self, key: Key) -> StoredRecord | None:
        archive = self._context.archive
        record = await archive.store.get(key)
        if record is None or archive.expired(record, (record.expires or 0.0) - record.created):
            return None
        expires = None if record.expires is None else int(record.expires)
        return StoredRecord(id=key.name, created_at=int(record.created), expires_at=expires)

    async def _response(self, owner: str, id: str) -> StoredDocument:
        archive = ResponseArchive(self._context.archive)
        response = (await archive.response(owner, id)).response
        items = [dict(entry.item) for entry in await archive.items(owner, id, output=False) if entry.item is not None]
        return StoredDocument(id=id, input=items, output=msgspec.json.decode(encode(response)))

    async def _conversation(self, owner: str, id: str) -> StoredDocument:
        archive = ResponseArchive(self._context.archive)
        metadata, created = await archive.conversation(owner, id)
        items = [dict(entry.item) for entry in await archive.conversation_items(owner, id) if entry.item is not None]
        return StoredDocument(id=id, input=items, output={"created_at": created, "metadata": metadata})

    async def _completion(self, owner: str, id: str) -> StoredDocument:
        stored = CompletionArchive(self._context.archive)
        messages = await stored.messages(owner, id)
        return StoredDocument(id=id, input=messages, output=msgspec.json.decode(await stored.completion(owner, id)))


def without_thoughts(value: Any) -> Any:
    """JSON without what a model thought, wherever it is in it."""
    if isinstance(value, list):
        return [without_thoughts(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "reasoning":
        return {**value, "content": [], "summary": []}
    return {
        name: without_thoughts(part)
        for name, part in value.items()
        if name not in HIDDEN and not (name == "reasoning" and isinstance(part, str))
    }


# The present: the tools that run at the server, and how far an answer is.

RESPONSES_TOOLS: dict[str, dict[str, Any]] = {
    "browser": {"type": "web_search"},
    "python": {"type": "code_interpreter", "container": {"type": "auto"}},
}
"""How a request of the Responses API lists the built-in tools."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of the server, or all of one MCP server.

    ``name`` is what ``server_tools`` of chat completions takes, ``responses`` what ``tools`` of Responses takes,
    null where that has no word for it. ``functions`` are its parts.
    """

    name: str
    responses: dict[str, Any] | None
    functions: list[str]


class ListedTools(msgspec.Struct, frozen=True, kw_only=True):
    """``offered``: requests that list none get all of them. ``durable``: an answer in the background outlives it."""

    offered: bool
    durable: bool
    tools: list[ListedTool]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one answer is; ``waiting`` requests are in the queue, ``completion_tokens`` were sampled so far."""

    status: str
    waiting: int
    completion_tokens: int


class Now:
    """The two routes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def tools(self, request: Request) -> Response:
        tools = self._context.tools
        listed = [] if tools is None else list(_listed(tools.offered(builtins=True)))
        durable = self._context.stored_runs.records(background=True, stream=True, stored=True)
        return json_response(ListedTools(offered=self._context.offer_tools, durable=durable, tools=listed))

    async def progress(self, request: Request) -> Response:
        """The progress of a response that this server makes for the same key. Raises `NotFoundError` for any other."""
        exchange: Exchange = request.scope[KEY]
        run = self._context.runs.get(run_key(exchange.owner, request.path_params["id"]))
        if not isinstance(run, ResponseRun) or run.over:
            raise NotFoundError("This server makes no such response now.")
        waiting, tokens = self._context.admission.waiting, run.counted()
        return json_response(Progress(status=run.response.status, waiting=waiting, completion_tokens=tokens))


def _listed(offer: Offer) -> Iterator[ListedTool]:
    for space in offer.builtins:
        functions = [spec.name for spec in space.tools]
        yield ListedTool(name=space.name, responses=RESPONSES_TOOLS.get(space.name), functions=functions)
    servers: dict[str, list[str]] = {}
    for spec in offer.specs:
        label, _, name = spec.name.partition("__")
        if name:
            servers.setdefault(label, []).append(name)
        else:
            yield ListedTool(name=spec.name, responses=None, functions=[])
    for label, names in servers.items():
        yield ListedTool(name=label, responses={"type": "mcp", "server_label": label}, functions=names)


DESCRIBED = Described(
    kinds=(StoredLists, StoredDocument, ListedTools, Progress),
    paths={
        STORED: {"get": operation("What is stored for this key.", StoredLists)},
        f"{STORED}/{{kind}}/{{id}}": {
            "get": {**operation("One of it.", StoredDocument), "parameters": [named("kind"), named("id")]}
        },
        TOOLS: {"get": operation("The tools that run at the server.", ListedTools)},
        f"{PROGRESS}/{{id}}": {"get": {**operation("How far a response is.", Progress), "parameters": [named("id")]}},
    },
)
