"""``antiphon dataset``: from conversations to what a model is trained on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from antiphon.conversion.datasets.columns import COLUMNS, DEFAULT_COLUMNS, FILES
from antiphon.conversion.datasets.forms import ROW_FORMS
from antiphon.conversion.datasets.rows import Chunk
from antiphon.conversion.datasets.run import Run
from antiphon.conversion.datasets.shards import former
from antiphon.conversion.datasets.work import Result, Sums, Task, TrainedModel
from antiphon.errors import RequestError, near
from antiphon.generation.passages import Owner

from .options import (
    ConfigOption,
    FormatOption,
    JsonOption,
    ModelOption,
    TemplateOption,
    actions,
    as_json,
    configure,
    print_json,
    print_table,
)
from .select_format import select_harmony
from .terminal import progress_bar, say, tell

command = actions()

InputArgument = Annotated[
    list[Path], typer.Argument(metavar="IN…", help="Files, *.jsonl, *.json or *.parquet, and folders of such.")
]
FormOption = Annotated[str, typer.Option("--from", help=f"The rows' form: {', '.join(ROW_FORMS)}.")]
FieldOption = Annotated[str | None, typer.Option(help="The field that has a row's transcript.", show_default="text")]
TrainOption = Annotated[
    str, typer.Option("--train-on", help="What is trained: all that the model samples, last, or owners with commas.")
]
DayOption = Annotated[
    str | None,
    typer.Option("--date", help="The day that a template is told, YYYY-MM-DD.", show_default="when the run began"),
]
ProcessesOption = Annotated[
    int | None, typer.Option("--workers", help="Processes that work on rows.", min=1, show_default="one for each core")
]
RowsOption = Annotated[int | None, typer.Option("--limit", help="The first so many rows alone.", min=1)]
OutOption = Annotated[
    Path, typer.Option("--output", "-o", help="The folder of the results. A run that was ended goes on in it.")
]
MaybeOutOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="The folder of the findings. A run that was ended goes on in it.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Begin anew in the folder.")]
ShardOption = Annotated[int, typer.Option("--shard-rows", help="Rows of a file of results at least.", min=1)]
KindOption = Annotated[str, typer.Option("--to", help=f"The kind of files: {', '.join(FILES)}.")]
LongestOption = Annotated[
    int | None, typer.Option("--context", "--ctx-size", help="Tokens that a row may have.", min=1)
]


class Selected(msgspec.Struct, frozen=True):
    """Options that say which model rows are rendered for; each process of a run opens it by them."""

    config: Path | None
    model: str | None
    format: str | None
    chat_template: str | None
    day: date

    def open(self) -> TrainedModel:
        """Opens the vocabulary and the format. Raises `ModelError` where the model's files are not here."""
        # In the processes that render, and not in the one that prints.
        from antiphon.catalog.loading import model_format
        from antiphon.library.training import Renderer

        harmony = select_harmony(self.format, self.model)
        if harmony is not None and self.chat_template is None:
            renderer, template = Renderer("harmony", date=self.day), ""
        else:
            loaded = configure(self.config, model=self.model, format=self.format, chat_template=self.chat_template)
            format, text = model_format(loaded.config)
            renderer, template = Renderer((format, text.tokenizer), date=self.day), text.template or ""
        if self.chat_template is not None and Path(self.chat_template).is_file():
            template = Path(self.chat_template).read_text("utf-8", "replace")
        tokenizer = renderer.tokenizer
        controls = [control.spelling for control in tokenizer.controls]
        digest = blake2b(template.encode("utf-8", "replace"), digest_size=8).hexdigest()
        return TrainedModel(renderer, controls, f"{renderer.format.name} {digest} {tokenizer.name}")


@command.command("check")
def check_rows(
    paths: InputArgument,
    source: FormOption = "auto",
    field: FieldOption = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    train_on: TrainOption = "all",
    day: DayOption = None,
    context: LongestOption = None,
    workers: ProcessesOption = None,
    limit: RowsOption = None,
    output: MaybeOutOption = None,
    shard_rows: ShardOption = 10_000,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the rows too: what is sure is mended, and what is wrong is left out.")
    ] = False,
    force: ForceOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Check each row: is it read, does the template take it, are calls and results right, is something trained?

    A line for each finding, then their sums. Exit code 1 where a row has an error; warnings change nothing.
    """
    if fix and output is None:
        raise RequestError("--fix writes rows into a folder", hint="Name one with --output.")
    task = Task(form=known(source, ROW_FORMS, "--from"), field=field, train_on=trained(train_on), check=True, fix=fix,
                context=context)  # fmt: skip
    selected = Selected(config, model, format, chat_template, day_of(day, output))
    run = Run(paths, selected.open, task, workers=workers, limit=limit, out=output, force=force, shard_rows=shard_rows,
              settings={"date": str(selected.day)})  # fmt: skip
    errors = follow(run, json=json)
    if json:
        tell(as_json({"sums": summary(run.sums)}, indent=False))
    else:
        tell(f"{run.sums.rows} rows, {errors} with errors, {sum(run.sums.kinds.values())} findings")
        kinds = run.sums.kinds
        print_table(("finding", "rows"), [(kind, kinds[kind]) for kind in sorted(kinds, key=lambda k: (-kinds[k], k))])
    if errors:
        raise typer.Exit(1)


@command.command("render")
def render_rows(
    paths: InputArgument,
    output: OutOption,
    to: KindOption = "jsonl",
    columns: Annotated[
        str, typer.Option(help=f"The columns, with commas: {', '.join((*COLUMNS, 'source'))}.")
    ] = ",".join(DEFAULT_COLUMNS),
    source: FormOption = "auto",
    field: FieldOption = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    train_on: TrainOption = "all",
    day: DayOption = None,
    context: LongestOption = None,
    workers: ProcessesOption = None,
    limit: RowsOption = None,
    shard_rows: ShardOption = 10_000,
    force: ForceOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write each row as token ids and masks. Rows that cannot be, or are too long, are named and left out.

    Exit code 1 where there are any.
    """
    names = tuple(known(name.strip(), (*COLUMNS, "source"), "--columns") for name in columns.split(","))
    task = Task(form=known(source, ROW_FORMS, "--from"), field=field, train_on=trained(train_on), columns=names,
                kind=known(to, FILES, "--to"), context=context)  # fmt: skip
    selected = Selected(config, model, format, chat_template, day_of(day, output))
    run = Run(paths, selected.open, task, workers=workers, limit=limit, out=output, force=force, shard_rows=shard_rows,
              settings={"date": str(selected.day)})  # fmt: skip
    conclude(run, output, json=json)


@command.command("pack")
def pack_rows(
    paths: InputArgument,
    output: OutOption,
    length: Annotated[int, typer.Option(help="Tokens of a sequence.", min=2)],
    to: KindOption = "jsonl",
    source: FormOption = "auto",
    field: FieldOption = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    train_on: TrainOption = "all",
    day: DayOption = None,
    workers: ProcessesOption = None,
    limit: RowsOption = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Write rows as sequences of one length, each of whole rows: ids, labels, position ids and the rows' lengths.

    No row is cut: one that is longer than a sequence is named and left out, and the exit code is 1.
    """
    task = Task(form=known(source, ROW_FORMS, "--from"), field=field, train_on=trained(train_on), packed=True,
                kind=known(to, FILES, "--to"), context=length)  # fmt: skip
    selected = Selected(config, model, format, chat_template, day_of(day, output))
    run = Run(paths, selected.open, task, workers=workers, limit=limit, out=output, force=force, length=length,
              settings={"date": str(selected.day)})  # fmt: skip
    conclude(run, output, json=json)


@command.command("stats")
def count_rows(
    paths: InputArgument,
    source: FormOption = "auto",
    field: FieldOption = None,
    model: ModelOption = None,
    format: FormatOption = None,
    chat_template: TemplateOption = None,
    train_on: TrainOption = "all",
    day: DayOption = None,
    workers: ProcessesOption = None,
    limit: RowsOption = None,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Count rows and tokens: how long rows are, whose the tokens are, and how many are trained."""
    task = Task(form=known(source, ROW_FORMS, "--from"), field=field, train_on=trained(train_on))
    selected = Selected(config, model, format, chat_template, day_of(day, None))
    run = Run(paths, selected.open, task, workers=workers, limit=limit)
    follow(run, json=False)
    if json:
        print_json(summary(run.sums))
    else:
        print_table(("", ""), ((name, value) for name, value in flat(summary(run.sums))))
    if run.sums.failed:
        raise typer.Exit(1)


def trained(words: str) -> Literal["all", "last"] | tuple[Owner, ...]:
    """The value of `--train-on`. Raises `RequestError` for a word that it does not know."""
    if words == "all":
        return "all"
    if words == "last":
        return "last"
    owners = {owner.name.lower(): owner for owner in Owner}
    return tuple(owners[known(word.strip(), ("all", "last", *owners), "--train-on")] for word in words.split(","))


def day_of(day: str | None, output: Path | None) -> date:
    """The day of `--date`, or of the run that goes on in the folder, or today. Raises `RequestError` for no day."""
    before = former(output) if day is None and output is not None else None
    given = day or (before.settings.get("date") if before is not None else None)
    try:
        return date.fromisoformat(given) if given else date.today()
    except ValueError:
        raise RequestError(
            f"--date: {given!r} is no day", code="invalid_value", hint="For example 2026-01-31."
        ) from None


def known(name: str, names: Any, option: str) -> str:
    """The name. Raises `RequestError` where it is none of the names."""
    if name not in names:
        raise RequestError(f"{option}: {name!r} is not known", code="invalid_value", hint=near(name, tuple(names)))
    return name


def follow(run: Run, *, json: bool) -> int:
    """Runs to the end, with a bar on a terminal, and prints each finding; returns how many rows have errors."""
    with progress_bar("rows", None, stages=("working on",)) as progress:
        run.progress = progress
        for chunk, result in run.results():
            show(chunk, result, json=json)
    if run.earlier:
        say(f"{run.earlier} rows were done before")
    return run.sums.wrong


def show(chunk: Chunk, result: Result, *, json: bool) -> None:
    for found in result.findings:
        if json:
            tell(as_json({"file": chunk.path, **msgspec.structs.asdict(found)}, indent=False))
            continue
        line = f"{chunk.path}:{found.row}" if found.row else chunk.path
        place = f" {found.place}:" if found.place else ""
        more = f"  (--fix: {found.fix})" if found.fix else f"  {found.hint}" if found.hint else ""
        tell(f"{line}:{place} {found.reason}  [{found.kind}]{more}")


def conclude(run: Run, output: Path, *, json: bool) -> None:
    """Runs to the end, and prints what there is. Exit code 1 where a row was left out."""
    errors = follow(run, json=json)
    sums = run.sums
    if json:
        tell(as_json({"sums": summary(sums, run.length)}, indent=False))
    elif run.length is not None:
        share = fill(sums, run.length)
        words = f"{sums.written} of {sums.rows} rows in {sums.sequences} sequences of {run.length}, {share:.2%} filled"
        tell(f"{words}: {output}", file=sys.stderr)
    else:
        words = f"{sums.written} of {sums.rows} rows, {sums.tokens} tokens, {sums.trained} of them trained"
        tell(f"{words}: {output}", file=sys.stderr)
    if errors:
        raise typer.Exit(1)


def fill(sums: Sums, length: int) -> float:
    """The share of packed sequences that is tokens of rows."""
    return sums.packed / (sums.sequences * length) if sums.sequences else 0.0


PERCENTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


def summary(sums: Sums, length: int | None = None) -> dict[str, Any]:
    """Sums for programs, with lengths as percentiles."""
    counts = {
        name: getattr(sums, name) for name in ("rows", "wrong", "failed", "written", "tokens", "sampled", "trained")
    }
    lengths = {f"p{share * 100:g}": sums.percentile(share) for share in PERCENTILES}
    spread = {"min": min(sums.lengths, default=0), **lengths, "max": max(sums.lengths, default=0)}
    tables = {name: dict(getattr(sums, name)) for name in ("owners", "parts", "roles", "tools", "kinds")}
    packing = {"sequences": sums.sequences, "filled": round(fill(sums, length), 4)} if length else {}
    return {**counts, "lengths": spread, **tables, **packing}


def flat(value: Mapping[str, Any], path: str = "") -> Any:
    """The leaves of a summary, with their paths."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from flat(inner, f"{path}{name} ")
        else:
            yield f"{path}{name}", inner
