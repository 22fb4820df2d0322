"""What the engines behind HTTP share: one open reply, and the lines of an event stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import aiohttp
import msgspec

from antiphon.errors import (
    UNREACHABLE,
    AntiphonError,
    ContextError,
    EngineError,
    EngineLostError,
    OverloadedError,
    Position,
    RequestError,
)

NO_LIMIT = aiohttp.ClientTimeout(total=None, sock_connect=10)
"""For replies: how long one may take is decided above."""
log = logging.getLogger("antiphon.engines")
MOST_LOGGED = 500
"""Characters of a server's words that go into a line of the log: they may quote what was sent."""
SHORT = aiohttp.ClientTimeout(total=60)
RESTING = 3.0
"""Seconds for which a connection waits for the next request: less than servers wait, whose usual is 5."""
_AT_ONCE = 1.0
"""Seconds in which a connection fails that the server had closed while it rested."""


class HttpClient:
    """A session with an engine's server, and the replies of it that are being read.

    ``url`` is the server's root, which may have a path: what is requested lies below it.
    """

    def __init__(
        self, url: str, connector: aiohttp.BaseConnector, *, key: str | None = None, timeout: aiohttp.ClientTimeout
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        origin, self._root = origin_and_path(url)
        self._session = aiohttp.ClientSession(origin, connector=connector, headers=headers, timeout=timeout)
        self._resting = not connector.force_close
        self._replies: set[aiohttp.ClientResponse] = set()

    @asynccontextmanager
    async def open_reply(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        refuse: Callable[[int, bytes], Exception],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A reply of status 200; leaving it closes the connection, which is what stops the work.

        Any other status raises what ``refuse`` makes of it. OverloadedError when nobody answers there, EngineLostError
        when it stops answering, or when the client is closed meanwhile; EngineError for a reply that cannot be read.
        """
        reply = await self._request(method, path, body)
        self._replies.add(reply)
        try:
            if reply.status != 200:
                raise refuse(reply.status, await reply.read())
            yield reply
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineLostError("the engine died in the middle of a reply") from error
        except (msgspec.MsgspecError, ValueError) as error:
            log.warning("the engine's server answers %s with what is not its protocol: %s", path, error)
            raise EngineError("the engine's server does not speak its protocol", hint="The log has more.") from error
        finally:
            self._replies.discard(reply)
            reply.close()

    async def _request(self, method: str, path: str, body: Mapping[str, object] | None) -> aiohttp.ClientResponse:
        if self._session.closed:
            raise EngineLostError("the engine's client is closed")
        content = None if body is None else msgspec.json.encode(body)
        try:
            return await self._sent(method, path, content)
        except aiohttp.ClientConnectorError as error:
            hint = "It is down or just starting: try again in a moment."
            raise OverloadedError("the engine cannot be reached", code=UNREACHABLE, hint=hint) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EngineLostError("the engine died before it answered") from error

    async def _sent(self, method: str, path: str, content: bytes | None) -> aiohttp.ClientResponse:
        """Sent once more where the server hung up before it answered: it may have closed a connection that rested.

        Where none rests, or it took a while, it is the request that ended the server, or its end.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        send = partial(
            self._session.request, method, self._root + path, data=content, headers={"Content-Type": "application/json"}
        )
        try:
            return await send()
        except aiohttp.ClientConnectorError:  # Nobody is there, which is no connection that rested.
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            if not self._resting or clock() - began > _AT_ONCE:
                raise
            return await send()

    async def aclose(self) -> None:
        """Closes the session. Who still reads a reply gets `EngineLostError`; aiohttp would let them wait for ever."""
        for reply in self._replies:
            reply.content.set_exception(aiohttp.ClientConnectionError("closed here"))
        await self._session.close()


def origin_and_path(url: str) -> tuple[str, str]:
    """``https://host:8000/engines/a/`` → ``https://host:8000`` and ``/engines/a``; without a path: ``""``."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


def failed(status: int, words: str) -> AntiphonError:
    """A server's failure as one of our errors, in our words. Its own go to the log: they are for the operator.

    Those of a refused request are logged at the level ``debug`` only, for they may quote what the client sent.
    """
    if status in (401, 403):
        return refused_key(status)
    level = logging.DEBUG if status in (400, 422) else logging.WARNING
    log.log(level, "the engine's server answered %d: %s", status, words[:MOST_LOGGED])
    match status:
        case 400 | 422:
            return RequestError("the engine refused the request", hint="The reason is in the log at the level debug.")
        case 429 | 503:
            return OverloadedError("the engine takes nothing now", hint="Try again in a moment.")
        case _:
            return EngineError(f"the engine failed ({status})", hint="The reason is in the log.")


def refused_key(status: int) -> EngineError:
    """A server's answer to a wrong key, without its words: they may repeat the key."""
    return EngineError(f"the engine does not accept the key that it is called with ({status})", code="engine_key")


class EventLines:
    """Bytes of a server-sent event stream → (field, value) of each whole line; cut anywhere."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        parts = (line.rstrip(b"\r").partition(b":") for line in lines)
        return [(field, value.removeprefix(b" ")) for field, _, value in parts if field]


def values_of(reply: aiohttp.ClientResponse, *, whole: bool) -> aclosing[AsyncGenerator[bytes, None]]:
    """The JSON of each event of a stream of chunks, up to ``data: [DONE]`` or the stream's end.

    ``whole``: there is no stream, and the reply's body is the only one.
    """
    return aclosing(_only_value(reply) if whole else _event_values(reply))


async def _only_value(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    yield await reply.read()


async def _event_values(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    lines = EventLines()
    async for data in reply.content.iter_any():
        for _, value in lines.feed(data):
            if value == b"[DONE]":
                return
            if value.startswith(b"{"):
                yield value


def check_context(prompt: Sequence[int], context: int, *, room: int = 1) -> None:
    """RequestError for an empty prompt; ContextError, with both numbers, for one that leaves less than ``room``."""
    if not prompt:
        raise RequestError("the prompt is empty", position=Position(path="prompt"))
    if len(prompt) + room > context:
        raise ContextError(f"the prompt has {len(prompt)} tokens and the context holds {context}")
