"""The findings of the linter for people, for programs, and for code hosts: SARIF 2.1.0 and GitHub's annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from antiphon.errors import Position
from antiphon.formats.openchatml.lint import RULES, Diagnostic, Edit, Severity
from antiphon.formats.openchatml.lint.linted_text import LintedText
from antiphon.version import __version__

from .excerpt import excerpt

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note", Severity.OFF: "none"}
GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice", Severity.OFF: "debug"}


@dataclass(frozen=True, slots=True)
class Linted:
    """A file, its text, and what was found in it."""

    file: Path
    text: str
    found: list[Diagnostic]


# -- for people -------------------------------------------------------------------------------------------------------


def as_text(linted: Sequence[Linted]) -> str:
    """A line a finding, its place in the source and its hint below; the number of findings at the end."""
    counts = Counter(diagnostic.level for one in linted for diagnostic in one.found)
    fixable = sum(diagnostic.fix is not None for one in linted for diagnostic in one.found)
    lines = [line for one in linted for diagnostic in one.found for line in _lines(one, diagnostic)]
    summary = ", ".join(_counted(counts[level], level) for level in (Severity.ERROR, Severity.WARNING) if counts[level])
    summary += (", " if summary else "") + f"{counts[Severity.INFO]} more" if counts[Severity.INFO] else ""
    summary += f"; --fix mends {fixable}" if fixable else ""
    return "".join(f"{line}\n" for line in [*lines, f"{_counted(len(linted), 'file')}: {summary or 'nothing found'}"])


def _lines(one: Linted, diagnostic: Diagnostic) -> Iterator[str]:
    start = diagnostic.start
    yield f"{one.file}:{start}  {diagnostic.level}  {diagnostic.message}  [{diagnostic.rule}]"
    if start.offset is not None and start.line is not None:
        yield excerpt(one.text, start.offset, diagnostic.end.offset or start.offset, start.line)
    if diagnostic.hint:
        yield f"      {diagnostic.hint}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


# -- for programs -----------------------------------------------------------------------------------------------------


def as_json(linted: Iterable[Linted]) -> dict[str, Any]:
    """``{"files": [{"file", "findings": [{"rule", "level", "code", "message", "hint", "line", …, "fix"}]}]}``."""
    return {"files": [{"file": str(one.file), "findings": [_object(found) for found in one.found]} for one in linted]}


def _object(found: Diagnostic) -> dict[str, Any]:
    fix = found.fix and {"start": found.fix.start, "end": found.fix.end, "text": _encodable(found.fix.text)}
    return {
        "rule": found.rule, "level": found.level, "code": found.code, "message": found.message, "hint": found.hint,
        "line": found.start.line, "column": found.start.column,
        "end_line": found.end.line, "end_column": found.end.column, "fix": fix,
    }  # fmt: skip


def _encodable(text: str) -> str:
    """Text for JSON: a byte that is not UTF-8 is a replacement character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- SARIF 2.1.0 ------------------------------------------------------------------------------------------------------


def as_sarif(linted: Sequence[Linted]) -> dict[str, Any]:
    """One run of the linter as a log of SARIF 2.1.0."""
    ids = list(dict.fromkeys([*RULES, *(diagnostic.rule for one in linted for diagnostic in one.found)]))
    results = [result for one in linted for result in _results(one, ids)]
    driver = {"name": "antiphon", "version": __version__, "rules": [_descriptor(id) for id in ids]}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _descriptor(id: str) -> dict[str, Any]:
    rule = RULES.get(id)
    if rule is None:
        return {"id": id}
    level = {"level": SARIF_LEVELS[rule.level], "enabled": rule.level is not Severity.OFF}
    return {"id": id, "shortDescription": {"text": rule.what}, "defaultConfiguration": level}


def _results(one: Linted, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
    source, artifact = LintedText(one.text), {"uri": _uri(one.file)}
    for found in one.found:
        fixes = {"fixes": [_fix(source, found.fix, artifact)]} if found.fix else {}
        yield {**_result(found, artifact, ids), **fixes}


def _result(found: Diagnostic, artifact: dict[str, str], ids: Sequence[str]) -> dict[str, Any]:
    place = {"artifactLocation": artifact, "region": _region(found.start, found.end)}
    return {
        "ruleId": found.rule,
        "ruleIndex": ids.index(found.rule),
        "level": SARIF_LEVELS[found.level],
        "message": {"text": _with_hint(found)},
        "locations": [{"physicalLocation": place}],
    }


def _fix(source: LintedText, fix: Edit, artifact: dict[str, str]) -> dict[str, Any]:
    deleted = _region(source.position(fix.start), source.position(fix.end))
    replacement = {"deletedRegion": deleted, "insertedContent": {"text": _encodable(fix.text)}}
    return {"artifactChanges": [{"artifactLocation": artifact, "replacements": [replacement]}]}


def _region(start: Position, end: Position) -> dict[str, int]:
    return {
        "startLine": start.line or 1,
        "startColumn": max(1, start.column or 1),
        "endLine": end.line or 1,
        "endColumn": max(1, end.column or 1),
    }


def _uri(file: Path) -> str:
    if str(file) == "-":
        return "stdin"
    return file.as_uri() if file.is_absolute() else quote(file.as_posix())


def _with_hint(found: Diagnostic) -> str:
    message = f"{found.message}. {found.hint}" if found.hint else found.message
    return _encodable(message)


# -- GitHub -----------------------------------------------------------------------------------------------------------


def as_github(linted: Iterable[Linted]) -> str:
    """A workflow command a finding, by which GitHub annotates the lines of a change."""
    return "".join(f"{_command(one.file, diagnostic)}\n" for one in linted for diagnostic in one.found)


def _command(file: Path, found: Diagnostic) -> str:
    places = {"file": str(file), "line": found.start.line, "endLine": found.end.line}
    if found.start.line == found.end.line:
        places |= {"col": found.start.column, "endColumn": found.end.column}
    places["title"] = found.rule
    properties = ",".join(f"{key}={_escaped(str(value), property=True)}" for key, value in places.items())
    return f"::{GITHUB_LEVELS[found.level]} {properties}::{_escaped(_with_hint(found))}"


def _escaped(text: str, *, property: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if property else text
