"""The options that `antiphon chat` has alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversation import ReasoningEffort

from .panels import ANSWERS, CONVERSATION, TOOLS

SystemOption = Annotated[str | None, typer.Option(help="The system message.", rich_help_panel=CONVERSATION)]
FileOption = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        "-f",
        help="A text file that goes with the first question; - is standard input.",
        rich_help_panel=CONVERSATION,
    ),
]
LoadOption = Annotated[
    Path | None, typer.Option("--load", help="Go on with this conversation.", rich_help_panel=CONVERSATION)
]
HistoryOption = Annotated[
    bool,
    typer.Option(
        "--history/--no-history", help="Remember what is typed for the next time.", rich_help_panel=CONVERSATION
    ),
]
TemperatureOption = Annotated[
    float | None, typer.Option(help="0 is greedy; default: the model's own.", rich_help_panel=ANSWERS)
]
TopPOption = Annotated[float | None, typer.Option(help="The share of the likeliest tokens.", rich_help_panel=ANSWERS)]
MaxTokensOption = Annotated[int | None, typer.Option(help="The longest answer.", rich_help_panel=ANSWERS)]
SeedOption = Annotated[int | None, typer.Option(help="The same seed gives the same answer.", rich_help_panel=ANSWERS)]
EffortOption = Annotated[
    ReasoningEffort | None, typer.Option(help="How much a model that reasons is to.", rich_help_panel=ANSWERS)
]
SchemaOption = Annotated[
    str | None, typer.Option(help="Answers are JSON of this JSON Schema (a file).", rich_help_panel=ANSWERS)
]
ExposeReasoningOption = Annotated[
    bool | None, typer.Option("--expose-reasoning", help="Show the model's reasoning.", rich_help_panel=ANSWERS)
]
ToolChoiceOption = Annotated[
    str | None,
    typer.Option(help="auto, none, required, or the tool to call once, by its qualified name.", rich_help_panel=TOOLS),
]
