"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from .config import McpOAuth, McpServer, read_mcp_config
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
from .tool_set import ListedTool, McpLimits, McpToolSet

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
