"""The tools of one MCP server, and whose session with it a call goes through."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import FUNCTIONS, OpaquePart, ToolSpec
from antiphon.errors import ConfigError
from antiphon.tools.call import TOOL_FAILED, ToolCall, ToolError, ToolOutput, dump
from antiphon.tools.network import Network
from antiphon.tools.pool import Borrowed, Session, SessionPool
from antiphon.tools.tool import DescribedTool, DescribedToolSet, ToolFailure

from .config import NOBODY, OPERATOR, McpHost, McpLimits, McpServer, Reach
from .fault import McpFault, causes, fault_of_error, first_line
from .session import SIGN_IN_SECONDS, McpSession
from .tokens import TokenStore

if TYPE_CHECKING:
    from .connection import Connector


_ODD = re.compile(r"[^A-Za-z0-9_-]")
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated", "Connection closed"})
"""Sentences that the SDK says where the server said nothing."""
_OPERATOR = ""
"""The owner whose session lists the tools; also that of calls without an owner, and of all to a stateless server."""


class ListedTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as its server lists it."""

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    annotations: dict[str, Any] | None = None

    @property
    def only_reads(self) -> bool:
        """Whether the server says that the tool changes nothing."""
        return (self.annotations or {}).get("readOnlyHint") is True


class McpToolSet(DescribedToolSet):
    """One server's tools, as functions called ``server__tool``; made by `connect`.

    Each owner has a session of its own, which is a process or an HTTP session, from its first call on. One that is lost
    costs the calls that it had; the owner's next call begins another.
    """

    def __init__(
        self,
        name: str,
        server: McpServer,
        limits: McpLimits | None = None,
        *,
        host: McpHost = NOBODY,
        tokens: TokenStore | None = None,
        reach: Reach = OPERATOR,
    ) -> None:
        super().__init__()
        self.reach = reach
        self.label = name
        self._name = _ODD.sub("_", name)
        self._server = server
        self._host = host
        self._tokens = tokens
        busy = f"all sessions with the MCP server {name!r} are at work. Call again a little later."
        self._pool: SessionPool[McpSession] = SessionPool(self._start, (limits or McpLimits()).size, busy=busy)

    @classmethod
    async def connect(
        cls,
        name: str,
        server: McpServer,
        limits: McpLimits | None = None,
        *,
        host: McpHost = NOBODY,
        tokens: TokenStore | None = None,
    ) -> McpToolSet:
        """Starts or reaches the server and asks for its tools. Raises `ConfigError` when that fails.

        ``host`` answers what the server asks; ``tokens`` are for a server over HTTP that wants to be signed in to.
        """
        tools = cls(name, server, limits, host=host, tokens=tokens)
        try:
            tools.offer(await tools.listed())
        except BaseException:
            await tools.aclose()
            raise
        return tools

    async def sign_in(self, scopes: str) -> None:
        """Signs in to the server with further scopes. Raises `ConfigError` when that fails."""
        try:
            await self._connector.sign_in(scopes)
        except Exception as error:
            raise self._failed(fault_of_error(self.label, error), "cannot be signed in to") from error

    async def listed(self) -> tuple[ListedTool, ...]:
        """The tools that the server has now. Raises `ConfigError`."""
        session = None
        try:
            async with self.session(_OPERATOR) as borrowed:
                session = borrowed.resource
                tools = tuple(_listed(tool) for tool in await session.list_tools(self.reach.tools))
                size = sum(len(msgspec.json.encode((one.name, one.description, one.input_schema))) for one in tools)
        except Exception as error:
            raise self._failed(self.fault(session, error), "did not list its tools") from error
        if size > self.reach.listing:  # every description is a part of prompts
            hint = f"At most {self.reach.listing} are taken; have it offer fewer tools."
            raise self._failed(McpFault(f"they take {size} bytes", hint), "has tools that are too long")
        return tools

    def offer(self, listed: Iterable[ListedTool]) -> None:
        """From now on these are the tools."""
        self._tools = tuple(McpTool(self, tool.name, self._spec(tool)) for tool in listed)

    def fault(self, session: McpSession | None, error: Exception) -> McpFault:
        """Why a request failed: what HTTP says of it, and what the server says, where it says anything."""
        fault = session.fault if session is not None else None
        if fault is None:
            return fault_of_error(self.label, error)
        answer = next((first_line(each) for each in causes(error) if hasattr(each, "error")), "")  # of JSON-RPC
        if answer and answer not in _STAND_INS:
            return replace(fault, message=f"{answer} ({fault.message})")
        return fault

    def _failed(self, fault: McpFault, what: str) -> ConfigError:
        return ConfigError(
            f"the MCP server {self.label!r} {what}: {fault.message}", code=fault.code, hint=fault.hint or None
        )

    def session(self, owner: str) -> AbstractAsyncContextManager[Borrowed[McpSession]]:
        """The owner's session, for one call. Raises `ToolFailure` (``E-TOOL-BUSY``) without room in time."""
        return self._pool.borrow(Session(_OPERATOR if self._server.stateless else owner, self._name))

    def _spec(self, tool: ListedTool) -> ToolSpec:
        name = _ODD.sub("_", f"{self._name}__{tool.name}")[:64]
        return ToolSpec(name, tool.description or "", tool.input_schema, namespace=FUNCTIONS)

    async def _start(self) -> McpSession:
        return McpSession(
            self._name, self._connector, start_seconds=SIGN_IN_SECONDS if self._host.sign_in else self.reach.start
        )

    @cached_property
    def _connector(self) -> Connector:
        from .connection import Connector  # it needs the SDK, which is an optional extra

        return Connector(self.label, self._server, self._host, self._tokens, self.reach)

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
                result = await borrowed.resource.call(self.name, arguments)
            except Exception as error:
                fault = self.server.fault(borrowed.resource, error)
                message = f"the MCP server of {self.name!r} failed: {fault}"
                raise ToolFailure(ToolError(TOOL_FAILED, message, retryable=fault.transient)) from error
        text = "\n".join(block.text for block in result.content if block.type == "text")
        if result.is_error:
            raise ToolFailure(ToolError(TOOL_FAILED, text or "the tool failed and gave no reason"))
        content = text if result.structured_content is None else result.structured_content
        provenance = {"source": f"mcp:{self.name}"}
        media = tuple(
            OpaquePart(block.type, {"mime": block.mime_type, "base64": block.data})
            for block in result.content
            if block.type in ("image", "audio")
        )
        if media and not self.server.reach.media:
            words = content if isinstance(content, str) else dump(content)
            content, media = f"{words}\n[{len(media)} images or other media left out]", ()
        if borrowed.lost is not None:
            provenance["session"] = f"a fresh one: {borrowed.lost}. What the server remembered is lost"
        return ToolOutput(content=content, media=media, provenance=provenance)


def _listed(tool: Any) -> ListedTool:
    """The SDK's value, without what nobody here reads."""
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else None
    return ListedTool(
        name=tool.name, input_schema=tool.input_schema, description=tool.description, annotations=annotations
    )


# MCP servers that a client names in its request: reached within bounds, as long as that request lives.

LONGEST = 64


class ClientServers(msgspec.Struct, frozen=True):
    """That clients may name MCP servers of their own: public ones, and those in ``networks``; ``most`` in a request.

    ``seconds`` is how long connecting may take, and listing a server's tools.
    """

    networks: tuple[Network, ...] = ()
    most: int = 8
    seconds: float = 15.0

    @property
    def reach(self) -> Reach:
        return Reach(
            public=True,
            networks=self.networks,
            body=8 << 20,
            stream=32 << 20,
            start=self.seconds,
            tools=128,
            listing=500_000,
            checked=False,
            media=False,
        )


class ClientToolSet(McpToolSet):
    """The tools of one server of a client's; ``error`` says why they could not be listed, "" where they could.

    ``description`` is what the client says of the server: the model reads it with each tool.
    """

    def __init__(self, label: str, server: McpServer, reach: Reach, description: str = "") -> None:
        super().__init__(label, server, McpLimits(sessions=1), reach=reach)
        self._description = description
        self.all: tuple[ListedTool, ...] = ()
        self.error = ""

    async def look(self) -> None:
        """Asks the server for its tools. Never raises for what the server is or does."""
        try:
            async with asyncio.timeout(self.reach.start):
                self.offer(await self.listed())
        except TimeoutError:
            self.error = f"the MCP server {self.label!r} did not list its tools within {self.reach.start:g} seconds"
        except ConfigError as error:
            self.error = error.message

    def offer(self, listed: Iterable[ListedTool]) -> None:
        """From now on these are the tools; of several that the model could not distinguish the first is one."""
        by_name: dict[str, ListedTool] = {}
        for tool in listed:
            by_name.setdefault(function_name(self.label, tool.name), tool)
        self.all = tuple(by_name.values())
        super().offer(self.all)

    def fault(self, session: McpSession | None, error: Exception) -> McpFault:
        """Without what only the operator of a configured server could do about it."""
        return replace(super().fault(session, error), hint="")

    def _spec(self, tool: ListedTool) -> ToolSpec:
        words = "\n\n".join(filter(None, (tool.description, self._description)))
        return ToolSpec(function_name(self.label, tool.name), words, tool.input_schema, namespace=FUNCTIONS)


def function_name(label: str, tool: str) -> str:
    """Names a server's tool for the model, in at most 64 of the characters of a function's name."""
    plain = f"{label}__{tool}"
    name = _ODD.sub("_", plain)
    if name == plain and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: LONGEST - 9]}_{digest}"
