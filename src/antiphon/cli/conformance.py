"""``antiphon conformance``: the OpenChatML compliance suite, run against us or against another implementation."""

from __future__ import annotations

import base64
import json as jsonlib
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import typer

from antiphon.errors import ConfigError
from antiphon.formats.openchatml import (
    Case,
    Implementation,
    Level,
    Outcome,
    Tally,
    check,
    read_cases,
    run_conformance,
    tallies,
)

from .options import JsonOption, print_json
from .terminal import tell, waiting_for

PATIENCE = 60
"""The time limit of one case of another implementation, in seconds."""


def command(
    program: Annotated[
        list[str] | None,
        typer.Argument(help="Behind --, another implementation: it reads a transcript on stdin and prints its report."),
    ] = None,
    level: Annotated[
        int, typer.Option(min=1, max=3, help="Up to 1 the specification, 2 choices where it is silent, 3 diagnostics.")
    ] = 3,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines",
            help="The program is started once and reads each case as a line of JSON. It gets no word of it: what it"
            " needs to be told stands behind -- too.",
        ),
    ] = False,
    cases: Annotated[Path | None, typer.Option(help="A folder of other cases.", file_okay=False)] = None,
    only: Annotated[str, typer.Option(help="Cases whose id, topic or clause holds this.")] = "",
    json: JsonOption = False,
) -> None:
    """Run the compliance suite of OpenChatML 2.2; exit code 1 when a case fails."""
    suite = list(narrowed(load(cases or shipped()), Level(level), only))
    if not suite:
        raise ConfigError(f"there are no cases for {only!r}" if only else f"there are no cases in {cases or shipped()}")
    with implementation_of(program or (), lines=lines) as implementation:
        outcomes: list[Outcome] = []
        with waiting_for(lambda: f"{len(outcomes)} of {sum(len(case.demands) for case in suite)} demands"):
            outcomes.extend(run_conformance(suite, implementation))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if json:
        print_json(summary(outcomes))
    else:
        for outcome in failed:
            clauses = ", ".join(outcome.case.clauses)
            tell(f"{outcome.case.id} ({clauses}), {outcome.level.name.lower()}: {outcome.problem}")
        tell(table(outcomes, Level(level)))
    if failed:
        raise typer.Exit(1)


def narrowed(suite: Sequence[Case], level: Level, only: str) -> Iterator[Case]:
    """The requested cases, with their demands up to a level; those without any are left out."""
    for case in suite:
        demands = {at: demand for at, demand in case.demands.items() if at <= level}
        if demands and any(only in name for name in (case.id, case.topic, *case.clauses)):
            yield replace(case, demands=demands)


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the value of ``--json``: ``topics`` is topic → level → [passed, total], ``failed`` the unmet demands."""
    failed = [outcome for outcome in outcomes if not outcome.passed]
    return {
        "passed": len(outcomes) - len(failed),
        "total": len(outcomes),
        "topics": {
            topic: {level.name.lower(): [tally.passed, tally.total] for level, tally in row.items() if tally.total}
            for topic, row in tallies(outcomes).items()
        },
        "failed": [
            {"id": o.case.id, "level": o.level.name.lower(), "clauses": o.case.clauses, "problem": o.problem}
            for o in failed
        ],
    }


def table(outcomes: Sequence[Outcome], level: Level) -> str:
    """Draws the passed demands, a line for each topic and a column for each level."""
    levels = [at for at in Level if at <= level]
    rows = tallies(outcomes)
    columns = {at: [row[at] for row in rows.values()] for at in levels}
    rows["all"] = {
        at: Tally(sum(c.passed for c in cells), sum(c.total for c in cells)) for at, cells in columns.items()
    }
    lines = ["".join(["topic".ljust(12), *(at.name.lower().rjust(16) for at in levels)])]
    for topic, row in rows.items():
        cells = (f"{row[at].passed} of {row[at].total}" if row[at].total else "-" for at in levels)
        lines.append("".join([topic.ljust(12), *(cell.rjust(16) for cell in cells)]))
    passed = sum(outcome.passed for outcome in outcomes)
    return "\n".join([*lines, f"{passed} of {len(outcomes)} demands met"])


@contextmanager
def implementation_of(program: Sequence[str], *, lines: bool) -> Iterator[Implementation]:
    """Ours when no program is named. Raises `ConfigError` for a program that there is not."""
    if program and shutil.which(program[0]) is None:
        raise ConfigError(f"there is no program {program[0]!r}")
    if lines and program:
        with by_lines(program) as implementation:
            yield implementation
    else:
        with nullcontext(by_command(program) if program else check) as implementation:
            yield implementation


def by_command(words: Sequence[str]) -> Implementation:
    """Another program as an implementation; a case's flags are added to its words."""

    def implementation(transcript: bytes, flags: Sequence[str]) -> object:
        # The user names the program to be checked.
        done = subprocess.run(  # noqa: S603
            [*words, *flags], input=transcript, capture_output=True, timeout=PATIENCE, check=False
        )
        return _report(done.stdout, _ending(done.returncode, BytesIO(done.stderr)))

    return implementation


@contextmanager
def by_lines(words: Sequence[str]) -> Iterator[Implementation]:
    """The same for a program that answers each line ``{"base64", "flags"}`` with its report on a line.

    One that ends, or is ended after `PATIENCE`, fails the rest of the cases with its exit code and standard error.
    """
    with (
        TemporaryFile() as stderr,
        subprocess.Popen([*words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process,  # noqa: S603 - as above
    ):

        def implementation(transcript: bytes, flags: Sequence[str]) -> object:
            assert process.stdin is not None
            assert process.stdout is not None
            request = {"base64": base64.b64encode(transcript).decode(), "flags": list(flags)}
            patience = threading.Timer(PATIENCE, process.kill)
            patience.start()
            try:
                with suppress(BrokenPipeError):  # it has ended
                    process.stdin.write(jsonlib.dumps(request).encode() + b"\n")
                    process.stdin.flush()
                answer = process.stdout.readline()
                ending = "" if answer else _ending(process.wait(), stderr)
            finally:
                patience.cancel()
            return _report(answer, ending)

        try:
            yield implementation
        finally:
            process.kill()
            with suppress(BrokenPipeError):  # what it had not read
                process.communicate()


def _ending(code: int, stderr: IO[bytes]) -> str:
    stderr.seek(0)
    return f"(exit code {code}) {stderr.read().decode('utf-8', 'replace').strip()[-200:]}".rstrip()


def _report(answer: bytes, otherwise: str) -> Mapping[str, Any]:
    try:
        report: Mapping[str, Any] = jsonlib.loads(answer)
    except ValueError:
        raise ValueError(f"no JSON on stdout {otherwise}".rstrip()) from None
    return report


def shipped() -> Path:
    """The suite in the package, or in a clone of the repository."""
    here = Path(__file__).parents[1]
    inside, cloned = here / "conformance", here.parents[1] / "tests" / "spec" / "openchatml"
    return inside if inside.is_dir() else cloned


def load(folder: Path) -> list[Case]:
    """The cases of every JSON file in a folder. Raises `ConfigError` for a file that has none."""
    found: list[Case] = []
    for file in sorted(folder.glob("*.json")):
        try:
            values: list[dict[str, Any]] = jsonlib.loads(file.read_bytes())
            found += read_cases(values, file.stem)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{file} holds no cases: {error!r}") from None
    return found
