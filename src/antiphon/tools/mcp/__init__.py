"""Tools of MCP servers, over stdio or HTTP, through the official SDK (extra ``antiphon[mcp]``)."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .config import NOBODY as NOBODY
    from .config import Elicitation as Elicitation
    from .config import ElicitationAnswer as ElicitationAnswer
    from .config import McpHost as McpHost
    from .config import McpLimits as McpLimits
    from .config import McpOAuth as McpOAuth
    from .config import McpServer as McpServer
    from .config import SamplingAnswer as SamplingAnswer
    from .config import SamplingMessage as SamplingMessage
    from .config import SamplingRequest as SamplingRequest
    from .config import read_mcp_config as read_mcp_config
    from .tokens import TokenStore as TokenStore
    from .tool_set import ClientServers as ClientServers
    from .tool_set import ClientToolSet as ClientToolSet
    from .tool_set import ListedTool as ListedTool
    from .tool_set import McpToolSet as McpToolSet
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
