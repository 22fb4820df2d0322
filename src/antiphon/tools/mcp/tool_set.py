"""The tools of one MCP server, and whose session with it a call goes through."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from antiphon.conversation import FUNCTIONS, OpaquePart, ToolSpec
from antiphon.errors import ConfigError
from antiphon.tools.call import (
    TOOL_FAILED,
    DescribedTool,
    DescribedToolSet,
    ToolCall,
    ToolError,
    ToolFailure,
    ToolOutput,
    dump,
)
from antiphon.tools.network import Network
from antiphon.tools.pool import Borrowed, Session, SessionPool

from .config import NOBODY, OPERATOR, START_SECONDS, McpHost, McpLimits, McpServer, Reach
from .fault import McpFault, causes, fault_of_error, first_line
from .tokens import TokenStore

if TYPE_CHECKING:  # it needs the SDK, which is an optional extra
    from .connection import Connector


# One session with an MCP server: a process of its own, or an HTTP session of its own.

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


_ODD = re.compile(r"[^A-Za-z0-9_-]")
_STAND_INS = frozenset({"Server returned an error response", "Not Found", "Session terminated", "Connection closed"})
"""The SDK's sentences for errors without a message of the server's."""
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
