"""The findings of the linter for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.formats.openchatml.lint import Diagnostic, Severity

from .excerpt import excerpt


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
