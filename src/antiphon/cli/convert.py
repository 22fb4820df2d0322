"""``antiphon convert``: a conversation from one form to another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from antiphon.conversion import Conversion, Loss, SidecarWriter, read_sidecar
from antiphon.errors import ConfigError
from antiphon.writing import check_writable, write

from .completions import form_names
from .convert_many import ManyConversions
from .excerpt import RecentText
from .files import SIDECAR, is_pattern
from .options import JsonOption, as_json
from .streams import chunks, output
from .terminal import tell
from .waiting import say, then_waiting

STANDARD = Path("-")


def command(
    files: Annotated[
        list[Path], typer.Argument(help="The input; - reads standard input. Or several, or folders.", metavar="IN…")
    ],
    to: Annotated[
        str,
        typer.Option(
            help="The form to write: openchatml, harmony, chat …, or a template's name.", autocompletion=form_names
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The output, a folder for several; default: standard output.")
    ] = None,
    source: Annotated[str | None, typer.Option("--from", help="The input's form, when it cannot be detected.")] = None,
    report: Annotated[bool, typer.Option("--report", help="List on stderr what the form cannot express.")] = False,
    sidecar: Annotated[
        bool, typer.Option("--sidecar", help=f"Keep what is lost in OUT{SIDECAR}; take back what IN{SIDECAR} has.")
    ] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Take the best reading of a faulty input.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace outputs that are there.")] = False,
    json: JsonOption = False,
) -> None:
    """Convert a conversation. Results go to stdout or OUT; what is lost is counted on stderr (--json: a line each).

    Several files and folders are converted into the folder OUT under the same names, with one summary of what is
    lost (--json: one object). Exit code 1 where one failed; the others are converted.
    """
    run = partial(convert, to=to, source=source, lenient=lenient, sidecar=sidecar, force=force)
    if len(files) > 1 or files[0].is_dir() or is_pattern(files[0]):
        many(files, out, ManyConversions(out or STANDARD, to, force), source, run, json=json)
        return
    if sidecar and (out is None or out == STANDARD):
        raise ConfigError("a sidecar is written beside a file", hint="Name one with -o.")
    lost = LossPrinter((print_loss_as_json if json else print_loss) if report or json else ignore)
    run(files[0], out, lost)
    if lost.count and not (report or json or sidecar):
        tell(f"{lost.count} things are not in the output; --report lists them", file=sys.stderr)


def many(
    files: list[Path],
    out: Path | None,
    conversions: ManyConversions,
    source: str | None,
    convert: Callable[[Path, Path | None, Callable[[Loss], None]], None],
    *,
    json: bool,
) -> None:
    """Several files into a folder. Raises `ConfigError` without one."""
    if out is None or out == STANDARD or out.is_file():
        raise ConfigError("several files are converted into a folder", hint="Name one with -o.")
    if STANDARD in files:
        raise ConfigError("standard input is converted alone")
    conversions.run(files, source, convert)
    conversions.report(as_json=json)
    if conversions.failed:
        raise typer.Exit(1)


def convert(
    file: Path,
    out: Path | None,
    on_loss: Callable[[Loss], None],
    *,
    to: str,
    source: str | None,
    lenient: bool,
    sidecar: bool,
    force: bool,
) -> None:
    """One file into another, which is there only when all of it is; None: to standard output."""
    if out not in (None, STANDARD):
        check_writable(out, replace=force)
    beside = sidecar_file(file)
    conversion = Conversion(
        to=to,
        source=source,
        lenient=lenient,
        input_sidecar=read_sidecar(beside.read_bytes()) if sidecar and beside.is_file() else None,
        on_loss=on_loss,
        on_warning=lambda warning: say(f"warning: {warning}"),
        sidecar_writer=SidecarWriter() if sidecar else None,
    )
    recent = RecentText()
    words = f"converting {file}" if out not in (None, STANDARD) or not sys.stdout.isatty() else ""
    with recent.shown_with_errors(), output(out, replace=force) as sink, then_waiting(chunks(file), words) as parts:
        for part in conversion.run(recent.watch(parts)):
            sink.write(part)
    lost = conversion.sidecar()
    if lost is not None and out is not None:
        write(sidecar_file(out), lost.encode())


@dataclass(slots=True)
class LossPrinter:
    """Counts losses on their way to ``show``."""

    show: Callable[[Loss], None]
    count: int = 0

    def __call__(self, loss: Loss) -> None:
        self.count += 1
        self.show(loss)


def sidecar_file(file: Path) -> Path:
    return file.with_name(file.name + SIDECAR)


def print_loss(loss: Loss) -> None:
    say(str(loss))


def print_loss_as_json(loss: Loss) -> None:
    print(as_json(loss, indent=False), file=sys.stderr)


def ignore(loss: Loss) -> None:
    """A loss that is counted and not printed."""
