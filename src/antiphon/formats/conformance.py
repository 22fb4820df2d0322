"""The compliance suites' runner: checks any implementation that takes a transcript, or a request, and gives JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

Implementation = Callable[[bytes, Sequence[str]], object]
"""(transcript, flags) → the report that docs/openchatml.md describes, or (request, no flags) → its answer."""

DELTA, FLUSH = "response.delta", "response.delta.flush"


class Level(IntEnum):
    """The source of a demand: the specification, our choices where it is silent, or our diagnostics."""

    SPECIFICATION = 1
    CHOICES = 2
    DIAGNOSTICS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One case of a suite: its input, and what each level demands of the report about it.

    ``input`` is a transcript, or a request as JSON (docs/internals/conformance.md). A demand names keys of the report;
    what it does not name is not compared. ``decisions`` are the choices of docs/internals/decisions.md that a demand of
    the second level follows. ``streamed``: the demands hold wherever the texts of the request's ``reply`` are cut.
    """

    id: str
    title: str
    clauses: tuple[str, ...]
    input: bytes
    demands: Mapping[Level, Mapping[str, Any]]
    flags: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    topic: str = ""
    streamed: bool = False

    def inputs(self) -> Iterator[tuple[str, bytes]]:
        """(where it is cut, input): the input as it is; a streamed one also at each place and at all of them."""
        yield "", self.input
        if not self.streamed:
            return
        request = json.loads(self.input)
        reply: list[Any] = request["reply"]
        for i, piece in enumerate(reply):
            for at in range(1, len(piece)) if isinstance(piece, str) else ():
                cut = [*reply[:i], piece[:at], piece[at:], *reply[i + 1 :]]
                yield f"reply[{i}] cut at {at}: ", _request({**request, "reply": cut})
        apart = [part for piece in reply for part in (piece if isinstance(piece, str) else [piece])]
        yield "cut everywhere: ", _request({**request, "reply": apart})


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


def read_cases(
    values: Iterable[Mapping[str, Any]], topic: str = "", shared: Mapping[str, Mapping[str, Any]] | None = None
) -> Iterator[Case]:
    """The cases of a data file (a JSON list): docs/openchatml.md and docs/internals/conformance.md have its keys.

    ``shared`` are parts of requests by the names that a case's ``with`` lists. Raises `KeyError`, `ValueError`.
    """
    for value in values:
        demands = {level: value[level.name.lower()] for level in Level if level.name.lower() in value}
        if not demands:
            raise ValueError(f"{value['id']} demands nothing")
        yield Case(
            id=value["id"],
            title=value["title"],
            clauses=tuple(value["clauses"]),
            input=_input(value, shared or {}),
            demands=demands,
            flags=tuple(value.get("flags", ())),
            decisions=tuple(value.get("decisions", ())),
            topic=topic,
            streamed=value.get("request", {}).get("op") == "stream",
        )


def _input(value: Mapping[str, Any], shared: Mapping[str, Mapping[str, Any]]) -> bytes:
    if "request" in value:
        members = [member for name in value.get("with", ()) for member in shared[name].items()]
        return _request({**dict(members), **value["request"]})
    text = value.get("transcript")
    return base64.b64decode(value["base64"]) if text is None else str(text).encode()


def _request(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, ensure_ascii=False).encode()


def run_conformance(cases: Iterable[Case], implementation: Implementation) -> Iterator[Outcome]:
    """Each case's outcomes as they are known; an implementation that raises fails that case and no other."""
    for case in cases:
        problems: dict[Level, str | None] = dict.fromkeys(case.demands)
        for where, given in case.inputs():
            report: object = None
            raised: str | None = None
            try:
                report = implementation(given, case.flags)
            except Exception as error:  # noqa: BLE001 - code from outside: whatever it raises is its outcome
                raised = f"raised {type(error).__name__}: {error}"
            for level, demand in case.demands.items():
                if problems[level] is None and (problem := raised or difference(demand, report)):
                    problems[level] = where + problem
            if all(problems.values()):
                break  # no other cut changes that
        yield from (Outcome(case, level, problem) for level, problem in problems.items())


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
            case "keeps":
                problem = _lost(right, report)
            case _:
                problem = _differs(key, right, report.get(key))
        if problem:
            return problem
    return None


def _lost(words: Iterable[str], report: object) -> str | None:
    """Names the first of the words that is in no text of the report."""
    texts = list(_texts(report))
    return next((f"{word!r} is in no text of the answer" for word in words if not any(word in t for t in texts)), None)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


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
