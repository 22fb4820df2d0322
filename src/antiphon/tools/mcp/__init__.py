"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from .config import McpServer, read_mcp_config
from .tool_set import McpLimits, McpToolSet

__all__ = ["McpLimits", "McpServer", "McpToolSet", "read_mcp_config"]
