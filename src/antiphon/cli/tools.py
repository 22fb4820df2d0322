"""``antiphon tools``: what runs here, and one call by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from antiphon.catalog.toolbox import open_toolbox, tool_settings
from antiphon.errors import NotFoundError, near
from antiphon.tools import Toolbox, ToolCall, ToolResult

from .mcp_host import at_terminal
from .options import ConfigOption, JsonOption, McpOption, ToolsOption, actions, configure, print_json, print_table
from .terminal import tell

command = actions()
Result = TypeVar("Result")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tool, as calls name it: browser.search, python …")]


@command.command("list")
def list_tools(
    tools: ToolsOption = None, mcp: McpOption = None, config: ConfigOption = None, json: JsonOption = False
) -> None:
    """List the tools of the configuration and of --tools and --mcp, by the names that calls go to."""

    async def run(toolbox: Toolbox) -> None:
        show(toolbox, json=json)

    with_toolbox(run, config, tools, mcp)


@command.command("show")
def show_tool(
    name: Name, tools: ToolsOption = None, mcp: McpOption = None, config: ConfigOption = None, json: JsonOption = False
) -> None:
    """Show a tool: what it is for, and the JSON Schema of its arguments."""

    async def run(toolbox: Toolbox) -> None:
        tool = described(toolbox)[known(toolbox, name)]
        if json:
            print_json(tool)
            return
        tell(f"{tool.name}: {tool.description}" if tool.description else tool.name)
        print_json(tool.parameters) if tool.parameters is not None else tell("takes text")

    with_toolbox(run, config, tools, mcp)


@command.command("call")
def call_tool(
    name: Name,
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="JSON arguments, or python's code.", show_default=False)
    ] = "",
    tools: ToolsOption = None,
    mcp: McpOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Call a tool by hand and print its result. Exit code 1 when the call fails."""

    async def run(toolbox: Toolbox) -> ToolResult:
        recipient = name if toolbox.router.serves(name) or "." in name else f"functions.{name}"
        return await toolbox.router.call(ToolCall(call_id="call_0", recipient=recipient, body=body))

    result = with_toolbox(run, config, tools, mcp)
    print_json(result.envelope()) if json else tell(result.text(envelope=False))
    if not result.ok:
        raise typer.Exit(1)


def with_toolbox(
    run: Callable[[Toolbox], Awaitable[Result]], config: Path | None, tools: str | None, mcp: str | None
) -> Result:
    """Returns the result of ``run`` over the configured tools; a person at the terminal answers MCP servers."""
    settings, host = at_terminal(tool_settings(configure(config, tools__names=tools, tools__mcp=mcp).config.tools))

    async def opened() -> Result:
        async with open_toolbox(settings, host=host) as toolbox:
            return await run(toolbox)

    return asyncio.run(opened())


class ToolRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool by the name that calls go to. ``parameters`` None: it takes text."""

    name: str
    description: str
    parameters: dict[str, Any] | bool | None = None


def described(toolbox: Toolbox) -> dict[str, ToolRow]:
    """Every tool that can be called, by its name."""
    specs = [*toolbox.specs, *(tool for namespace in toolbox.builtins for tool in namespace.tools)]
    rows = {spec.recipient: ToolRow(spec.recipient, spec.description, spec.parameters) for spec in specs}
    whole = {namespace.name: ToolRow(namespace.name, namespace.description or "") for namespace in toolbox.builtins}
    found = whole | rows
    return {name: found.get(name, ToolRow(name, "")) for name in toolbox.router.recipients}


def known(toolbox: Toolbox, name: str) -> str:
    """The name that calls go to; a function may be named without its namespace. Raises `NotFoundError`."""
    names = toolbox.router.recipients
    for spelled in (name, f"functions.{name}"):
        if spelled in names:
            return spelled
    raise NotFoundError(f"there is no tool {name!r}", code="not_found", hint=near(name, names))


def show(toolbox: Toolbox, *, json: bool) -> None:
    """Every tool with the first line of what it is for."""
    rows = described(toolbox).values()
    if json:
        print_json([{"name": row.name, "description": row.description} for row in rows])
    else:
        table = [(row.name, row.description.partition("\n")[0]) for row in rows]
        print_table(("tool", "for"), table, empty="There is no tool; --tools and --mcp name some.")
