"""The compliance suite's runner: checks any implementation that takes a transcript and gives JSON (§17)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Implementation = Callable[[bytes, Sequence[str]], object]
"""(transcript, flags) → the report that docs/openchatml.md describes; `check` is ours."""

DELTA, FLUSH = "response.delta", "response.delta.flush"


class Level(IntEnum):
    """The source of a demand: the specification, our choices where it is silent, or our diagnostics."""

    SPECIFICATION = 1
    CHOICES = 2
    DIAGNOSTICS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the suite: a transcript, and what each level demands of a report about it.

    A demand names keys of the report; what it does not name is not compared. ``decisions`` are the choices of
    docs/decisions.md that a demand of the second level follows.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    transcript: bytes
    demands: Mapping[Level, Mapping[str, Any]]
    flags: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``problem`` is None when the report has what the case demands at this level."""

    case: Case
    level: Level
    problem: str | None = None

    @property
    def passed(self) -> bool:
        return self.problem is None


@dataclass(slots=True)
class Tally:
    """How many demands passed, and how many there are."""

    passed: int = 0
    total: int = 0
    failed: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.total += 1
        self.passed += outcome.passed
        if not outcome.passed:
            self.failed.append(outcome)


def read_cases(values: Iterable[Mapping[str, Any]], topic: str = "") -> Iterator[Case]:
    """The cases of a data file (a JSON list): see docs/openchatml.md for its keys. Raises `KeyError`, `ValueError`."""
    for value in values:
        text = value.get("transcript")
        demands = {level: value[level.name.lower()] for level in Level if level.name.lower() in value}
        if not demands:
            raise ValueError(f"{value['id']} demands nothing")
        yield Case(
            id=value["id"],
            title=value["title"],
            clauses=tuple(value["clauses"]),
            transcript=base64.b64decode(value["base64"]) if text is None else text.encode(),
            demands=demands,
            flags=tuple(value.get("flags", ())),
            decisions=tuple(value.get("decisions", ())),
            topic=topic,
        )


def run_conformance(cases: Iterable[Case], implementation: Implementation) -> Iterator[Outcome]:
    """Each case's outcomes as they are known; an implementation that raises fails that case and no other."""
    for case in cases:
        report: object = None
        problem: str | None = None
        try:
            report = implementation(case.transcript, case.flags)
        except Exception as error:  # noqa: BLE001 - code from outside: whatever it raises is its outcome
            problem = f"raised {type(error).__name__}: {error}"
        for level, demand in case.demands.items():
            yield Outcome(case, level, problem or difference(demand, report))


def tallies(outcomes: Iterable[Outcome]) -> dict[str, dict[Level, Tally]]:
    """By topic and level."""
    table: dict[str, dict[Level, Tally]] = {}
    for outcome in outcomes:
        row = table.setdefault(outcome.case.topic, {level: Tally() for level in Level})
        row[outcome.level].add(outcome)
    return table


def difference(demand: Mapping[str, Any], report: object) -> str | None:
    """The first way in which a report lacks what is demanded; None when it has it all."""
    if not isinstance(report, Mapping):
        return "gave no JSON object"
    for key, right in demand.items():
        match key:
            case "error":
                errors = report.get("errors")
                problem = _differs("the first error", right, errors[0] if isinstance(errors, list) and errors else None)
            case "events":
                problem = _differs(key, right, folded(report.get("events"), flushes=FLUSH in str(right)))
            case _:
                problem = _differs(key, right, report.get(key))
        if problem:
            return problem
    return None


def folded(events: object, *, flushes: bool) -> object:
    """Events without what may be cut in many ways: adjacent deltas are one, boundaries are left out unless demanded."""
    if not isinstance(events, list) or not all(isinstance(event, Mapping) for event in events):
        return events
    merged: list[dict[str, Any]] = []
    for event in events:
        if event.get("type") == FLUSH and not flushes:
            continue
        last = merged[-1] if merged else {}
        if event.get("type") == DELTA == last.get("type") and event.get("message_id") == last.get("message_id"):
            last["delta"] = f"{last.get('delta')}{event.get('delta')}"
        else:
            merged.append(dict(event))
    return merged


def _differs(where: str, right: Any, given: Any) -> str | None:
    """Objects may have further keys; a key that must be null may be absent."""
    if isinstance(right, Mapping) and isinstance(given, Mapping):
        parts = [(f"{where}.{key}", value, given.get(key)) for key, value in right.items()]
    elif isinstance(right, list) and isinstance(given, list):
        if len(right) != len(given):
            return f"{where}: {len(given)} of them ({_short(given)}); right is {len(right)} ({_short(right)})"
        parts = [(f"{where}[{i}]", *pair) for i, pair in enumerate(zip(right, given, strict=True))]
    elif right == given and isinstance(right, bool) == isinstance(given, bool):
        return None
    else:
        return f"{where} is {_short(given)}; right is {_short(right)}"
    return next((problem for part in parts if (problem := _differs(*part))), None)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
