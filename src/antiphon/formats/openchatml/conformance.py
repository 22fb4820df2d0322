"""The compliance suite's runner: checks any implementation that takes a transcript and gives JSON (§17)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.conversation import Message

from .document import DocumentHeader
from .finding import Finding
from .projection import message_to_json
from .reader import Reader, iter_read

Implementation = Callable[[bytes, Sequence[str]], object]
"""(transcript, flags) → the report that `check` describes. Flags: ``--fragment`` (a header may lack), ``--harmony``."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the suite: a transcript, and what a right implementation reports about it.

    ``errors`` are (code, line, column) in the order of the text. ``messages`` None: not compared.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    transcript: bytes
    flags: tuple[str, ...] = ()
    errors: tuple[tuple[str, int, int], ...] = ()
    messages: tuple[Mapping[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """``problem`` is None when the implementation did what the case says."""

    case: Case
    problem: str | None = None

    @property
    def passed(self) -> bool:
        return self.problem is None


def check(transcript: bytes, flags: Sequence[str] = ()) -> dict[str, Any]:
    """This reader's report: ``{"valid", "errors", "warnings", "version", "messages"}``; messages: the best reading."""
    reader = Reader(strict=False, fragment="--fragment" in flags, harmony="--harmony" in flags)
    messages: list[dict[str, Any]] = []
    findings: list[Finding] = []
    for found in iter_read(transcript, reader):
        if isinstance(found, Message):
            messages.append(message_to_json(found))
        else:
            findings.append(found)
    errors = [finding_to_json(finding) for finding in findings if not finding.warning]
    return {
        "valid": not errors,
        "errors": errors,
        "warnings": [finding_to_json(finding) for finding in findings if finding.warning],
        "version": (reader.header or DocumentHeader()).version,
        "messages": messages,
    }


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """``{"code", "line", "column", "message", "hint"}``."""
    return {
        "code": finding.code,
        "line": finding.position.line,
        "column": finding.position.column,
        "message": finding.message,
        "hint": finding.hint,
    }


def read_cases(values: Iterable[Mapping[str, Any]]) -> Iterator[Case]:
    """The cases of a data file (a JSON list): see docs/openchatml.md for its keys."""
    for value in values:
        text = value.get("transcript")
        yield Case(
            id=value["id"],
            title=value["title"],
            clauses=tuple(value["clauses"]),
            transcript=base64.b64decode(value["base64"]) if text is None else text.encode(),
            flags=tuple(value.get("flags", ())),
            errors=tuple((e["code"], e["line"], e["column"]) for e in value.get("errors", ())),
            messages=tuple(value["messages"]) if "messages" in value else None,
        )


def run_conformance(cases: Iterable[Case], implementation: Implementation) -> Iterator[Outcome]:
    """Each case's outcome as it is known; an implementation that raises fails that case and no other."""
    for case in cases:
        try:
            report = implementation(case.transcript, case.flags)
        except Exception as error:  # noqa: BLE001 - code from outside: whatever it raises is its outcome
            yield Outcome(case, f"raised {type(error).__name__}: {error}")
            continue
        yield Outcome(case, _difference(case, report))


def _difference(case: Case, report: object) -> str | None:
    if not isinstance(report, Mapping):
        return "gave no JSON object"
    errors = tuple((e.get("code"), e.get("line"), e.get("column")) for e in report.get("errors", ()))
    if bool(report.get("valid")) != (not case.errors):
        return f"says valid={report.get('valid')}, errors {list(errors)}; right is {list(case.errors) or 'valid'}"
    if errors != case.errors:
        return f"reports {list(errors)}; right is {list(case.errors)}"
    messages = report.get("messages")
    if case.messages is None or messages == list(case.messages):
        return None
    if not isinstance(messages, list) or len(messages) != len(case.messages):
        return f"reads {len(messages or ())} messages; right is {len(case.messages)}"
    for i, (read, right) in enumerate(zip(messages, case.messages, strict=True)):
        if read != right:
            return f"reads message {i} as {read}; right is {dict(right)}"
    return None
