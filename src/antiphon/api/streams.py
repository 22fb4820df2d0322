"""/v1/streams/{id}: streams that were requested to be resumable, read again and deleted."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.errors import NotFoundError, Position
from antiphon.http.context import Context
from antiphon.http.errors import error_event
from antiphon.http.exchange import exchange_of, json_response
from antiphon.http.following import events_of, number_after, stop
from antiphon.http.recorded import KIND
from antiphon.http.runs import EventsResponse
from antiphon.store import Key
from antiphon.wire.writer import DONE, StreamForm


class DeletedStream(msgspec.Struct, frozen=True):
    id: str
    object: str = "stream.deleted"
    deleted: bool = True


class Streams:
    """Reading a stream again, while it is made and afterwards, and ending it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def follow(self, request: Request) -> Response:
        """The events after number ``starting_after``, or the header ``last-event-id``, and all that come."""
        exchange = exchange_of(request)
        key = _key(request)
        if await self._context.stored_runs.state(key) is None:
            raise _unknown(key)
        after = number_after(request.query_params, request.headers)
        form = StreamForm(lambda error: error_event(error, exchange.errors) + DONE)
        return EventsResponse(events_of(self._context, key, after), self._context.rules, form, end=b"")

    async def delete(self, request: Request) -> Response:
        """Ends it where it is being made, and deletes its events."""
        key = _key(request)
        await stop(self._context, key)
        if not await self._context.archive.store.delete(key):
            raise _unknown(key)
        return json_response(DeletedStream(id=key.name))


def _key(request: Request) -> Key:
    exchange = exchange_of(request)
    return Key(KIND, exchange.owner, request.path_params["id"])


def _unknown(key: Key) -> NotFoundError:
    message = f"There is no stream {key.name[:80]!r}, or its events have expired."
    return NotFoundError(message, position=Position(path="stream_id"))
