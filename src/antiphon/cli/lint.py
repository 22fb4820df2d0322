"""``antiphon lint``: transcripts by named rules, for people and programs; and what can be mended mended."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.errors import NotFoundError, Position, RequestError, near
from antiphon.errors.incidents import INCIDENTS
from antiphon.errors.place import end_of_word
from antiphon.formats.openchatml.lint import RULES, Diagnostic, Severity, findings, is_mended, mended

from .excerpt import excerpt
from .files import STANDARD, content_of, files_of, write_back
from .options import JsonOption, print_json, print_table
from .terminal import each_of, tell
from .validate import OPENCHATML, Profile, counted

# The findings of the linter for people and for programs.


@dataclass(frozen=True, slots=True)
class Linted:
    """A file, its text, and what was found in it. ``fixed``: what can be mended was, before that."""

    file: Path
    text: str
    found: list[Diagnostic]
    fixed: bool = False


# -- for people -------------------------------------------------------------------------------------------------------


def as_text(linted: Sequence[Linted]) -> str:
    """A line a finding, its place in the source and its hint below; the number of findings at the end."""
    counts = Counter(diagnostic.level for one in linted for diagnostic in one.found)
    fixes = [diagnostic.fix for one in linted if not one.fixed for diagnostic in one.found]
    fixable = sum(fix is not None and not fix.reveals for fix in fixes)
    lines = [line for one in linted for diagnostic in one.found for line in _lines(one, diagnostic)]
    summary = ", ".join(counted(counts[level], level) for level in (Severity.ERROR, Severity.WARNING) if counts[level])
    summary += (", " if summary else "") + f"{counts[Severity.INFO]} more" if counts[Severity.INFO] else ""
    summary += f"; --fix can mend {fixable}" if fixable else ""
    return "".join(f"{line}\n" for line in [*lines, f"{counted(len(linted), 'file')}: {summary or 'nothing found'}"])


def _lines(one: Linted, diagnostic: Diagnostic) -> Iterator[str]:
    start = diagnostic.start
    yield f"{one.file}:{start}  {diagnostic.level}  {diagnostic.message}  [{diagnostic.rule}]"
    if start.offset is not None and start.line is not None:
        yield excerpt(one.text, start.offset, diagnostic.end.offset or start.offset, start.line)
    if diagnostic.hint:
        yield f"      {diagnostic.hint}"


# -- for programs -----------------------------------------------------------------------------------------------------


def as_json(linted: Iterable[Linted]) -> dict[str, Any]:
    """``{"files": [{"file", "findings": [{"rule", "level", "code", "message", "hint", "line", …, "fix"}]}]}``."""
    return {"files": [{"file": str(one.file), "findings": [_object(found) for found in one.found]} for one in linted]}


def _object(found: Diagnostic) -> dict[str, Any]:
    fix = None
    if found.fix:
        text = found.fix.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")  # JSON has no lone bytes
        fix = {"start": found.fix.start, "end": found.fix.end, "text": text, "reveals": found.fix.reveals}
    return {
        "rule": found.rule, "level": found.level, "code": found.code, "message": found.message, "hint": found.hint,
        "line": found.start.line, "column": found.start.column,
        "end_line": found.end.line, "end_column": found.end.column, "fix": fix,
    }  # fmt: skip


HARMONY = "harmony"
GRADES = (Severity.INFO, Severity.WARNING, Severity.ERROR)


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Transcripts, or folders of them; - reads standard input.")
    ] = None,
    source: Annotated[str, typer.Option("--from", help="The form that they are in: openchatml, harmony.")] = OPENCHATML,
    select: Annotated[str, typer.Option(help="Rules to apply, with commas: names, head-*.")] = "",
    ignore: Annotated[str, typer.Option(help="Rules to leave out, with commas.")] = "",
    level: Annotated[str, typer.Option(help="Levels of rules, with commas: head-order=error,plan-hidden=off.")] = "",
    fail_on: Annotated[Severity, typer.Option(help="The least level that fails; off: none.")] = Severity.ERROR,
    fix: Annotated[bool, typer.Option("--fix", help="Mend in place what can be mended, and report the rest.")] = False,
    profile: Annotated[Profile | None, typer.Option(help="Check more: the rules of HIP-1.")] = None,
    fragment: Annotated[bool, typer.Option("--fragment", help="Accept a transcript without a YAML header.")] = False,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
    json: JsonOption = False,
) -> None:
    """Check transcripts by named rules. Exit code 1 when a finding is as grave as --fail-on, an error by default."""
    levels = chosen_levels(words(select), words(ignore), words(level))
    if rules:
        print_rules(levels, as_json=json)
        return
    if source not in (OPENCHATML, HARMONY):
        raise RequestError(f"{source!r} has no rules here", hint="openchatml or harmony.")
    if source == HARMONY and (fix or profile or fragment):
        raise RequestError("--fix, --profile and --fragment are for OpenChatML", hint="`antiphon fmt --from harmony`.")
    if not files:
        raise RequestError("no files are named", hint="A file, a folder, or - for standard input.")
    if fix and STANDARD in files and json:
        raise RequestError("--fix writes standard input to standard output, where the report would go")
    read: Callable[[Path], Linted] = partial(lint_harmony, levels=levels)
    if source == OPENCHATML:
        harmony = profile is Profile.HARMONY
        read = partial(lint_transcript, fix=fix, levels=levels, fragment=fragment, harmony=harmony)
    linted = [read(file) for file in each_of(files_of(files, source), "checking")]
    # What is mended of standard input is on standard output.
    if json:
        print_json(as_json(linted))
    else:
        tell(as_text(linted), end="", file=sys.stderr if fix and STANDARD in files else sys.stdout)
    grades = GRADES[GRADES.index(fail_on) :] if fail_on in GRADES else ()
    if any(diagnostic.level in grades for one in linted for diagnostic in one.found):
        raise typer.Exit(1)


def lint_transcript(file: Path, *, fix: bool, levels: Mapping[str, Severity], fragment: bool, harmony: bool) -> Linted:
    """The findings in an OpenChatML transcript, which is mended first where that is requested."""
    text = content_of(file).decode("utf-8", "surrogateescape")
    if fix:
        before, text = text, mended(text, levels=levels, fragment=fragment, harmony=harmony)
        write_back(file, before.encode("utf-8", "surrogateescape"), text.encode("utf-8", "surrogateescape"))
    return Linted(file, text, findings(text, levels=levels, fragment=fragment, harmony=harmony), fix)


def lint_harmony(file: Path, *, levels: Mapping[str, Severity]) -> Linted:
    """Lints a conversation in Harmony; the rules are the parser's incidents."""
    # The other forms take long to import, and most files are OpenChatML.
    from antiphon.conversion.harmony import harmony_findings

    content = content_of(file)
    text = content.decode("utf-8", "surrogateescape")
    found = []
    for finding in harmony_findings([content]):
        start, level = finding.position, levels.get(finding.code, Severity.ERROR)
        length = end_of_word(text, start.offset or 0) - (start.offset or 0)
        end = Position((start.offset or 0) + length, start.line, (start.column or 1) + length)
        found.append(Diagnostic(finding.code, level, finding.message, start, end, finding.code, finding.hint))
    return Linted(file, text, [one for one in found if one.level is not Severity.OFF])


# -- which rules, at which levels -------------------------------------------------------------------------------------


def words(given: str) -> list[str]:
    return [word.strip() for word in given.split(",") if word.strip()]


def chosen_levels(select: Sequence[str], ignore: Sequence[str], level: Sequence[str]) -> dict[str, Severity]:
    """The level of each rule that is not at the table's. Raises `NotFoundError` with near names, `RequestError`."""
    levels: dict[str, Severity] = {}
    if select:
        levels = dict.fromkeys(known(), Severity.OFF)
        for name in (name for word in select for name in named(word)):
            own = RULES[name].level if name in RULES else Severity.ERROR
            levels[name] = Severity.INFO if own is Severity.OFF else own  # what is off by default is reported so
    for word in ignore:
        levels.update(dict.fromkeys(named(word), Severity.OFF))
    for setting in level:
        name, _, value = setting.partition("=")
        if value not in set(Severity):
            raise RequestError(f"{setting!r} names no level", hint=f"{name}={'|'.join(Severity)}")
        levels.update(dict.fromkeys(named(name), Severity(value)))
    return levels


def known() -> list[str]:
    """The names of the rules, and the codes of Harmony's incidents."""
    return [*RULES, *INCIDENTS]


def named(word: str) -> list[str]:
    """The rules that a word with ``*`` names. Raises `NotFoundError` when there is none."""
    names = [name for name in known() if fnmatchcase(name, word)]
    if not names:
        raise NotFoundError(f"there is no rule {word!r}", code="rule_not_found", hint=near(word, list(RULES)))
    return names


def print_rules(levels: Mapping[str, Severity], *, as_json: bool) -> None:
    rows = [(rule.name, levels.get(rule.name, rule.level), is_mended(rule), rule.what) for rule in RULES.values()]
    if as_json:
        print_json({"rules": [dict(zip(("name", "level", "fixable", "what"), row, strict=True)) for row in rows]})
        return
    print_table(("rule", "level", "mended", "what"), [(n, v, "yes" if f else "", what) for n, v, f, what in rows])
