"""The file that names MCP servers."""

from __future__ import annotations

import msgspec

from antiphon.errors import ConfigError


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach a server: a ``command`` to start (stdio) or a ``url`` (streamable HTTP). From the operator only.

    ``stateless``: it remembers nothing between calls, so that all owners may share one session with it.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    stateless: bool = False


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
