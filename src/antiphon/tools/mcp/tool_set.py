"""The tools of one MCP server, and whose session with it a call goes through."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from antiphon.conversation import FUNCTIONS, OpaquePart, ToolSpec
from antiphon.errors import ConfigError
from antiphon.tools.call import TOOL_FAILED, ToolCall, ToolError, ToolOutput
from antiphon.tools.pool import Borrowed, PoolSize, Session, SessionPool
from antiphon.tools.tool import DescribedTool, DescribedToolSet, ToolFailure

from .config import McpServer
from .session import McpSession

MAX_TOOLS = 256
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_OPERATOR = ""
"""The owner whose session lists the tools; also that of calls without an owner, and of all to a stateless server."""


@dataclass(frozen=True, slots=True)
class McpLimits:
    """``sessions`` with one server, one an owner; ``wait`` is for how many seconds a call waits for room.

    An owner's session that no call used for ``idle`` seconds is closed; that of the nameless owner stays.
    """

    sessions: int = 8
    idle: float = 600.0
    wait: float = 10.0

    @property
    def size(self) -> PoolSize:
        return PoolSize(total=self.sessions, per_owner=1, wait=self.wait, users=1024, idle=self.idle)


class McpToolSet(DescribedToolSet):
    """One server's tools, as functions called ``server__tool``; made by `connect`.

    Each owner has a session of its own, which is a process or an HTTP session, from its first call on. One that is lost
    costs the calls that it had; the owner's next call begins another.
    """

    def __init__(self, name: str, server: McpServer, limits: McpLimits | None = None) -> None:
        super().__init__()
        self._name = _ODD.sub("_", name)
        self._server = server
        busy = f"all sessions with the MCP server {name!r} are at work. Call again a little later."
        self._pool: SessionPool[McpSession] = SessionPool(self._start, (limits or McpLimits()).size, busy=busy)

    @classmethod
    async def connect(cls, name: str, server: McpServer, limits: McpLimits | None = None) -> McpToolSet:
        """Starts or reaches the server and asks for its tools. Raises `ConfigError` when that fails."""
        tools = cls(name, server, limits)
        try:
            async with tools.session(_OPERATOR) as borrowed:
                listed = await borrowed.content.list_tools()
        except Exception as error:
            await tools.aclose()
            raise ConfigError(
                f"the MCP server {name!r} did not list its tools: {_why(error)}", code="mcp_unreachable"
            ) from error
        tools._tools = tuple(McpTool(tools, tool.name, tools._spec(tool)) for tool in listed[:MAX_TOOLS])
        return tools

    def session(self, owner: str) -> AbstractAsyncContextManager[Borrowed[McpSession]]:
        """The owner's session, for one call. Raises `ToolFailure` (``E-TOOL-BUSY``) without room in time."""
        return self._pool.borrow(Session(_OPERATOR if self._server.stateless else owner, self._name))

    def _spec(self, tool: Any) -> ToolSpec:
        name = _ODD.sub("_", f"{self._name}__{tool.name}")[:64]
        return ToolSpec(name, tool.description or "", tool.input_schema, namespace=FUNCTIONS)

    async def _start(self) -> McpSession:
        return McpSession(self._name, self._server)

    async def aclose(self) -> None:
        """Ends all sessions."""
        await self._pool.aclose()


@dataclass(frozen=True, slots=True)
class McpTool(DescribedTool):
    """One tool of a server."""

    server: McpToolSet = field(repr=False)
    name: str
    spec: ToolSpec

    async def run(self, call: ToolCall, arguments: Mapping[str, Any]) -> ToolOutput:
        async with self.server.session(call.owner) as borrowed:
            try:
                result = await borrowed.content.call(self.name, arguments)
            except Exception as error:
                raise _gone(self.name, error) from error
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise ToolFailure(ToolError(TOOL_FAILED, text or "the tool failed and gave no reason"))
        content = text if result.structured_content is None else result.structured_content
        provenance = {"source": f"mcp:{self.name}"}
        if borrowed.lost is not None:
            provenance["session"] = f"a fresh one: {borrowed.lost}. What the server remembered is lost"
        return ToolOutput(content=content, media=_media(result.content), provenance=provenance)


def _media(blocks: Sequence[Any]) -> tuple[OpaquePart, ...]:
    return tuple(
        OpaquePart(block.type, {"mime": block.mime_type, "base64": block.data})
        for block in blocks
        if block.type in ("image", "audio")
    )


def _gone(name: str, error: BaseException) -> ToolFailure:
    return ToolFailure(ToolError(TOOL_FAILED, f"the MCP server of {name!r} failed: {_why(error)}", retryable=True))


def _why(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:500]
