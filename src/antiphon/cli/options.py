"""Options that several commands share, the configuration that these give, and the printing of results."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from antiphon.errors import ConfigError

from .completions import format_names, model_names
from .files import LINES
from .terminal import UNSAFE, safe, tell

if TYPE_CHECKING:
    from antiphon.config import LoadedConfig


# Words that an option of the command line takes.


class Dialect(StrEnum):
    A = "a"
    B = "b"


class Types(StrEnum):
    REFERENCE = "reference"
    FULL = "full"


# Options by the heading under which `--help` lists them.

model_option = partial(typer.Option, rich_help_panel="Model")
conversation_option = partial(typer.Option, rich_help_panel="Conversation")
answer_option = partial(typer.Option, rich_help_panel="Answers")
tool_option = partial(typer.Option, rich_help_panel="Tools")
network_option = partial(typer.Option, rich_help_panel="Network")
access_option = partial(typer.Option, rich_help_panel="Access and keys")
engine_option = partial(typer.Option, rich_help_panel="Engine")
dialect_option = partial(typer.Option, rich_help_panel="Dialect")
output_option = partial(typer.Option, rich_help_panel="Output and configuration")


ConfigOption = Annotated[Path | None, output_option("--config", help="Another configuration file.", dir_okay=False)]
JsonOption = Annotated[bool, output_option("--json", help="Print JSON, for programs.")]
LinesOption = Annotated[bool, typer.Option("--lines", help=f"The input is a conversation a line, as *{LINES} are.")]
LimitOption = Annotated[int | None, typer.Option("--limit", help="The first so many lines alone.", min=1)]
ModelOption = Annotated[
    str | None,
    model_option(
        "--model",
        "-m",
        help="A model's name, alias, GGUF path or hf:OWNER/REPO[:QUANT].",
        show_default="the configuration's: smollm2",
        autocompletion=model_names,
    ),
]
FormatOption = Annotated[
    str | None,
    model_option("--format", help="The format to speak, instead of the model's own.", autocompletion=format_names),
]
TemplateOption = Annotated[
    str | None, model_option("--chat-template", help="A chat template of your own: a .py, .json or .jinja file.")
]
DialectOption = Annotated[Dialect | None, typer.Option(help="Harmony's dialect.", show_default="a")]
TypesOption = Annotated[
    Types | None, typer.Option(help="How Harmony writes the types of tools.", show_default="reference")
]

PlaygroundOption = Annotated[
    bool | None,
    network_option(
        "--playground/--no-playground", help="A page for browsers, at / and /playground.", show_default="--playground"
    ),
]
WorkersOption = Annotated[
    int | None, engine_option(help="Processes that answer at the one port, over one engine.", min=1, show_default="1")
]
ToolsOption = Annotated[
    str | None,
    tool_option(
        "--tools", help="Tools that run here: browser, python, or Python files; with commas.", show_default="none"
    ),
]
McpOption = Annotated[
    str | None, tool_option("--mcp", help="MCP servers whose tools run here: the JSON file that MCP clients share.")
]
ContextOption = Annotated[
    int | None,
    engine_option(
        "--context",
        "--ctx-size",
        help="Tokens that prompt and answer may have together.",
        show_default="the model's own, 4096 where nobody says",
    ),
]
SlotsOption = Annotated[int | None, engine_option("--slots", "--parallel", help="Answers that are made at once.")]
ThreadsOption = Annotated[
    int | None, engine_option(help="Threads of the engine; 0: what suits the machine.", show_default="0")
]


def actions() -> typer.Typer:
    """A command that has actions, each with a help, options and arguments of its own."""
    return typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def configure(file: Path | None = None, **flags: Any) -> LoadedConfig:
    """The configuration under these flags; a keyword's ``__`` stands for the dot of its key."""
    # The tables of the configuration import every room that they configure, and some commands need none.
    from antiphon.config import FILE, load_config

    environ = dict(os.environ)
    if file:
        environ[FILE] = str(file)
    return load_config(environ, {key.replace("__", "."): value for key, value in flags.items()})


def check_limit(limit: int | None, *, lines: bool) -> None:
    """Raises `ConfigError` for a number of lines where none are read."""
    if limit is not None and not lines:
        raise ConfigError("--limit counts lines", hint="Add --lines.")


def as_json(value: Any, *, indent: bool = True) -> str:
    """JSON whose strings have no character that `safe` would replace: those are escaped, which changes no value."""
    encoded = msgspec.json.encode(value)
    text = (msgspec.json.format(encoded) if indent else encoded).decode()
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: Any) -> None:
    print(as_json(value), flush=True)


ROOM = 24
"""Columns of a terminal that the widest column of a table needs at least."""


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "") -> None:
    """Columns for people; plain text of any width when piped, so that programs can cut it.

    ``empty`` says on stderr that there are no rows.
    """
    rows = list(rows)
    if empty and not rows:
        tell(empty, file=sys.stderr)
        return
    # Rich takes longer to import than most commands take to run.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        for row in rows:
            tell("\t".join(str(cell) for cell in row))
        return
    cells = [[safe(str(cell)) for cell in row] for row in rows]
    if not fits(head, cells, console.width):
        tell("\n\n".join("\n".join(f"{name}: {cell}" for name, cell in zip(head, row, strict=True)) for row in cells))
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))  # brackets are no markup
    console.print(table)


def fits(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the columns can be read beside each other: the widest may be folded, and has room for words."""
    widths = sorted(max(map(len, column)) for column in zip(head, *rows, strict=True))
    return len(widths) < 3 or sum(widths[:-1]) + 2 * len(widths) + min(widths[-1], ROOM) <= width


def megabytes(size: int | None) -> str:
    if size is None:
        return ""
    return f"{size / 1e9:.1f} GB" if size >= 1e10 else f"{size / 1e6:.1f} MB"
