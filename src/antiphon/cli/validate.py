"""``antiphon validate``: what is wrong with transcripts of any length, in OpenChatML or another form."""

from __future__ import annotations

import json as jsonlib
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import FormatError, ParseError, Position, RequestError
from antiphon.formats.openchatml import Finding, finding_to_json, validate
from antiphon.formats.openchatml.rules import cited

from .excerpt import RecentText
from .files import LINES, check_readable, chunks, files_of, is_pattern
from .options import JsonOption, LimitOption, LinesOption, check_limit
from .terminal import tell

OPENCHATML = "openchatml"
IN_MEMORY = 1 << 16
"""Bytes of warnings that wait in memory until the errors are printed; more wait in a file."""


class Profile(StrEnum):
    HARMONY = "harmony"


@dataclass(frozen=True, slots=True)
class Checked:
    """A file, what is found wrong with it while it is read, and the part of it that was read last."""

    file: Path
    findings: Iterator[Finding]
    recent: RecentText


@dataclass(slots=True)
class Totals:
    """Counts over all files."""

    files: int = 0
    invalid: int = 0
    errors: int = 0
    warnings: int = 0

    def add(self, errors: int, warnings: int) -> None:
        self.files += 1
        self.invalid += errors > 0
        self.errors += errors
        self.warnings += warnings

    def __str__(self) -> str:
        verdict = f"{counted(self.errors, 'error')} in {self.invalid}" if self.errors else "all valid"
        warnings = f", {counted(self.warnings, 'warning')}" if self.warnings else ""
        return f"{counted(self.files, 'file')}: {verdict}{warnings}"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def command(
    files: Annotated[list[Path], typer.Argument(help="Transcripts, or folders of them; - reads standard input.")],
    source: Annotated[str, typer.Option("--from", help="The form that they are in: harmony, chat …")] = OPENCHATML,
    profile: Annotated[Profile | None, typer.Option(help="Check more: the rules of HIP-1.")] = None,
    fragment: Annotated[bool, typer.Option("--fragment", help="Accept a transcript without a YAML header.")] = False,
    lines: LinesOption = False,
    limit: LimitOption = None,
    json: JsonOption = False,
) -> None:
    """Check transcripts. Prints the place, code, line and hint of each error; exit code 1 when there are any."""
    if source != OPENCHATML and (profile or fragment):
        raise RequestError("--profile and --fragment are for OpenChatML")
    named = files_of(files, source)
    for file in named if json else ():
        check_readable(file)  # before the first half of a JSON value is on stdout
    in_lines = [file for file in named if lines or file.suffix == LINES]
    check_limit(limit, lines=bool(in_lines))
    whole = partial(check, form=source, fragment=fragment, harmony=profile is Profile.HARMONY)
    checks = (check_lines(file, source, limit) if file in in_lines else whole(file) for file in named)
    single = not (len(files) > 1 or files[0].is_dir() or is_pattern(files[0]))
    totals = Totals()
    if json:
        print_file_as_json(next(checks), totals) if single else print_as_json(checks, totals)
    else:
        for checked in checks:
            print_as_text(checked, totals, place_alone=single)
        if not single:
            tell(totals)
    if totals.errors:
        raise typer.Exit(1)


def check(file: Path, form: str, *, fragment: bool = False, harmony: bool = False) -> Checked:
    """The check of one file, which is read as its findings are asked for."""
    recent = RecentText()
    parts = recent.watch(chunks(file))
    if form == OPENCHATML:
        return Checked(file, iter(validate(parts, fragment=fragment, harmony=harmony)), recent)
    return Checked(file, findings_of(form, parts), recent)


def check_lines(file: Path, form: str, limit: int | None) -> Checked:
    """The check of a conversation a line, of the detected form where ``form`` is OpenChatML; places are of lines."""
    from antiphon.conversion.convert import numbered_lines, unwrapped
    from antiphon.conversion.detect import detect

    recent = RecentText()

    def findings() -> Iterator[Finding]:
        for number, line in islice(numbered_lines(recent.watch(chunks(file))), limit):
            try:
                data = unwrapped(line)
                known = detect(data) if form == OPENCHATML else form
                found = validate([data], fragment=True) if known == OPENCHATML else findings_of(known, [data])
                for one in found:
                    column = one.position.column if one.position.line == 1 and data is line else 1
                    yield replace(one, position=Position(line=number, column=column))
            except ParseError as error:
                yield Finding(error.code, error.message, Position(line=number, column=1), error.hint)

    return Checked(file, findings(), recent)


def findings_of(form: str, parts: Iterable[bytes]) -> Iterator[Finding]:
    """Yields the faults of a text of another form: all of them for Harmony, else the first error."""
    # Most checks are of OpenChatML, and the other forms take long to import.
    from antiphon.conversion.convert import source_named
    from antiphon.conversion.harmony import harmony_findings

    if form == "harmony":
        yield from harmony_findings(parts)
        return
    reader = source_named(form)
    try:
        for part in parts:
            reader.feed(part)
        for _ in reader.close():
            pass
    except (FormatError, RequestError) as error:
        yield Finding(error.code, error.message, error.position or Position(), error.hint)


def print_as_text(checked: Checked, totals: Totals, *, place_alone: bool) -> None:
    """A line for each finding, its place in the source and its hint below; then the file's verdict."""
    errors = warnings = 0
    for finding in checked.findings:
        errors += not finding.warning
        warnings += finding.warning
        print_finding(finding, checked, place_alone=place_alone)
    verdict = counted(errors, "error") if errors else "valid"
    tell(f"{checked.file}: {verdict}")
    totals.add(errors, warnings)


def print_finding(finding: Finding, checked: Checked, *, place_alone: bool) -> None:
    place = str(finding.position) if place_alone else f"{checked.file}:{finding.position}"
    grade = "  warning:" if finding.warning else ""
    tell(f"{place}  {finding.code}{grade}  {finding.message}")
    source = checked.recent.excerpt(finding.position)
    if source:
        tell(source)
    if hint := cited(finding):
        tell(f"      {hint}")


def print_as_json(checks: Iterable[Checked], totals: Totals) -> None:
    """``{"files": [{"file": …, …}, …], "totals": {…}, "valid": bool}``; each file as `print_file_as_json` has it."""
    tell('{"files": [', end="")
    for n, checked in enumerate(checks):
        tell("," if n else "")
        print_file_as_json(checked, totals, f'"file": {jsonlib.dumps(str(checked.file))}, ')
    tell(f'], "totals": {jsonlib.dumps(asdict(totals))}, "valid": {jsonlib.dumps(totals.errors == 0)}}}')


def print_file_as_json(checked: Checked, totals: Totals, lead: str = "") -> None:
    """``{"errors": […], "warnings": […], "valid": bool}``, each error as it is found: there may be any number."""
    errors = warnings = 0
    with tempfile.SpooledTemporaryFile(IN_MEMORY, "w+", encoding="utf-8") as waiting:
        tell(f'{{{lead}"errors": [', end="")
        for finding in checked.findings:
            line = jsonlib.dumps(finding_to_json(finding))
            if finding.warning:
                waiting.write(f"{',' if warnings else ''}\n{line}")
                warnings += 1
            else:
                tell("," if errors else "", line, sep="\n", end="")
                errors += 1
        tell(f'{chr(10) if errors else ""}], "warnings": [', end="")
        waiting.seek(0)
        shutil.copyfileobj(waiting, sys.stdout)
    tell(f'{chr(10) if warnings else ""}], "valid": {jsonlib.dumps(errors == 0)}}}')
    totals.add(errors, warnings)
