"""``antiphon mcp``: sign in to MCP servers, and be one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Annotated

import typer

from antiphon.catalog.toolbox import ToolSettings, mcp_servers, tool_settings
from antiphon.errors import ConfigError, NotFoundError, near
from antiphon.errors.extras import extra
from antiphon.tools.mcp import McpHost, McpServer, McpToolSet, TokenStore
from antiphon.tools.mcp.fault import readable_scopes

from .mcp_host import elicit, show_address
from .options import ConfigOption, JsonOption, McpOption, actions, configure, print_json
from .terminal import tell

command = actions()
ServerName = Annotated[str, typer.Argument(metavar="NAME", help="The MCP server, as the file of --mcp names it.")]


@command.command("serve")
def serve(config: ConfigOption = None, json: JsonOption = False) -> None:
    """Offer render, parse, convert, validate and more to an MCP client over stdio (`antiphon mcp` alone does so).

    Raises `ConfigError` without the SDK, which is an optional extra.
    """
    with extra("mcp", "the MCP server"):
        from antiphon.integrations.mcp.server import serve as serve_stdio
    serve_stdio()


@command.command("login")
def login(
    name: ServerName,
    scope: Annotated[str, typer.Option("--scope", help="Scopes to sign in with, beside those that there are.")] = "",
    mcp: McpOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Sign in to an MCP server with a browser, and list how many tools it has."""
    server, tokens = server_named(name, tool_settings(configure(config, tools__mcp=mcp).config.tools))
    scopes = scope.split()
    if readable_scopes(scope).split() != scopes:
        raise ConfigError(f"--scope: {scope[:200]!r} has more than 32 scopes, or what is none", code="mcp_config")
    tools = asyncio.run(signed_in(name, server, tokens, " ".join(scopes)))
    print_outcome(server.url or "", "signed_in", tools, json=json)


@command.command("logout")
def logout(name: ServerName, mcp: McpOption = None, config: ConfigOption = None, json: JsonOption = False) -> None:
    """Sign out of an MCP server: its tokens here are removed."""
    server, tokens = server_named(name, tool_settings(configure(config, tools__mcp=mcp).config.tools))
    print_outcome(server.url or "", "signed_out" if tokens.remove(server.url or "") else "unknown", json=json)


def server_named(name: str, settings: ToolSettings) -> tuple[McpServer, TokenStore]:
    """The server, which has an address, and where its tokens are. Raises `ConfigError`, `NotFoundError`."""
    if settings.mcp is None or settings.mcp_tokens is None:
        raise ConfigError("no file of MCP servers is configured", code="mcp_config", hint="--mcp FILE, or tools.mcp.")
    servers = mcp_servers(settings.mcp)
    if name not in servers:
        raise NotFoundError(f"there is no MCP server {name!r}", code="not_found", hint=near(name, servers))
    if servers[name].url is None:
        raise ConfigError(f"the MCP server {name!r} is a process: there is nothing to sign in to", code="mcp_config")
    return servers[name], settings.mcp_tokens


async def signed_in(name: str, server: McpServer, tokens: TokenStore, scopes: str) -> int:
    """Signs in where the server wants it; how many tools it then lists. Raises `ConfigError`."""
    host = McpHost(elicit=elicit, sign_in=show_address)
    if scopes:
        await McpToolSet(name, server, host=host, tokens=tokens).sign_in(scopes)
    async with aclosing(await McpToolSet.connect(name, server, host=host, tokens=tokens)) as tools:
        return len(tools.tools)


def print_outcome(url: str, outcome: str, tools: int | None = None, *, json: bool) -> None:
    if json:
        print_json({"url": url, "outcome": outcome} | ({} if tools is None else {"tools": tools}))
        return
    words = {"signed_in": "signed in to", "signed_out": "signed out of", "unknown": "was not signed in to"}
    tell(f"{words[outcome]} {url}" + ("" if tools is None else f": {tools} tools"))
