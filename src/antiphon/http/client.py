"""The other end of the connection: what it sends, and whether it is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TypeVar

from starlette.datastructures import Headers
from starlette.types import Receive

from antiphon.config import Limits
from antiphon.errors import OverloadedError, RequestError

from .errors import ClientGone
from .gate.large import BodyRoom

Result = TypeVar("Result")

DISCARD = 16
"""Up to so many times the limit a body is read and thrown away: a client that still sends would not hear the answer."""


async def read_json(headers: Headers, receive: Receive, limits: Limits, room: BodyRoom) -> bytes:
    """The body, whole. Raises `RequestError` for a body of another kind or size, `ClientGone` when it never comes,
    `OverloadedError` where there is no room for it.
    """
    kind = headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise RequestError(
            "The body must be JSON.", code="unsupported_media_type", hint="Send content-type: application/json."
        )
    return await read_body(headers, receive, limits, room)


async def read_body(headers: Headers, receive: Receive, limits: Limits, room: BodyRoom) -> bytes:
    """The same for a body of any kind."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError("Compressed bodies are not read.", code="unsupported_media_type")
    announced = headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > DISCARD * limits.max_body:
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.body_timeout):
            return await _read(receive, limits, room)
    except TimeoutError:
        message = f"The body did not come within {limits.body_timeout:g} seconds."
        raise OverloadedError(message, code="body_timeout") from None


async def _read(receive: Receive, limits: Limits, room: BodyRoom) -> bytes:
    chunks: list[bytes] = []
    full: OverloadedError | None = None
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size <= limits.max_body and full is None:
            try:
                room.take(len(chunk))
                chunks.append(chunk)
            except OverloadedError as error:
                full = error
                chunks.clear()
                room.leave()
        elif size > DISCARD * limits.max_body:
            break
        more = message.get("more_body", False)
    if size > limits.max_body:
        raise _too_large(limits)
    if full is not None:
        raise full
    return b"".join(chunks)


def _too_large(limits: Limits) -> RequestError:
    return RequestError(f"The body is larger than {limits.max_body} bytes.", code="body_too_large")


async def while_connected(receive: Receive, work: Coroutine[object, object, Result]) -> Result:
    """The work's result. A client that hangs up ends the work at once: `ClientGone`."""
    watcher = asyncio.ensure_future(_gone(receive))
    task = asyncio.current_task()
    assert task is not None
    hung_up = partial(_end, task)
    watcher.add_done_callback(hung_up)
    try:
        return await work
    except asyncio.CancelledError:
        if watcher.done() and not task.uncancel():
            raise ClientGone from None
        raise
    finally:
        watcher.remove_done_callback(hung_up)
        watcher.cancel()
        del task, watcher, hung_up  # an error has this frame, which would have the task, which may have the error


def _end(task: asyncio.Task[object], watcher: asyncio.Future[None]) -> None:
    """Nobody waits for the task any more."""
    if not watcher.cancelled():
        watcher.exception()
    task.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
