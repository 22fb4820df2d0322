"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .config import McpLimits, McpOAuth, McpServer, read_mcp_config
    from .host import (
        NOBODY,
        Elicitation,
        ElicitationAnswer,
        McpHost,
        SamplingAnswer,
        SamplingMessage,
        SamplingRequest,
    )
    from .remote import ClientServers, ClientToolSet
    from .tokens import TokenStore
    from .tool_set import ListedTool, McpToolSet
else:
    __getattr__ = exports(
        __name__,
        {
            "config": "McpLimits McpOAuth McpServer read_mcp_config",
            "host": "NOBODY Elicitation ElicitationAnswer McpHost SamplingAnswer SamplingMessage SamplingRequest",
            "remote": "ClientServers ClientToolSet",
            "tokens": "TokenStore",
            "tool_set": "ListedTool McpToolSet",
        },
    )

__all__ = [
    "NOBODY",
    "ClientServers",
    "ClientToolSet",
    "Elicitation",
    "ElicitationAnswer",
    "ListedTool",
    "McpHost",
    "McpLimits",
    "McpOAuth",
    "McpServer",
    "McpToolSet",
    "SamplingAnswer",
    "SamplingMessage",
    "SamplingRequest",
    "TokenStore",
    "read_mcp_config",
]
