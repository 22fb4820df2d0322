"""``antiphon conformance``: the OpenChatML compliance suite, run against us or against another implementation."""

from __future__ import annotations

import json as jsonlib
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.errors import ConfigError
from antiphon.formats.openchatml import Case, Implementation, check, read_cases, run_conformance

from .options import JsonOption, print_json

PATIENCE = 60
"""The time limit of one case of another implementation, in seconds."""


def command(
    command: Annotated[
        str | None,
        typer.Option(help="Another implementation: reads a transcript on stdin, prints its report as JSON."),
    ] = None,
    cases: Annotated[Path | None, typer.Option(help="A folder of other cases.", file_okay=False)] = None,
    only: Annotated[str, typer.Option(help="Cases whose id or clause holds this.")] = "",
    json: JsonOption = False,
) -> None:
    """Run the compliance suite of OpenChatML 2.2; exit code 1 when a case fails."""
    suite = [case for case in load(cases or shipped()) if any(only in name for name in (case.id, *case.clauses))]
    if not suite:
        raise ConfigError(f"there are no cases for {only!r}" if only else f"there are no cases in {cases}")
    implementation = by_command(shlex.split(command)) if command else check
    outcomes = list(run_conformance(suite, implementation))
    failed = [outcome for outcome in outcomes if not outcome.passed]
    if json:
        problems = [{"id": o.case.id, "clauses": o.case.clauses, "problem": o.problem} for o in failed]
        print_json({"passed": len(outcomes) - len(failed), "failed": problems})
    else:
        for outcome in failed:
            print(f"{outcome.case.id} ({', '.join(outcome.case.clauses)}): {outcome.problem}")
        print(f"{len(outcomes) - len(failed)} of {len(outcomes)} cases passed")
    if failed:
        raise typer.Exit(1)


def by_command(words: Sequence[str]) -> Implementation:
    """Another program as an implementation; a case's flags are added to its words."""

    def implementation(transcript: bytes, flags: Sequence[str]) -> object:
        # The user names the program to be checked.
        done = subprocess.run(  # noqa: S603
            [*words, *flags], input=transcript, capture_output=True, timeout=PATIENCE, check=False
        )
        try:
            return jsonlib.loads(done.stdout)
        except ValueError:
            tail = done.stderr.decode("utf-8", "replace").strip()[-200:]
            raise ValueError(f"no JSON on stdout (exit code {done.returncode}) {tail}") from None

    return implementation


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
            found += read_cases(values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{file} holds no cases: {error!r}") from None
    return found
