"""``antiphon chat``: talk in the terminal, or put one question."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Annotated

import typer

from antiphon.catalog.loading import open_catalog
from antiphon.catalog.sampling import sampler
from antiphon.catalog.toolbox import open_toolbox, tool_settings
from antiphon.config import find_entry

from .mcp_host import at_terminal
from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    TemplateOption,
    ToolsOption,
    configure,
)
from .pull import pull_missing
from .talk import Answers, Partner, Talk
from .terminal import ask_once, converse

INTERRUPTED = 130


def command(
    question: Annotated[str | None, typer.Argument(help="One question; without it, a conversation.")] = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    system: Annotated[str | None, typer.Option(help="The system message.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy; default: the model's own.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="The longest answer.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same answer.")] = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    tool_choice: Annotated[
        str | None, typer.Option(help="auto, none, required, or the tool to call once, by its qualified name.")
    ] = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Talk to a model. In a conversation /help lists the commands; Ctrl-C stops an answer and Ctrl-D leaves."""
    loaded = configure(
        config, model=model, format=format, chat_template=chat_template, tools__names=tools, tools__mcp=mcp
    )
    pull_missing(loaded.config)
    settings = Answers(temperature=temperature, max_tokens=max_tokens, seed=seed, tool_choice=tool_choice)
    talk = Talk(answers=settings).with_system(system or "")

    async def run() -> None:
        async with AsyncExitStack() as stack:
            catalog = await stack.enter_async_context(aclosing(open_catalog(loaded.config)))
            tool_setup, host = at_terminal(tool_settings(loaded.config.tools))
            host = replace(host, sample=sampler(catalog.get, loaded.config.model))
            toolbox = await stack.enter_async_context(open_toolbox(tool_setup, host=host))
            name, _ = find_entry(loaded.config.model, loaded.config.entries)  # a path is known by its file's name
            partner = Partner(await catalog.get(name), toolbox if toolbox.sets else None)
            if question is None:
                await converse(partner, talk, as_json=json)
            elif not await ask_once(partner, talk, question, as_json=json):
                raise typer.Exit(INTERRUPTED)

    asyncio.run(run())
