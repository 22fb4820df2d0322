"""MCP servers that a client names in its request: reached within bounds, as long as that request lives."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from antiphon.conversation import FUNCTIONS, ToolSpec
from antiphon.errors import ConfigError
from antiphon.tools.network import Network

from .config import McpLimits, McpServer, Reach
from .fault import McpFault
from .session import McpSession
from .tool_set import ListedTool, McpToolSet

_ODD = re.compile(r"[^A-Za-z0-9_-]")
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
