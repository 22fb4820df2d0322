"""The tools of a Messages request, and which of them the answer may or must call."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from antiphon.conversation import ToolChoice, ToolSpec
from antiphon.errors import Position, UnsupportedError
from antiphon.tools import Offer
from antiphon.wire.choosing import chosen_tools
from antiphon.wire.errors import refused

from .schema import MessageTool, MessageToolChoice

MOST = 1024
"""Tools of a request; Claude Code sends more than other clients, with those of its MCP servers."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def read_tools(tools: Sequence[MessageTool], server: Offer | None = None) -> tuple[ToolSpec, ...]:
    """The client's own tools. Raises `RequestError` at the first that is none, or malformed."""
    if len(tools) > MOST:
        raise refused("tools", f"there are {len(tools)} tools; at most {MOST} are possible.")
    taken = {spec.name for spec in server.specs} if server else set[str]()
    specs: list[ToolSpec] = []
    for i, tool in enumerate(tools):
        specs.append(_read_tool(tool, f"tools[{i}]", taken))
        taken.add(specs[-1].name)
    return tuple(specs)


def _read_tool(tool: MessageTool, path: str, taken: Collection[str]) -> ToolSpec:
    if tool.type not in (None, "custom"):
        raise UnsupportedError(
            f"{path}.type: tools of type {tool.type[:64]!r} are not possible here.",
            position=Position(path=f"{path}.type"),
            hint="Use tools of your own, with an input_schema.",
        )
    if tool.name is None:
        raise refused(f"{path}.name", "a tool needs it.", code="missing_required_parameter")
    if not NAME.fullmatch(tool.name):
        raise refused(f"{path}.name", "must be 1 to 128 of the characters a-z, A-Z, 0-9, _ and -.")
    if tool.name in taken:
        raise refused(f"{path}.name", f"another tool is named {tool.name!r}.")
    if tool.input_schema is None:
        raise refused(f"{path}.input_schema", "a tool needs it.", code="missing_required_parameter")
    schema = tool.input_schema if "type" in tool.input_schema else {"type": "object", **tool.input_schema}
    return ToolSpec(tool.name, tool.description or "", schema, strict=tool.strict)


def read_choice(
    choice: MessageToolChoice | None, tools: Sequence[ToolSpec], server: Offer | None = None
) -> tuple[ToolChoice, bool]:
    """The choice, and whether calls may be made together. Raises `RequestError`."""
    if choice is None:
        return ToolChoice(), True
    parallel, offered = choice.disable_parallel_tool_use is not True, bool(tools) or server is not None
    match choice.type:
        case "none":
            return ToolChoice("none"), parallel
        case "auto":
            return ToolChoice(), parallel
        case "any" | "tool" if not offered:
            raise refused("tool_choice", "there are no tools to choose from.")
        case "any":
            return ToolChoice("required"), parallel
        case "tool":
            return _named(choice, tools, server), parallel


def _named(choice: MessageToolChoice, tools: Sequence[ToolSpec], server: Offer | None) -> ToolChoice:
    if not choice.name:
        raise refused("tool_choice.name", "must name a tool.", code="missing_required_parameter")
    specs, builtins = (server.specs, server.builtins) if server else ((), ())
    return ToolChoice("required", chosen_tools(choice.name, "tool_choice.name", tools, specs, builtins), once=True)
