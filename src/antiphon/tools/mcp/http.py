"""The HTTP client of MCP servers: bounded in time and size, and it remembers why a server did not answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2

from antiphon.tools.network import Network, is_public, is_readable, literal, objection

from .config import OPERATOR, Reach
from .fault import McpFault, fault_of_error, fault_of_status

# Connections to public addresses alone: whatever a URL, a name's resolver or a redirect says.


class PublicTransport(httpx2.AsyncBaseTransport):
    """Connects to the address that was checked, so that a name cannot change in between (DNS rebinding).

    ``networks`` may be connected to though they are not public. No proxy is used. Raises `httpx2.ConnectError`.
    """

    def __init__(self, networks: Sequence[Network] = ()) -> None:
        self._networks = tuple(networks)
        self._inner = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reason = objection_to(request.url, self._networks)
        if reason is not None:
            raise httpx2.ConnectError(reason, request=request)
        *others, last = await self._addresses(request)
        for address in others:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except httpx2.ConnectError:
                continue
        return await self._inner.handle_async_request(_pinned(request, last))

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _addresses(self, request: httpx2.Request) -> Sequence[str]:
        """Resolves the request's host to addresses, all of which are allowed."""
        host = request.url.host
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError(f"{host} has no address", request=request) from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        for text in addresses:
            address = literal(text)
            if address is None or not is_public(address, self._networks):
                raise httpx2.ConnectError(f"{host} is not a public address", request=request)
        return addresses


def objection_to(url: httpx2.URL, networks: Sequence[Network] = ()) -> str | None:
    """Why a URL may not be connected to; None where it may, as far as it can be seen."""
    if url.scheme in ("http", "https") and (not url.host or url.userinfo):
        return "the address must have a host and no user"
    return objection(url.scheme, url.host, url.port, networks)


def objection_to_text(text: str, networks: Sequence[Network] = ()) -> str | None:
    """The same for a URL as it was written."""
    if not is_readable(text):
        return "the address is too long or has blanks, control characters or backslashes"
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        return "that is not an address"
    if "@" in text.partition("//")[2].partition("/")[0]:
        return "the address must have a host and no user"
    return objection_to(url, networks)


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    """The request to that address; its certificate must be that of the host all the same."""
    host = request.url.host
    named = {} if literal(host) is not None else {"sni_hostname": host}
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, **named},
    )


CONNECT_SECONDS = 30.0
READ_SECONDS = 300.0
PLAIN = "identity"
SESSION = "mcp-session-id"


class McpHttpClient(httpx2.AsyncClient):
    """A client for one server. ``fault`` is why its last answer to a message was none; None after one that was.

    Bodies come without compression, so that their size is what is received.
    """

    def __init__(
        self,
        name: str,
        *,
        headers: dict[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        reach: Reach = OPERATOR,
    ) -> None:
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=READ_SECONDS)
        super().__init__(
            headers={"accept-encoding": PLAIN, **(headers or {})},
            timeout=timeout,
            auth=auth,
            event_hooks={"response": [self._watch]},
            transport=PublicTransport(reach.networks) if reach.public else None,
        )
        self._reach = reach
        self._name = name
        self.fault: McpFault | None = None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The response, of a bounded size. Raises `httpx2.HTTPError`, and what signing in raises."""
        try:
            response = await super().send(request, **options)
        except Exception as error:
            self._failed(error)
            raise
        self._note(response)
        return response

    async def _watch(self, response: httpx2.Response) -> None:
        """For every response, those that signing in needs too."""
        if response.headers.get("content-encoding", PLAIN) != PLAIN:
            raise httpx2.RemoteProtocolError("the body is compressed, though that was not requested")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            kind = response.headers.get("content-type", "")
            events = response.status_code < 400 and kind.startswith("text/event-stream")  # The SDK bounds each itself.
            most = self._reach.stream if events else self._reach.body
            response.stream = _Watched(response.stream, most, self._failed)

    def _failed(self, error: Exception) -> None:
        self.fault = fault_of_error(self._name, error)

    def _note(self, response: httpx2.Response) -> None:
        """Only messages count: a server need not have a stream of its own (GET), nor an end of sessions (DELETE)."""
        request = response.request
        if request.method != "POST":
            return
        failed = response.status_code >= 400
        self.fault = (
            fault_of_status(self._name, response.status_code, response.headers, in_session=SESSION in request.headers)
            if failed
            else None
        )


class _Watched(httpx2.AsyncByteStream):
    """A body of at most ``most`` bytes (0: any number); ``failed`` is called with what ends it early."""

    def __init__(self, stream: httpx2.AsyncByteStream, most: int, failed: Callable[[Exception], None]) -> None:
        self._stream = stream
        self._most = most
        self._failed = failed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if self._most and size > self._most:
                    raise httpx2.RemoteProtocolError(f"the body is longer than {self._most} bytes")
                yield chunk
        except httpx2.HTTPError as error:
            self._failed(error)
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()
