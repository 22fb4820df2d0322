"""``antiphon batch``: the lines of a file, answered without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.api.batches.offline import OfflineBatch, Tally
from antiphon.api.batches.routes import ENDPOINTS
from antiphon.config import BatchesConfig, Config
from antiphon.http.context import Context
from antiphon.http.server.server import on_loop
from antiphon.library.app import assembled

from .options import (
    ConfigOption,
    ContextOption,
    FormatOption,
    JsonOption,
    McpOption,
    ModelOption,
    SlotsOption,
    TemplateOption,
    ThreadsOption,
    ToolsOption,
    actions,
    configure,
    print_json,
)
from .pull import pull_missing
from .terminal import tell, waiting_for

command = actions()


@command.command("run")
def run_batch(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A batch's input: a request a line.", exists=True, dir_okay=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the answers go, a line each.", dir_okay=False)],
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    context: ContextOption = None,
    slots: SlotsOption = None,
    threads: ThreadsOption = None,
    tools: ToolsOption = None,
    mcp: McpOption = None,
    in_file_order: Annotated[
        bool, typer.Option("--in-file-order", help="Run the lines as they stand, not by what their prompts share.")
    ] = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Answer every request of a JSONL file. Lines that the output has already are not run again.

    Exit code 1 where a line was answered with an error.
    """
    loaded = configure(
        config, model=model, format=format, chat_template=chat_template,
        engine__context=context, engine__slots=slots, engine__threads=threads, tools__names=tools, tools__mcp=mcp,
    ).config  # fmt: skip
    pull_missing(loaded)
    tally = Tally()
    with waiting_for(lambda: progress_of(tally)):
        on_loop(run(loaded, source, out, tally, by_prompt=not in_file_order))
    report = msgspec.to_builtins(tally)
    print_json(report) if json else tell(", ".join(f"{name} {count}" for name, count in report.items()))
    if tally.failed:
        raise typer.Exit(1)


def progress_of(tally: Tally) -> str:
    """How far the batch is, for people."""
    done = tally.earlier + tally.completed + tally.failed
    return f"{done} of {tally.total} lines, {tally.failed} failed" if tally.total else "loading"


async def run(config: Config, source: Path, out: Path, tally: Tally, *, by_prompt: bool) -> None:
    """Runs the batch by the application of ``config``, which runs no batch of its store meanwhile."""
    alone = msgspec.structs.replace(config, batches=BatchesConfig(enabled=False))
    async with assembled(alone, preload=False) as parts, parts.app.router.lifespan_context(parts.app):
        context: Context = parts.app.state.context
        await OfflineBatch(context, ENDPOINTS, source, by_prompt, tally).run(out)
