"""``antiphon tools``: what runs here, and one call by hand."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from antiphon.catalog.toolbox import open_toolbox, tool_settings
from antiphon.errors import ConfigError
from antiphon.tools import Toolbox, ToolCall, ToolResult

from .mcp_host import at_terminal
from .options import ConfigOption, JsonOption, McpOption, ToolsOption, configure, print_json, print_table


class ToolAction(StrEnum):
    LIST = "list"
    CALL = "call"


def command(
    action: Annotated[ToolAction, typer.Argument(help="What to do.")],
    name: Annotated[str | None, typer.Argument(help="The tool, as calls name it: browser.search, python …")] = None,
    body: Annotated[str, typer.Argument(help="The call's body: JSON arguments, or python's code.")] = "",
    tools: ToolsOption = None,
    mcp: McpOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """List the tools of the configuration and of --tools and --mcp, or call one. Exit code 1 when the call fails."""
    settings, host = at_terminal(tool_settings(configure(config, tools__names=tools, tools__mcp=mcp).config.tools))

    async def run() -> ToolResult | None:
        async with open_toolbox(settings, host=host) as toolbox:
            if action is ToolAction.LIST:
                show(toolbox, json=json)
                return None
            if name is None:
                raise ConfigError("which tool?", code="name_missing", hint="antiphon tools list shows them.")
            return await toolbox.router.call(ToolCall(call_id="call_0", recipient=_qualified(toolbox, name), body=body))

    result = asyncio.run(run())
    if result is None:
        return
    print_json(result.envelope()) if json else print(result.text(envelope=False))
    if not result.ok:
        raise typer.Exit(1)


def show(toolbox: Toolbox, *, json: bool) -> None:
    """Every tool by the name that calls go to, with the first line of what it is for."""
    words = {spec.recipient: spec.description for spec in toolbox.specs}
    for namespace in toolbox.builtins:
        words[namespace.name] = namespace.description or ""
        words |= {spec.recipient: spec.description for spec in namespace.tools}
    rows = [(recipient, words.get(recipient, "").partition("\n")[0]) for recipient in toolbox.router.recipients]
    if json:
        print_json([{"name": recipient, "description": words.get(recipient, "")} for recipient, _ in rows])
    else:
        print_table(("tool", "for"), rows)


def _qualified(toolbox: Toolbox, name: str) -> str:
    """A function may be called without its namespace."""
    return name if toolbox.router.serves(name) or "." in name else f"functions.{name}"
