"""/v1/files and /v1/batches, and the routes below them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from antiphon.api.chat.routes import ChatCompletions
from antiphon.api.completions.routes import Completions
from antiphon.api.embeddings.routes import MakeEmbeddings
from antiphon.api.errors import ANTHROPIC_ERRORS
from antiphon.api.messages.batch_routes import CreateMessageBatch, MessageBatches, MessageBatchRoutes
from antiphon.api.messages.batches import page_of_batches
from antiphon.api.messages.described import message_batch_paths
from antiphon.api.messages.routes import CreateMessage
from antiphon.api.openapi.parts import Described, named, operation
from antiphon.api.responses.items import newest_is_first
from antiphon.api.responses.routes import CreateResponse
from antiphon.http.context import Context
from antiphon.http.errors import ClientGone
from antiphon.http.exchange import GONE, KEY, Exchange, exchange_of, json_response
from antiphon.http.post import Post, PostRoute
from antiphon.store.files import PREFIX as FILE_PREFIX
from antiphon.store.files import StoredFile
from antiphon.wire.dialect import OPENAI

from .call import Endpoint, Endpoints
from .schema import (
    BYTES,
    KEPT,
    Batch,
    BatchCreate,
    BatchList,
    DeletedFile,
    DeletedMessagesFile,
    File,
    FileList,
    MessagesFile,
    MessagesFileList,
    Purpose,
    described,
    messages_file,
)
from .service import BatchService, ids_of_page, page_size
from .upload import UploadLimits, check_size, read_upload

# Which routes answer the lines of batches.

ENDPOINTS: Endpoints = MappingProxyType(
    {
        "/v1/chat/completions": Endpoint(ChatCompletions),
        "/v1/completions": Endpoint(Completions),
        "/v1/embeddings": Endpoint(MakeEmbeddings),
        "/v1/messages": Endpoint(CreateMessage, ANTHROPIC_ERRORS),
        "/v1/responses": Endpoint(CreateResponse),
    }
)


PAGE = {"after", "limit", "order", "purpose"}
MOST_FILES = 10_000
"""Files of one page: the most, and the default."""


class FileRoutes:
    """The routes of files, but for the upload."""

    def __init__(self, service: BatchService) -> None:
        self._service = service
        self._files = service.files

    async def list(self, request: Request) -> Response:
        """A page of the owner's files, the newest first unless ``order`` is asc."""
        query = request.query_params
        exchange_of(request).ignore(sorted(set(query) - PAGE))
        most = page_size(query, usual=MOST_FILES, most=MOST_FILES)
        owner, newest = exchange_of(request).owner, newest_is_first(query, usual=True)
        ids = ids_of_page(await self._files.ids(owner), query, FILE_PREFIX, newest_first=newest)
        found: list[File] = []
        async for file in self._files.all(owner, ids):
            if query.get("purpose", file.purpose) == file.purpose:
                found.append(described(file))
            if len(found) > most:
                break
        page = found[:most]
        names = [file.id for file in page] or [""]
        listed = FileList(data=page, first_id=names[0], last_id=names[-1], has_more=len(found) > most)
        return json_response(listed)

    async def retrieve(self, request: Request) -> Response:
        return json_response(described(await self._file(request)))

    async def content(self, request: Request) -> Response:
        """Its bytes, as they were uploaded or written."""
        file = await self._file(request)
        pieces = self._files.content(exchange_of(request).owner, file)
        return StreamingResponse(pieces, media_type=BYTES, headers={"content-length": str(file.bytes)})

    async def delete(self, request: Request) -> Response:
        file = await self._file(request)
        await self._service.delete_file(exchange_of(request).owner, file)
        return json_response(DeletedFile(id=file.id))

    async def _file(self, request: Request) -> StoredFile:
        return await self._files.file(exchange_of(request).owner, request.path_params["id"])


class MessagesFiles(FileRoutes):
    """The same for clients of Anthropic's API."""

    async def list(self, request: Request) -> Response:
        """A page of the owner's files, the newest first."""
        exchange = exchange_of(request)
        query = dict(request.query_params)
        exchange.ignore(sorted(set(query) - {"after_id", "before_id", "limit", "page"}))
        query = {"after_id": query["page"], **query} if "page" in query else query
        ids = await self._files.ids(exchange.owner)
        ids, most, backwards = page_of_batches(ids, query, id_of=str, what="file")
        found: list[MessagesFile] = []
        async for file in self._files.all(exchange.owner, ids):
            found.append(messages_file(file))
            if len(found) > most:
                break
        page = found[:most][::-1] if backwards else found[:most]
        first, last = (page[0].id, page[-1].id) if page else (None, None)
        more = len(found) > most
        following = last if more and not backwards else None
        listed = MessagesFileList(data=page, has_more=more, first_id=first, last_id=last, next_page=following)
        return json_response(listed)

    async def retrieve(self, request: Request) -> Response:
        return json_response(messages_file(await self._file(request)))

    async def delete(self, request: Request) -> Response:
        file = await self._file(request)
        await self._service.delete_file(exchange_of(request).owner, file)
        return json_response(DeletedMessagesFile(id=file.id))


class CreateFile:
    """POST /v1/files: a form, whose file is written to the store piece by piece.

    ``purpose`` and ``shown`` are for the files of a wire that names no purposes.
    """

    def __init__(
        self,
        context: Context,
        service: BatchService,
        purpose: str | None = None,
        shown: Callable[[StoredFile], File | MessagesFile] = described,
    ) -> None:
        self._context = context
        self._files = service.files
        self._purpose = purpose
        self._shown = shown

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[KEY]
        self._context.traffic.requests += 1
        try:
            file = await self._created(exchange, Request(scope, receive))
            await json_response(self._shown(file))(scope, receive, send)
        except ClientGone:
            exchange.status = GONE
            self._context.traffic.clients_gone += 1

    async def _created(self, exchange: Exchange, request: Request) -> StoredFile:
        self._context.lifecycle.check()
        owner, config = exchange.owner, self._context.batches
        left = await self._files.left(owner)
        with self._files.coming(owner) as coming:
            limits = UploadLimits(config.max_file, left, self._context.limits.body_timeout, coming.add)
            async with read_upload(request, limits, purpose=self._purpose) as upload:
                check_size(upload, limits)
                exchange.size = upload.size
                coming.arrived()
                return await self._files.create(
                    owner,
                    upload.pieces(),
                    size=upload.size,
                    filename=upload.filename,
                    purpose=upload.purpose,
                    lifetime=upload.lifetime,
                )


class CreateBatch(PostRoute):
    """POST /v1/batches: takes a batch, which is checked and run beside the requests."""

    def __init__(self, context: Context, service: BatchService) -> None:
        super().__init__(context)
        self._service = service

    async def answer(self, post: Post) -> None:
        wire = await post.read(BatchCreate)
        await post.send_json(await self._service.create(post.exchange.owner, wire))


class BatchRoutes:
    """The routes of batches, but for making one."""

    def __init__(self, service: BatchService) -> None:
        self._service = service

    async def list(self, request: Request) -> Response:
        """A page of the owner's batches, the newest first."""
        exchange_of(request).ignore(sorted(set(request.query_params) - {"after", "limit"}))
        return json_response(await self._service.page(exchange_of(request).owner, request.query_params))

    async def retrieve(self, request: Request) -> Response:
        return json_response(await self._service.batch(exchange_of(request).owner, request.path_params["id"]))

    async def cancel(self, request: Request) -> Response:
        return json_response(await self._service.cancel(exchange_of(request).owner, request.path_params["id"]))


class Batches:
    """The routes of files, of batches and of batches of messages, over one service."""

    def __init__(self, context: Context) -> None:
        self.service = service = BatchService(context, ENDPOINTS)
        self.files = FileRoutes(service)
        self.create_file = CreateFile(context, service)
        self.messages_files = MessagesFiles(service)
        self.create_messages_file = CreateFile(context, service, "user_data", messages_file)
        self.batches = BatchRoutes(service)
        self.create = CreateBatch(context, service)
        of_messages = MessageBatches(service)
        self.messages = MessageBatchRoutes(of_messages)
        # Another dialect's rules are not that API's.
        self.create_messages = CreateMessageBatch(replace(context, dialect=OPENAI), of_messages)


def _described() -> Described:
    one = [named("id")]
    upload = operation("Stores a file.", File)
    fields: dict[str, dict[str, object]] = {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"enum": list(get_args(Purpose))},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer", "minimum": KEPT[0], "maximum": KEPT[1]},
    }
    form = {"type": "object", "properties": fields, "required": ["file", "purpose"], "additionalProperties": False}
    upload["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": form}}}
    content = operation("The bytes of a file.", File)
    binary = {"schema": {"type": "string", "format": "binary"}}
    content["responses"]["200"]["content"] = {BYTES: binary}
    listed = {**operation("The files.", FileList), "parameters": _queries("after", "limit", "order", "purpose")}
    of_messages = message_batch_paths()
    return Described(
        (File, FileList, DeletedFile, BatchCreate, Batch, BatchList, *of_messages.kinds),
        {
            **of_messages.paths,
            "/v1/files": {"get": listed, "post": upload},
            "/v1/files/{id}": {
                "parameters": one,
                "get": operation("One file.", File),
                "delete": operation("Deletes a file.", DeletedFile),
            },
            "/v1/files/{id}/content": {"parameters": one, "get": content},
            "/v1/batches": {
                "get": {**operation("The batches.", BatchList), "parameters": _queries("after", "limit")},
                "post": operation("Makes a batch of the lines of a file.", Batch, body=BatchCreate),
            },
            "/v1/batches/{id}": {"parameters": one, "get": operation("One batch.", Batch)},
            "/v1/batches/{id}/cancel": {"parameters": one, "post": operation("Cancels a batch.", Batch)},
        },
    )


def _queries(*names: str) -> list[dict[str, object]]:
    kinds: dict[str, dict[str, object]] = {
        "limit": {"type": "integer", "minimum": 1},
        "order": {"enum": ["asc", "desc"]},
    }
    return [{"name": name, "in": "query", "schema": kinds.get(name, {"type": "string"})} for name in names]


DESCRIBED = _described()
