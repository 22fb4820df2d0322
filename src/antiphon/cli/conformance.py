"""``antiphon conformance``: a compliance suite, run against us or against another implementation."""

from __future__ import annotations

import base64
import json as jsonlib
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, Any

import typer

from antiphon.errors import ConfigError
from antiphon.formats.conformance import (
    Case,
    Implementation,
    Level,
    Outcome,
    Tally,
    read_cases,
    run_conformance,
    tallies,
)

from .options import JsonOption, print_json
from .terminal import tell, waiting_for

PATIENCE = 60
"""The time limit of one case of another implementation, in seconds."""
INDEX, SHARED = "index.json", "shared.json"
"""Files of a suite beside its cases: what it is, and parts that requests have in common."""


class Suite(StrEnum):
    """The suites by the names of their folders."""

    OPENCHATML = "openchatml"
    HARMONY = "harmony"
    REPLIES = "replies"


def command(
    program: Annotated[
        list[str] | None,
        typer.Argument(
            help="Behind --, another implementation: it reads a transcript, or a request, on stdin and prints a report."
        ),
    ] = None,
    suite: Annotated[Suite, typer.Option(help="The format that is checked.")] = Suite.OPENCHATML,
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
    """Run the compliance suite of OpenChatML 2.2, of Harmony or of reply formats; exit code 1 when a case fails."""
    folder = cases or shipped(suite)
    chosen = list(narrowed(load(folder), Level(level), only))
    if not chosen:
        raise ConfigError(f"there are no cases for {only!r}" if only else f"there are no cases in {folder}")
    with implementation_of(program or (), suite, lines=lines) as implementation:
        outcomes: list[Outcome] = []
        with waiting_for(lambda: f"{len(outcomes)} of {sum(len(case.demands) for case in chosen)} demands"):
            outcomes.extend(run_conformance(chosen, implementation))
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
def implementation_of(program: Sequence[str], suite: Suite, *, lines: bool) -> Iterator[Implementation]:
    """Ours when no program is named. Raises `ConfigError` for a program that there is not."""
    if program and shutil.which(program[0]) is None:
        raise ConfigError(f"there is no program {program[0]!r}")
    if lines and program:
        with by_lines(program, suite) as implementation:
            yield implementation
    else:
        with nullcontext(by_command(program) if program else ours(suite)) as implementation:
            yield implementation


def ours(suite: Suite) -> Implementation:
    """Antiphon's own implementation of a suite's format."""
    match suite:
        case Suite.OPENCHATML:
            from antiphon.formats.openchatml import check

            return check
        case Suite.HARMONY:
            from .answers import answer_harmony

            return answer_harmony
        case Suite.REPLIES:
            from .answers import answer_reply

            return answer_reply


def by_command(words: Sequence[str]) -> Implementation:
    """Another program as an implementation; a case's flags are added to its words."""

    def implementation(given: bytes, flags: Sequence[str]) -> object:
        # The user names the program to be checked.
        done = subprocess.run(  # noqa: S603
            [*words, *flags], input=given, capture_output=True, timeout=PATIENCE, check=False
        )
        return _report(done.stdout, _ending(done.returncode, BytesIO(done.stderr)))

    return implementation


@contextmanager
def by_lines(words: Sequence[str], suite: Suite = Suite.OPENCHATML) -> Iterator[Implementation]:
    """The same for a program that answers each line with its report on a line.

    The line is a request as it is, and for a transcript ``{"base64", "flags"}``.

    One that ends, or is ended after `PATIENCE`, fails the rest of the cases with its exit code and standard error.
    """
    with (
        TemporaryFile() as stderr,
        subprocess.Popen([*words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr) as process,  # noqa: S603 - as above
    ):

        def implementation(given: bytes, flags: Sequence[str]) -> object:
            assert process.stdin is not None
            assert process.stdout is not None
            if suite is Suite.OPENCHATML:
                encoded = {"base64": base64.b64encode(given).decode(), "flags": list(flags)}
                given = jsonlib.dumps(encoded).encode()
            patience = threading.Timer(PATIENCE, process.kill)
            patience.start()
            try:
                with suppress(BrokenPipeError):  # it has ended
                    process.stdin.write(given + b"\n")
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


def shipped(suite: Suite = Suite.OPENCHATML) -> Path:
    """The suite in the package, or in a clone of the repository."""
    here = Path(__file__).parents[1]
    inside, cloned = here / "conformance", here.parents[1] / "tests" / "spec"
    return (inside if inside.is_dir() else cloned) / suite


def load(folder: Path) -> list[Case]:
    """The cases of every JSON file in a folder. Raises `ConfigError` for a file that has none."""
    files = {file.name: file for file in sorted(folder.glob("*.json")) if file.name != INDEX}
    found: list[Case] = []
    shared: dict[str, dict[str, Any]] = {}
    for name, file in sorted(files.items(), key=lambda item: item[0] != SHARED):
        try:
            values = jsonlib.loads(file.read_bytes())
            if name == SHARED:
                shared = dict(values)
            else:
                found += read_cases(values, file.stem, shared)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{file} holds no cases: {error!r}") from None
    return found
