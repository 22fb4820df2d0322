"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.conversation import FUNCTIONS, OpaquePart, ToolSpec
from antiphon.errors import ConfigError

from .call import TOOL_FAILED, ToolCall, ToolError, ToolOutput
from .tool import DescribedTool, DescribedToolSet, ToolFailure

START_SECONDS = 30.0
MAX_TOOLS = 256
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach a server: a ``command`` to start (stdio) or a ``url`` (streamable HTTP). From the operator only."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None


class McpConfig(msgspec.Struct, frozen=True, rename="camel"):
    """The JSON file that MCP clients share: ``{"mcpServers": {"name": {"command": …, "args": […]}}}``."""

    mcp_servers: dict[str, McpServer]


def read_mcp_config(text: str) -> dict[str, McpServer]:
    """The servers that a configuration names. Raises `ConfigError` with the place of the mistake."""
    try:
        servers = msgspec.json.decode(text, type=McpConfig).mcp_servers
    except msgspec.DecodeError as error:
        raise ConfigError(f"the MCP configuration cannot be read: {error}", code="mcp_config") from error
    for name, server in servers.items():
        if (server.command is None) == (server.url is None):
            raise ConfigError(f"the MCP server {name!r} needs a command or a url, one of them", code="mcp_config")
    return servers


class McpToolSet(DescribedToolSet):
    """One server's tools, as functions called ``server__tool``; made by `connect`.

    The connection belongs to one task of its own, as the SDK wants it. A server that dies costs the calls that it had;
    the next call starts it again.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        super().__init__()
        self._name = _ODD.sub("_", name)
        self._server = server
        self._client: Any = None
        self._owner: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._starting = asyncio.Lock()

    @classmethod
    async def connect(cls, name: str, server: McpServer) -> McpToolSet:
        """Starts or reaches the server and asks for its tools. Raises `ConfigError` when that fails."""
        tools = cls(name, server)
        try:
            client = await tools.client()
            listed = (await client.list_tools()).tools
        except ToolFailure as failure:
            raise ConfigError(failure.error.message, code="mcp_unreachable") from failure
        except Exception as error:
            await tools.aclose()
            raise ConfigError(
                f"the MCP server {name!r} did not list its tools: {error}", code="mcp_unreachable"
            ) from error
        tools._tools = tuple(McpTool(tools, tool.name, tools._spec(tool)) for tool in listed[:MAX_TOOLS])
        return tools

    def _spec(self, tool: Any) -> ToolSpec:
        name = _ODD.sub("_", f"{self._name}__{tool.name}")[:64]
        return ToolSpec(name, tool.description or "", tool.input_schema, namespace=FUNCTIONS)

    async def client(self) -> Any:
        """The connected client; started anew when the last one is gone. Raises `ToolFailure` when it cannot be."""
        async with self._starting:
            if self._owner is None or self._owner.done():
                self._stop = asyncio.Event()
                ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self._owner = asyncio.create_task(self._own(ready), name=f"mcp {self._name}")
                try:
                    async with asyncio.timeout(START_SECONDS):
                        self._client = await ready
                except Exception as error:
                    await self.aclose()
                    raise _gone(self._name, error) from error
            return self._client

    async def _own(self, ready: asyncio.Future[Any]) -> None:
        from mcp import Client, StdioServerParameters  # an optional extra

        server = self._server
        target: Any = server.url or StdioServerParameters(
            command=server.command or "", args=list(server.args), env=dict(server.env) or None, cwd=server.cwd
        )
        try:
            async with Client(target, read_timeout_seconds=300.0) as client:
                ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - reported to whoever waits
            if not ready.done():
                ready.set_exception(error)

    async def lose(self) -> None:
        """The server did not answer as it should: let go of it; the next call starts it again."""
        await self.aclose()

    async def aclose(self) -> None:
        owner, self._owner, self._client = self._owner, None, None
        if owner is None:
            return
        self._stop.set()
        done, _ = await asyncio.wait([owner], timeout=10.0)
        if not done:
            owner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await owner


@dataclass(frozen=True, slots=True)
class McpTool(DescribedTool):
    """One tool of a server."""

    server: McpToolSet = field(repr=False)
    name: str
    spec: ToolSpec

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        client = await self.server.client()
        try:
            result = await client.call_tool(self.name, dict(arguments))
        except Exception as error:
            await self.server.lose()
            raise _gone(self.name, error) from error
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise ToolFailure(ToolError(TOOL_FAILED, text or "the tool failed and gave no reason"))
        content = text if result.structured_content is None else result.structured_content
        return ToolOutput(content=content, media=_media(result.content), provenance={"source": f"mcp:{self.name}"})


def _media(blocks: Sequence[Any]) -> tuple[OpaquePart, ...]:
    return tuple(
        OpaquePart(block.type, {"mime": block.mime_type, "base64": block.data})
        for block in blocks
        if block.type in ("image", "audio")
    )


def _gone(name: str, error: BaseException) -> ToolFailure:
    why = str(error) or type(error).__name__
    return ToolFailure(ToolError(TOOL_FAILED, f"the MCP server of {name!r} failed: {why[:500]}", retryable=True))
