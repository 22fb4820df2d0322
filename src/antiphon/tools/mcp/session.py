"""One session with an MCP server: a process of its own, or an HTTP session of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from .config import McpServer

START_SECONDS = 30.0
END_SECONDS = 10.0
CALL_SECONDS = 300.0
_REFUSALS = frozenset({-32601, -32602, -32603})
"""Codes of JSON-RPC by which a server that goes on answers one request: unknown method, parameters, fault inside."""


class McpSession:
    """Connected from when it is made until it is closed or lost. Calls may run at once.

    The connection belongs to one task of its own, as the SDK wants it. ``alive`` is false once it is lost.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        self._server = server
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda ready: ready.exception())  # it need not have anybody who waits for it
        self._task = asyncio.create_task(self._connection(), name=f"mcp {name}")

    @property
    def alive(self) -> bool:
        return not self._stop.is_set() and not self._task.done()

    async def list_tools(self) -> list[Any]:
        """The server's tools. Raises what connecting, or the server, raises."""
        client = await self._client()
        listed: list[Any] = (await client.list_tools()).tools
        return listed

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
                async with asyncio.timeout(START_SECONDS):
                    client = await stack.enter_async_context(self._connecting())
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - reported to whoever waits
            self._fail(error)
        finally:
            self._fail(ConnectionError("the session was closed"))

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)

    def _connecting(self) -> Any:
        from mcp import Client, StdioServerParameters  # an optional extra

        server = self._server
        target: Any = server.url or StdioServerParameters(
            command=server.command or "", args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )
        return Client(target, read_timeout_seconds=CALL_SECONDS)
