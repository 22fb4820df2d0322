"""/v1/messages/batches, and the routes below it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from antiphon.api.batches.schema import ENDED, WINDOW, Batch, BatchCreate, OutputLine
from antiphon.api.batches.service import BatchService
from antiphon.api.errors import ANTHROPIC_ERRORS
from antiphon.errors import AntiphonError, NotFoundError, Position, RequestError
from antiphon.http.context import Context
from antiphon.http.errors import api_error
from antiphon.http.exchange import exchange_of, json_response
from antiphon.http.post import Post, PostRoute
from antiphon.structs import ready
from antiphon.wire.json import encode

from .batches import (
    ENDPOINT,
    DeletedMessageBatch,
    MessageBatch,
    MessageBatchCreate,
    MessageBatchList,
    MessageErrored,
    MessageResult,
    batch_id,
    lines_of,
    message_batch,
    page_of_batches,
    result_of,
)

# Batches of messages: Anthropic's view of the batches that this server runs.


class _Named(msgspec.Struct, frozen=True):
    custom_id: str


class MessageBatches(msgspec.Struct, frozen=True):
    """The batches of one server whose lines are messages, whichever API they were made by."""

    service: BatchService

    async def create(self, owner: str, lines: Sequence[bytes]) -> MessageBatch:
        """Makes a batch of the lines of a file. Raises `RequestError` where the owner's files are as many as may be."""
        files, size = self.service.files, sum(map(len, lines))
        file = await files.create(
            owner, _pieces(lines), size=size, filename="messages.jsonl", purpose="batch", lifetime=None
        )
        made = BatchCreate(input_file_id=file.id, endpoint=ENDPOINT, completion_window=WINDOW)
        try:
            batch = await self.service.create(owner, made)
        except BaseException:
            await files.delete(owner, file)
            raise
        return message_batch(batch, total=len(lines), not_run=0)

    async def find(self, owner: str, id: str) -> Batch:
        """Raises `NotFoundError` where this owner has no such batch of messages."""
        batch = await self.service.batch(owner, batch_id(id))
        if batch.endpoint != ENDPOINT:
            raise NotFoundError(f"There is no batch {id[:80]!r}.", position=Position(path="batch_id"))
        return batch

    async def shown(self, owner: str, batch: Batch) -> MessageBatch:
        """The batch with its counts, for which the files of some must be read."""
        counts = batch.request_counts
        total, not_run = counts.total, 0
        if not total:
            async for _ in self._lines(owner, batch.input_file_id):
                total += 1
        if batch.status in ("cancelled", "expired"):
            not_run = total - counts.completed - counts.failed
            async for line in self._lines(owner, batch.error_file_id):
                not_run += _output(line).response is None
        return message_batch(batch, total=total, not_run=not_run)

    async def page(self, owner: str, query: dict[str, str]) -> MessageBatchList:
        """The owner's batches, the newest first."""
        ids, most, backwards = page_of_batches(await self.service.ids(owner), query)
        found: list[Batch] = []
        for id in ids:
            batch = await self.service.find(owner, id)
            if batch is not None and batch.endpoint == ENDPOINT:
                found.append(batch)
            if len(found) > most:
                break
        page = found[:most][::-1] if backwards else found[:most]
        data = [await self.shown(owner, batch) for batch in page]
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return MessageBatchList(data=data, has_more=len(found) > most, first_id=first, last_id=last)

    async def results(self, owner: str, batch: Batch, request_id: str) -> AsyncIterator[bytes]:
        """A line for each request of a batch that has ended; those that it never came to have its own error."""
        named: set[str] = set()
        for file in (batch.output_file_id, batch.error_file_id):
            async for line in self._lines(owner, file):
                result = result_of(_output(line))
                named.add(result.custom_id)
                yield encode(result) + b"\n"
        if batch.status == "failed":
            error = _failure(batch, request_id)
            async for line in self._lines(owner, batch.input_file_id):
                custom_id = msgspec.json.decode(line, type=ready(_Named)).custom_id
                if custom_id not in named:
                    yield encode(MessageResult(custom_id=custom_id, result=error)) + b"\n"

    async def _lines(self, owner: str, id: str | None) -> AsyncIterator[bytes]:
        """The lines of a file; none where there is none, or none any more."""
        if id is None:
            return
        files, rest = self.service.files, b""
        try:
            file = await files.file(owner, id)
        except NotFoundError:
            return
        async for part in files.content(owner, file):
            *whole, rest = (rest + part).split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest


def check_ended(batch: Batch) -> None:
    """Raises `NotFoundError` for a batch that has no results yet."""
    if batch.status not in ENDED:
        raise NotFoundError("The batch has not ended, so it has no results yet.", position=Position(path="batch_id"))


async def _pieces(lines: Iterable[bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line


def _output(line: bytes) -> OutputLine:
    return msgspec.json.decode(line, type=ready(OutputLine))


def _failure(batch: Batch, request_id: str) -> MessageErrored:
    """Why the whole batch was not run, as the answer to one of its requests."""
    faults = batch.errors.data if batch.errors else []
    message, code = (faults[0].message, faults[0].code) if faults else ("The batch failed.", "internal_error")
    error: AntiphonError = RequestError(message, code=code)
    body = ANTHROPIC_ERRORS.body(api_error(error, ANTHROPIC_ERRORS, request_id=request_id))
    return MessageErrored(msgspec.Raw(encode(body)))


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
        exchange = exchange_of(request)
        unknown = sorted(set(request.query_params) - {"limit", "after_id", "before_id"})
        exchange.ignored = (*exchange.ignored, *unknown)
        return json_response(await self._batches.page(exchange.owner, dict(request.query_params)))

    async def retrieve(self, request: Request) -> Response:
        owner = exchange_of(request).owner
        return json_response(await self._batches.shown(owner, await self._batches.find(owner, _id(request))))

    async def cancel(self, request: Request) -> Response:
        owner, service = exchange_of(request).owner, self._batches.service
        await self._batches.find(owner, _id(request))
        return json_response(await self._batches.shown(owner, await service.cancel(owner, batch_id(_id(request)))))

    async def delete(self, request: Request) -> Response:
        """Deletes a batch that has ended, what it read and what it wrote."""
        owner = exchange_of(request).owner
        batch = await self._batches.find(owner, _id(request))
        shown = await self._batches.shown(owner, batch)
        await self._batches.service.delete(owner, batch)
        return json_response(DeletedMessageBatch(id=shown.id))

    async def results(self, request: Request) -> Response:
        exchange = exchange_of(request)
        batch = await self._batches.find(exchange.owner, _id(request))
        check_ended(batch)
        return StreamingResponse(self._batches.results(exchange.owner, batch, exchange.id), media_type=LINES)


def _id(request: Request) -> str:
    id: str = request.path_params["id"]
    return id
