"""``antiphon fmt``: transcripts in canonical form."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import AntiphonError, FormatError, RequestError
from antiphon.formats.openchatml import format_transcript

from .app import error_object, print_error
from .excerpt import RecentText
from .files import STANDARD, content_of, difference, files_of, output, write_back
from .options import JsonOption, print_json
from .terminal import each_of, tell

OPENCHATML, HARMONY = "openchatml", "harmony"


@dataclass(frozen=True, slots=True)
class Formatted:
    """One file: as it is, and in canonical form. ``error`` says why it has none; then ``after`` is ``before``."""

    file: Path
    before: bytes
    after: bytes
    error: AntiphonError | None = None

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Transcripts, or folders of them; - or none: standard input to output.")
    ] = None,
    source: Annotated[str, typer.Option("--from", help="The form that they are in: openchatml, harmony.")] = OPENCHATML,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit code 1 when a file would change.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print what would change, for patch.")] = False,
    fragment: Annotated[bool, typer.Option("--fragment", help="Accept a transcript without a YAML header.")] = False,
    json: JsonOption = False,
) -> None:
    """Write transcripts in canonical form, in place. A file that is not valid is left as it is."""
    if source not in (OPENCHATML, HARMONY):
        raise RequestError(f"{source!r} has no canonical form here", hint="openchatml or harmony.")
    named = files_of(files or [STANDARD], source)
    if json and STANDARD in named and not (check or diff):
        raise RequestError("--json is a report, and standard input is written to standard output", hint="Add --check.")
    results = [formatted(file, source, fragment=fragment) for file in each_of(named, "formatting")]
    for result in results:
        if result.error is not None:
            if not json:
                tell(f"{result.file}: not valid, left as it is", file=sys.stderr)
                print_error(result.error, as_json=False)
        elif not (check or diff):
            write_back(result.file, result.before, result.after)
        elif diff and not json:
            with output(None) as sink:
                sink.write(difference(result.file, result.before, result.after))
    report(results, as_json=json, changes=not (check or diff), quiet=diff)
    if any(result.error or (result.is_changed and (check or diff)) for result in results):
        raise typer.Exit(1)


def formatted(file: Path, form: str, *, fragment: bool) -> Formatted:
    """The canonical form of one file, or the error that says where it is not valid."""
    before = content_of(file)
    recent = RecentText()
    try:
        with recent.shown_with_errors():
            after = canonical(b"".join(recent.watch([before])), form, fragment=fragment)
    except (FormatError, RequestError) as error:
        return Formatted(file, before, before, error)
    return Formatted(file, before, after.encode("utf-8", "surrogateescape"))


def canonical(content: bytes, form: str, *, fragment: bool) -> str:
    if form == OPENCHATML:
        return format_transcript(content, fragment=fragment)
    # The other forms take long to import, and most files are OpenChatML.
    from antiphon.conversion.harmony import format_harmony

    return format_harmony(content)


def report(results: list[Formatted], *, as_json: bool, changes: bool, quiet: bool) -> None:
    """Which files changed, or would."""
    if as_json:
        failures = ({"error": error_object(result.error)} if result.error else {} for result in results)
        files = [{"file": str(one.file), "changed": one.is_changed} for one in results]
        print_json({"files": [file | failure for file, failure in zip(files, failures, strict=True)]})
        return
    sys.stdout.flush()
    for result in results:
        if result.is_changed and not quiet and not (changes and result.file == STANDARD):
            tell(f"{'formatted' if changes else 'would format'} {result.file}")
