"""Calls → results."""

from .arguments import ArgumentReader, Arguments, BadArguments
from .call import (
    CALL_SCHEMA,
    TOOL_CANCELLED,
    TOOL_FAILED,
    TOOL_TIMEOUT,
    TOOL_UNKNOWN,
    ToolCall,
    ToolError,
    ToolOutput,
    ToolResult,
)
from .function import FunctionTool, FunctionToolSet
from .registry import ToolFactory
from .router import Router, ToolCancelled, ToolEnded, ToolEvent, ToolLimits, ToolStarted
from .tool import DescribedTool, Tool, ToolFailure, ToolSet
from .toolbox import Offer, Toolbox

__all__ = [
    "ArgumentReader",
    "Arguments",
    "BadArguments",
    "CALL_SCHEMA",
    "DescribedTool",
    "FunctionTool",
    "FunctionToolSet",
    "Offer",
    "Router",
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
