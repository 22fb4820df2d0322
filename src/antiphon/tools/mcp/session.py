"""One session with an MCP server: a process of its own, or an HTTP session of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from .config import START_SECONDS
from .fault import McpFault

if TYPE_CHECKING:  # it needs the SDK, which is an optional extra
    from .connection import Connector

END_SECONDS = 10.0
SIGN_IN_SECONDS = 300.0
"""For connecting, where a person is there who may have to sign in meanwhile."""
MAX_PAGES = 100
_REFUSALS = frozenset({-32601, -32602, -32603})
"""Codes of JSON-RPC by which a server that goes on answers one request: unknown method, parameters, fault inside."""


class McpSession:
    """Connected from when it is made until it is closed or lost. Calls may run at once.

    The connection belongs to one task of its own, as the SDK wants it. ``alive`` is false once it is lost.
    """

    def __init__(self, name: str, connector: Connector, *, start_seconds: float = START_SECONDS) -> None:
        self._connector = connector
        self._start_seconds = start_seconds
        self._http = connector.http_client()
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda ready: ready.exception())  # it need not have anybody who waits for it
        self._task = asyncio.create_task(self._connection(), name=f"mcp {name}")

    @property
    def alive(self) -> bool:
        return not self._stop.is_set() and not self._task.done()

    @property
    def fault(self) -> McpFault | None:
        """Why a server over HTTP did not answer the last message; None where it did."""
        return self._http.fault if self._http is not None else None

    async def list_tools(self, most: int) -> list[Any]:
        """The server's tools, page by page, and ``most`` of them. Raises what connecting, or the server, raises."""
        client = await self._client()
        listed: list[Any] = []
        cursor = None
        for _ in range(MAX_PAGES):
            page = await client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if cursor is None or len(listed) >= most:
                break
        return listed[:most]

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The result of a tool as the SDK has it. An error that is no answer of the server costs the session."""
        try:
            client = await self._client()
            return await client.call_tool(tool, dict(arguments))
        except Exception as error:
            if getattr(error, "code", None) not in _REFUSALS:
                await self.aclose()
            raise

    async def aclose(self) -> None:
        """Ends the session, and the process behind it; the calls that it has fail. May be called twice."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()  # it is not connected yet
        done, _ = await asyncio.wait([self._task], timeout=END_SECONDS)
        if not done:
            self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _client(self) -> Any:
        return await asyncio.shield(self._ready)

    async def _connection(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._start_seconds):
                    client = await stack.enter_async_context(self._connector.connected(self._http))
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - reported to whoever waits
            self._fail(error)
        finally:
            self._fail(ConnectionError("the session was closed"))

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
