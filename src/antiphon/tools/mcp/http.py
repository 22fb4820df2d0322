"""The HTTP client of MCP servers: bounded in time and size, and it remembers why a server did not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2

from .fault import McpFault, fault_of_error, fault_of_status
from .public import PublicTransport
from .reach import OPERATOR, Reach

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
            most = self._reach.stream if _is_events(response) else self._reach.body
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


def _is_events(response: httpx2.Response) -> bool:
    """The SDK bounds each event itself."""
    return response.status_code < 400 and response.headers.get("content-type", "").startswith("text/event-stream")


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
