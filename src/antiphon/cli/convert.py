"""``antiphon convert``: a conversation from one form to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from antiphon.conversion import Conversion, Loss, SidecarWriter, read_sidecar
from antiphon.errors import ConfigError

from .completions import form_names
from .excerpt import RecentText
from .options import JsonOption
from .streams import chunks, output

SUFFIX = ".sidecar.json"


def command(
    file: Annotated[Path, typer.Argument(help="The input; - reads standard input.", metavar="IN")],
    to: Annotated[
        str,
        typer.Option(
            help="The form to write: openchatml, harmony, chat …, or a template's name.", autocompletion=form_names
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The output; default: standard output.")] = None,
    source: Annotated[str | None, typer.Option("--from", help="The input's form, when it cannot be detected.")] = None,
    report: Annotated[bool, typer.Option("--report", help="List on stderr what the form cannot express.")] = False,
    sidecar: Annotated[
        bool, typer.Option("--sidecar", help=f"Keep what is lost in OUT{SUFFIX}; take back what IN{SUFFIX} has.")
    ] = False,
    lenient: Annotated[bool, typer.Option("--lenient", help="Take the best reading of a faulty input.")] = False,
    json: JsonOption = False,
) -> None:
    """Convert a conversation. Results go to stdout or OUT; what is lost is counted on stderr (--json: a line each)."""
    if sidecar and (out is None or str(out) == "-"):
        raise ConfigError("a sidecar is written beside a file", hint="Name one with -o.")
    beside = sidecar_file(file)
    conversion = Conversion(
        to=to,
        source=source,
        lenient=lenient,
        input_sidecar=read_sidecar(beside.read_bytes()) if sidecar and beside.is_file() else None,
        on_loss=(print_loss_as_json if json else print_loss) if report or json else ignore,
        on_warning=lambda warning: print(f"warning: {warning}", file=sys.stderr),
        sidecar_writer=SidecarWriter() if sidecar else None,
    )
    recent = RecentText()
    with recent.shown_with_errors(), output(out) as sink:
        for part in conversion.run(recent.watch(chunks(file))):
            sink.write(part)
    lost = conversion.sidecar()
    if lost is not None and out is not None:
        sidecar_file(out).write_bytes(lost.encode())
    if conversion.losses and not (report or json or sidecar):
        print(f"{conversion.losses} things are not in the output; --report lists them", file=sys.stderr)


def sidecar_file(file: Path) -> Path:
    return file.with_name(file.name + SUFFIX)


def print_loss(loss: Loss) -> None:
    print(loss, file=sys.stderr)


def print_loss_as_json(loss: Loss) -> None:
    print(msgspec.json.encode(loss).decode(), file=sys.stderr)


def ignore(loss: Loss) -> None:
    """A loss that is counted and not printed."""
