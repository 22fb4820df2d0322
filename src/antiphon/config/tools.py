"""The table ``[tools]``: tools that run here."""

from __future__ import annotations

import msgspec

from .units import Count, Seconds


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that run here: ``names`` (browser, python, Python files) are separated by commas; ``mcp`` is a file.

    ``offer``: models get them in every request, requested or not. ``pages``: a folder for the browser instead of our
    own pages; ``web``: the web instead, searched at the SearxNG address ``search``. ``packages``: what code may import.

    ``mcp_sessions`` with one MCP server are open at once, one a key; what a key did not use for ``mcp_idle_timeout``
    seconds is closed. ``mcp_tokens`` is the folder of the tokens by which we are signed in to MCP servers.

    ``client_mcp``: requests of the Responses API may name MCP servers of their own, at public addresses and in the
    networks of ``client_mcp_networks`` (``10.1.0.0/16``, separated by commas).
    """

    names: str = ""
    mcp: str = ""
    mcp_sessions: Count = 8
    mcp_idle_timeout: Seconds = 600.0
    mcp_tokens: str = ""
    client_mcp: bool = False
    client_mcp_networks: str = ""
    offer: bool = False
    pages: str = ""
    web: bool = False
    search: str = ""
    packages: str = ""
