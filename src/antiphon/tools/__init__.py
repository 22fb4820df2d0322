"""Calls → results."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .call import (
        CALL_ID,
        CALL_SCHEMA,
        TOOL_BUSY,
        TOOL_CANCELLED,
        TOOL_FAILED,
        TOOL_TIMEOUT,
        TOOL_UNKNOWN,
        ArgumentReader,
        Arguments,
        BadArguments,
        ToolCall,
        ToolError,
        ToolOutput,
        ToolResult,
    )
    from .function import FunctionTool, FunctionToolSet
    from .router import Router, ToolCancelled, ToolEnded, ToolEvent, ToolLimits, ToolStarted
    from .tool import DescribedTool, Tool, ToolFactory, ToolFailure, ToolSet
    from .toolbox import Offer, Toolbox
else:
    __getattr__ = exports(
        __name__,
        {
            "call": (
                "ArgumentReader Arguments BadArguments CALL_ID CALL_SCHEMA TOOL_BUSY TOOL_CANCELLED "
                "TOOL_FAILED TOOL_TIMEOUT TOOL_UNKNOWN ToolCall ToolError ToolOutput ToolResult"
            ),
            "function": "FunctionTool FunctionToolSet",
            "router": "Router ToolCancelled ToolEnded ToolEvent ToolLimits ToolStarted",
            "tool": "DescribedTool Tool ToolFactory ToolFailure ToolSet",
            "toolbox": "Offer Toolbox",
        },
    )

__all__ = [
    "ArgumentReader",
    "Arguments",
    "BadArguments",
    "CALL_ID",
    "CALL_SCHEMA",
    "DescribedTool",
    "FunctionTool",
    "FunctionToolSet",
    "Offer",
    "Router",
    "TOOL_BUSY",
    "TOOL_CANCELLED",
    "TOOL_FAILED",
    "TOOL_TIMEOUT",
    "TOOL_UNKNOWN",
    "Tool",
    "ToolCall",
    "ToolCancelled",
    "ToolEnded",
    "ToolError",
    "ToolEvent",
    "ToolFactory",
    "ToolFailure",
    "ToolLimits",
    "ToolOutput",
    "ToolResult",
    "ToolSet",
    "ToolStarted",
    "Toolbox",
]
