"""Connections to the MCP servers that a request names, for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from antiphon.tools.mcp import ClientServers, ClientToolSet
from antiphon.wire.errors import refused

from .items import Entry
from .mcp_items import Listing
from .mcp_tools import client_servers, listed_before, read_server
from .schema import ResponsesTool


class ClientConnections:
    """``servers`` None: none may be named. ``resources`` are released when the request is over.

    ``listings`` are those that the request did not bring along.
    """

    def __init__(self, servers: ClientServers | None, resources: AsyncExitStack) -> None:
        self._servers = servers
        self._resources = resources
        self.listings: tuple[Listing, ...] = ()

    async def opened(self, tools: Sequence[ResponsesTool], entries: Sequence[Entry]) -> Mapping[str, ClientToolSet]:
        """The servers among ``tools`` by their labels. Raises `RequestError` for one that may not be connected to.

        One that ``entries`` list is connected to when it is called; the others are asked for their tools now, all at
        once. One that does not answer has an ``error`` and no tools.
        """
        if self._servers is None:
            return {}
        found = [self._tool_set(tool, path, self._servers) for path, tool in client_servers(tools, self._servers)]
        self._resources.push_async_callback(_close, found)
        unlisted = []
        for server in found:
            listed = listed_before(entries, server.label)
            if listed is None or len(listed) > server.reach.tools:
                unlisted.append(server)
            else:
                server.offer(listed)
        await asyncio.gather(*(server.look() for server in unlisted))
        self.listings = tuple(Listing(server.label, server.all, server.error) for server in unlisted)
        return {server.label: server for server in found}

    def _tool_set(self, tool: ResponsesTool, path: str, servers: ClientServers) -> ClientToolSet:
        from antiphon.tools.mcp.public import objection_to_text  # it needs the SDK, which is an optional extra

        server = read_server(tool, path, servers)
        if (reason := objection_to_text(server.url or "", servers.networks)) is not None:
            raise refused(f"{path}.server_url", f"{reason}.")
        return ClientToolSet(tool.server_label or "", server, servers.reach, tool.server_description or "")


async def _close(servers: Sequence[ClientToolSet]) -> None:
    """All at once: one that hangs is not waited for by the others."""
    await asyncio.gather(*(server.aclose() for server in servers), return_exceptions=True)
