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
from .tokens import TokenStore
from .tool_set import McpLimits, McpToolSet

__all__ = [
    "NOBODY",
    "Elicitation",
    "ElicitationAnswer",
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
