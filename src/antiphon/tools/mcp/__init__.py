"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .config import (
        NOBODY,
        Elicitation,
        ElicitationAnswer,
        McpHost,
        McpLimits,
        McpOAuth,
        McpServer,
        SamplingAnswer,
        SamplingMessage,
        SamplingRequest,
        read_mcp_config,
    )
    from .tokens import TokenStore
    from .tool_set import ClientServers, ClientToolSet, ListedTool, McpToolSet
else:
    __getattr__ = exports(
        __name__,
        {
            "config": (
                "Elicitation ElicitationAnswer McpHost McpLimits McpOAuth McpServer NOBODY SamplingAnswer "
                "SamplingMessage SamplingRequest read_mcp_config"
            ),
            "tokens": "TokenStore",
            "tool_set": "ClientServers ClientToolSet ListedTool McpToolSet",
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
