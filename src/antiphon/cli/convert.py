"""``antiphon convert``: a conversation from one form to another."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.conversion import Conversion, LineConversions, Loss, SidecarWriter, read_sidecar
from antiphon.errors import AntiphonError, ConfigError
from antiphon.writing import check_writable, write

from .app import error_object
from .completions import form_names
from .excerpt import RecentText
from .files import LINES, SIDECAR, STANDARD, SUFFIXES, chunks, error_line, files_below, is_pattern, output
from .options import JsonOption, LimitOption, LinesOption, as_json, check_limit, print_json
from .terminal import each_of, say, tell, then_waiting

# Many conversions in one run: folders are walked, names stay, and what is lost is summed up by its kind.

OTHER_SUFFIX = ".txt"
"""Suffix of files that a chat template writes."""
SHOWN = 60
"""Characters of an example of what is lost."""
Convert = Callable[[Path, Path, Callable[[Loss], None]], None]
"""Converts a file into another, and calls with each loss. Raises `AntiphonError`."""
_NUMBER = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class LossCount:
    """Losses of one kind: how many, in how many files or lines, and the first place and loss as an example."""

    example: Loss
    first: str
    last: str = ""
    places: int = 0
    count: int = 0


class LossCounts(dict[tuple[str, str], LossCount]):
    """Losses by their path, without numbers, and how grave they are."""

    def lose(self, place: str, loss: Loss) -> None:
        """Counts a loss. Losses of one place are added one after another."""
        known = self.setdefault((_NUMBER.sub("[]", loss.path), loss.kind), LossCount(loss, place))
        known.places += known.last != place
        known.last = place
        known.count += 1

    def sorted(self) -> list[tuple[tuple[str, str], LossCount]]:
        """The gravest and most frequent first."""
        return sorted(self.items(), key=lambda item: (item[0][1] != "semantic", -item[1].count, item[0]))

    def tell(self, places: str, *, named: str = "") -> None:
        """Prints a line for each on stderr: ``12 × messages[].call_id in 3 files, first a.json: 'w1'``."""
        for (path, _), lost in self.sorted():
            what = str(lost.example).removeprefix(f"{lost.example.path}: ")
            shown = what if len(what) <= SHOWN else f"{what[:SHOWN]}…"
            several = f"{lost.places} {places}, first " if lost.places > 1 else named
            tell(f"{lost.count:>7} × {path} in {several}{lost.first}: {shown}", file=sys.stderr)


@dataclass(slots=True)
class ManyConversions:
    """``failed`` has the error of each file that was not converted. ``force``: files that are there are replaced."""

    out: Path
    to: str
    force: bool = False
    converted: dict[Path, Path] = field(default_factory=dict)
    failed: dict[Path, AntiphonError] = field(default_factory=dict)
    losses: LossCounts = field(default_factory=LossCounts)

    def run(self, paths: Sequence[Path], source: str | None, convert: Convert) -> None:
        """Converts every file of the paths, whatever becomes of the others."""
        inputs = files_below(paths, source)
        out = self.out.resolve()
        if any(path.is_dir() and path.resolve() in out.parents for path in paths):  # without those of a former run
            inputs = {file: relative for file, relative in inputs.items() if out not in file.resolve().parents}
        reserved = {file.resolve() for file in inputs}
        for file in sorted(file for path in paths if path.is_dir() for file in path.rglob(f"*{LINES}")):
            say(f"warning: {file}: left out; a data set is converted alone")
        for file in each_of(list(inputs), "converting"):
            try:
                target = self._target(inputs[file], reserved)
                convert(file, target, partial(self.losses.lose, str(file)))
                self.converted[file] = target
            except AntiphonError as error:
                self.failed[file] = error

    def _target(self, relative: Path, reserved: set[Path]) -> Path:
        """Returns the path of a file's output. Raises `ConfigError` where something is that must stay."""
        target = self.out / relative.with_suffix(SUFFIXES.get(self.to, (OTHER_SUFFIX,))[0])
        if target.resolve() in reserved:
            raise ConfigError(f"{target} is an input, or the output of another", code="unwritable_output")
        check_writable(target, replace=self.force)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}", code="unwritable_output") from None
        reserved.add(target.resolve())
        return target

    def report(self, *, as_json: bool) -> None:
        """One line for each file that failed, then what was lost, the gravest and most frequent first."""
        if as_json:
            print_json(self.as_object())
            return
        for file, error in self.failed.items():
            say(error_line(file, error))
        done = f"{len(self.converted)} of {len(self.converted) + len(self.failed)} files are in {self.out}"
        tell(done + (": what is not in them:" if self.losses else ""), file=sys.stderr)
        self.losses.tell("files")

    def as_object(self) -> Mapping[str, Any]:
        """The same for programs."""
        done = [{"file": str(file), "out": str(out)} for file, out in self.converted.items()]
        failed = [{"file": str(file), "error": error_object(error)} for file, error in self.failed.items()]
        losses = [
            {"path": path, "kind": kind, "count": lost.count, "files": lost.places, "first": lost.first,
             "example": lost.example}
            for (path, kind), lost in self.losses.sorted()
        ]  # fmt: skip
        return {"converted": done, "failed": failed, "losses": losses}


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
    lines: LinesOption = False,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Convert a conversation. Results go to stdout or OUT; what is lost is counted on stderr (--json: a line each).

    Several files and folders are converted into the folder OUT under the same names, with one summary of what is
    lost (--json: one object). Exit code 1 where one failed; the others are converted. So are the lines of a data set.
    """
    run = partial(convert, to=to, source=source, lenient=lenient, sidecar=sidecar, force=force)
    if len(files) > 1 or files[0].is_dir() or is_pattern(files[0]):
        many(files, out, ManyConversions(out or STANDARD, to, force), source, run, json=json)
        return
    if lines or files[0].suffix == LINES:
        if sidecar:
            raise ConfigError("a sidecar is of one conversation, not of lines")
        data_set(files[0], out, LineConversions(to, source, lenient, limit), force=force, report=report, json=json)
        return
    check_limit(limit, lines=False)
    if sidecar and (out is None or out == STANDARD):
        raise ConfigError("a sidecar is written beside a file", hint="Name one with -o.")
    count = 0

    def lose(loss: Loss) -> None:
        nonlocal count
        count += 1
        if json:
            say(as_json(loss, indent=False))
        elif report:
            say(str(loss))

    run(files[0], out, lose)
    if count and not (report or json or sidecar):
        tell(f"{count} things are not in the output; --report lists them", file=sys.stderr)


def data_set(file: Path, out: Path | None, lines: LineConversions, *, force: bool, report: bool, json: bool) -> None:
    """Converts a file's lines. Reports each that failed, then losses by kind; or all as JSON, for programs."""
    losses = LossCounts()

    def lose(number: int, loss: Loss) -> None:
        losses.lose(str(number), loss)
        if json:
            say(as_json({"line": number, **asdict(loss)}, indent=False))
        elif report:
            say(f"{number}: {loss}")

    def fail(number: int, error: AntiphonError) -> None:
        if json:
            say(as_json({"line": number, "error": error_object(error)}, indent=False))
        else:
            say(error_line(file, error, number))

    lines.on_loss, lines.on_error = lose, fail
    lines.on_warning = lambda number, warning: say(f"warning: {number}: {warning}")
    if out not in (None, STANDARD):
        check_writable(out, replace=force)
    words = f"converting {file}" if out not in (None, STANDARD) or not sys.stdout.isatty() else ""
    with output(out, replace=force) as sink, then_waiting(chunks(file), words) as parts:
        for line in lines.run(parts):
            sink.write(line)
    if not json:
        lost = ": what is not in them:" if losses else ""
        tell(f"{lines.read - lines.failed} of {lines.read} lines are converted{lost}", file=sys.stderr)
        losses.tell("lines", named="line ")
    if lines.failed:
        raise typer.Exit(1)


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
    if STANDARD in files or any(file.suffix == LINES for file in files):
        raise ConfigError(f"standard input, and lines of *{LINES}, are converted alone")
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
    if sidecar and conversion.unread:
        say(f"warning: {conversion.unread} things of {file} are not in the sidecar either; --report lists them")
    lost = conversion.sidecar()
    if lost is not None and out is not None:
        write(sidecar_file(out), lost.encode())


def sidecar_file(file: Path) -> Path:
    return file.with_name(file.name + SIDECAR)
