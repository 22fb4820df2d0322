"""Calls → results."""

from typing import TYPE_CHECKING

from antiphon.exports import exports

if TYPE_CHECKING:
    from .call import CALL_ID as CALL_ID
    from .call import CALL_SCHEMA as CALL_SCHEMA
    from .call import TOOL_BUSY as TOOL_BUSY
    from .call import TOOL_CANCELLED as TOOL_CANCELLED
    from .call import TOOL_FAILED as TOOL_FAILED
    from .call import TOOL_TIMEOUT as TOOL_TIMEOUT
    from .call import TOOL_UNKNOWN as TOOL_UNKNOWN
    from .call import ArgumentReader as ArgumentReader
    from .call import Arguments as Arguments
    from .call import BadArguments as BadArguments
    from .call import DescribedTool as DescribedTool
    from .call import Tool as Tool
    from .call import ToolCall as ToolCall
    from .call import ToolError as ToolError
    from .call import ToolFailure as ToolFailure
    from .call import ToolOutput as ToolOutput
    from .call import ToolResult as ToolResult
    from .call import ToolSet as ToolSet
    from .checked import ToolLimits as ToolLimits
    from .function import FunctionTool as FunctionTool
    from .function import FunctionToolSet as FunctionToolSet
    from .registry import ToolFactory as ToolFactory
    from .router import Router as Router
    from .router import ToolCancelled as ToolCancelled
    from .router import ToolEnded as ToolEnded
    from .router import ToolEvent as ToolEvent
    from .router import ToolStarted as ToolStarted
    from .toolbox import Offer as Offer
    from .toolbox import Toolbox as Toolbox
else:
    __getattr__ = exports(
        __name__,
        {
            "call": (
                "ArgumentReader Arguments BadArguments CALL_ID CALL_SCHEMA DescribedTool TOOL_BUSY "
                "TOOL_CANCELLED TOOL_FAILED TOOL_TIMEOUT TOOL_UNKNOWN Tool ToolCall ToolError ToolFailure "
                "ToolOutput ToolResult ToolSet"
            ),
            "checked": "ToolLimits",
            "function": "FunctionTool FunctionToolSet",
            "registry": "ToolFactory",
            "router": "Router ToolCancelled ToolEnded ToolEvent ToolStarted",
            "toolbox": "Offer Toolbox",
        },
    )
