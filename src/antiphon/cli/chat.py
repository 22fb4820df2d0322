"""``antiphon chat``: talk in the terminal, or put one question."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from antiphon.catalog.loading import open_catalog
from antiphon.catalog.toolbox import sampler, tool_settings
from antiphon.config import Config, find_entry
from antiphon.conversation import ReasoningEffort
from antiphon.errors import RequestError

from .mcp_host import at_terminal
from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    TemplateOption,
    ToolsOption,
    answer_option,
    configure,
    conversation_option,
    tool_option,
)
from .pull import pull_missing
from .talking.commands import COMMANDS, SETTINGS, tool_words
from .talking.converse import Input, Piped, ask_once, converse
from .talking.screen import print_dim
from .talking.session import Session, ToolSource, schema_format
from .talking.talk import Answers, ChatState, ChatTarget
from .terminal import waiting_for

# The options that `antiphon chat` has alone.

SystemOption = Annotated[str | None, conversation_option(help="The system message.")]
FileOption = Annotated[
    list[str] | None,
    conversation_option("--file", "-f", help="A text file that goes with the first question; - is standard input."),
]
LoadOption = Annotated[Path | None, conversation_option("--load", help="Go on with this conversation.")]
HistoryOption = Annotated[
    bool, conversation_option("--history/--no-history", help="Remember what is typed for the next time.")
]
TemperatureOption = Annotated[float | None, answer_option(help="0 is greedy; default: the model's own.")]
TopPOption = Annotated[float | None, answer_option(help="The share of the likeliest tokens.")]
MaxTokensOption = Annotated[int | None, answer_option(help="The longest answer.", min=1)]
SeedOption = Annotated[int | None, answer_option(help="The same seed gives the same answer.")]
EffortOption = Annotated[ReasoningEffort | None, answer_option(help="How much a model that reasons is to.")]
SchemaOption = Annotated[str | None, answer_option(help="Answers are JSON of this JSON Schema (a file).")]
ExposeReasoningOption = Annotated[bool | None, answer_option("--expose-reasoning", help="Show the model's reasoning.")]
ToolChoiceOption = Annotated[
    str | None, tool_option(help="auto, none, required, or the tool to call once, by its qualified name.")
]


INTERRUPTED = 130
READ_FILES = ("/file", "/load", "/save", "/schema", "/tools")
"""The commands that take a file's name."""


def command(
    question: Annotated[str | None, typer.Argument(help="One question; without it, a conversation.")] = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    system: SystemOption = None,
    file: FileOption = None,
    load: LoadOption = None,
    history: HistoryOption = True,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    max_tokens: MaxTokensOption = None,
    seed: SeedOption = None,
    effort: EffortOption = None,
    schema: SchemaOption = None,
    expose_reasoning: ExposeReasoningOption = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    tool_choice: ToolChoiceOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Talk to a model. In a conversation /help lists the commands; Ctrl-C stops an answer and Ctrl-D leaves."""
    loaded = configure(
        config, model=model, format=format, chat_template=chat_template, tools__names=tools, tools__mcp=mcp,
        server__expose_reasoning=expose_reasoning,
    ).config  # fmt: skip
    if question is None and "-" in (file or ()):
        raise RequestError("--file - needs a question beside it", hint='antiphon chat --file - "What is this?"')
    pull_missing(loaded)
    settings = Answers(temperature=temperature, top_p=top_p, max_tokens=max_tokens, seed=seed, tool_choice=tool_choice)
    state = ChatState(answers=settings).with_system(system or "").with_effort(effort)
    if schema is not None:
        state = state.with_format(schema_format(schema))

    async def run() -> None:
        async with AsyncExitStack() as stack:
            session = await opened(loaded, state, stack, as_json=json)
            if load is not None:
                await COMMANDS["/load"].run(session, str(load))
            for path in file or ():
                session.attach(path)
            if question is None:
                greet(session)
                await converse(session, source_of(session, history=history))
            elif not await ask_once(session, question):
                raise typer.Exit(INTERRUPTED)

    asyncio.run(run())


async def opened(config: Config, state: ChatState, stack: AsyncExitStack, *, as_json: bool) -> Session:
    """The model and the tools of ``config``, open until ``stack`` is left."""
    catalog = await stack.enter_async_context(aclosing(open_catalog(config)))
    tool_setup, host = at_terminal(tool_settings(config.tools))
    tools = ToolSource(tool_setup, replace(host, sample=sampler(catalog.get, config.model)), stack)
    toolbox = await tools.open(tool_setup)
    name, _ = find_entry(config.model, config.entries)  # a path is known by its file's name
    with waiting_for(f"loading {name}"):
        model = await catalog.get(name)
    return Session(
        catalog,
        ChatTarget(model, toolbox if toolbox.sets else None),
        state,
        tools,
        as_json=as_json,
        reasoning=config.server.expose_reasoning,
    )


def greet(session: Session) -> None:
    """Prints the model's name and where help is, for a person at a terminal."""
    if sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json:
        print_dim(f"{session.model}  /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves")


def source_of(session: Session, *, history: bool) -> Input:
    """Opens an editor for typed text on a terminal; else the lines of standard input."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Piped()
    # Only a terminal needs an editor, and it is slow to import.
    from .talking.editor import ChatCompleter, Editor, history_file

    words = {
        "/model": lambda: session.catalog.names,
        "/effort": lambda: [*ReasoningEffort, "default"],
        "/set": lambda: [*SETTINGS, "reasoning"],
        "/help": lambda: list(COMMANDS),
        "/tools": lambda: tool_words(session),
    }
    return Editor(ChatCompleter(COMMANDS, words, READ_FILES), history=history_file() if history else None)
