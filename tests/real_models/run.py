"""Models that people run, asked in every way, by us and by llama.cpp's own chat completions: a table of both.

``make test-models`` runs this file. For each model llama.cpp is asked first and then Antiphon, over the same file, with
the same requests at temperature 0, one process at a time; a line a row as soon as it is known, and at last the table.
The exit code is 1 where a row of ours is worse than llama.cpp's, or a stream says anything else than a whole answer.

PYTHONPATH=tests python tests/real_models/run.py --models smollm2,gemma --rows auto,regex --every 2 --json FILE
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from antiphon.engines.machine import computing_threads
from real_models.rows import ROWS, Row
from real_models.sides import Answer, Json, Machine, Side, library, ours, peer
from real_models.weights import MODELS, Weights, model_file


@dataclass(slots=True)
class Outcome:
    """How many cases of a row were right on one side; ``seconds`` in all, and each case's checks and answers."""

    right: int
    cases: int
    seconds: float
    answers: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.right} of {self.cases}"


@dataclass(slots=True)
class Result:
    """A row of a model; None: that side was not asked."""

    model: str
    row: str
    what: str
    ours: Outcome | None = None
    theirs: Outcome | None = None
    fault: str = ""


class Noted:
    """A side whose answers are noted, so that a wrong one can be looked at."""

    def __init__(self, side: Side) -> None:
        self._side, self.peer = side, side.peer
        self.heard: list[Any] = []

    def chat(self, body: Json, *, streamed: bool = False) -> Answer:
        answer = self._side.chat(body, streamed=streamed)
        self.heard.append([*answer.said, answer.prompt_tokens, answer.cached_tokens])
        return answer

    def complete(self, prompt: str, tokens: int) -> Answer:
        answer = self._side.complete(prompt, tokens)
        self.heard.append(answer.said)
        return answer

    def typed(self, ask: str, type: Any) -> object:
        value = self._side.typed(ask, type)
        self.heard.append(repr(value))
        return value

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return self._side.embed(texts)


def outcome(row: Row, side: Side, every: int) -> Outcome:
    """The row's cases, or each so many'th of them, on one side."""
    right = total = 0
    began, answers = time.perf_counter(), []
    for case in row.cases[::every]:
        noted = Noted(side)
        try:
            found = case(noted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other cases go on
            found = False
            noted.heard.append(f"{type(error).__name__}: {error}")
        checks = found if isinstance(found, list) else [found]
        right, total = right + sum(checks), total + len(checks)
        print("".join(".x"[not check] for check in checks), end="", file=sys.stderr, flush=True)
        answers.append([checks, noted.heard])
    print(file=sys.stderr)
    return Outcome(right, total, time.perf_counter() - began, answers)


def fault(row: Row, mine: Outcome, theirs: Outcome | None) -> str:
    """Why the row is worse than it may be; "" where it is not. Chance has two standard errors where it is drawn."""
    if row.exact and mine.right < mine.cases:
        return "a stream differs"
    if theirs is None:
        return ""
    error = math.sqrt(theirs.right * (theirs.cases - theirs.right) / theirs.cases) if row.sampled else 0.0
    return "worse" if mine.right < theirs.right - 2 * error else ""


class Table:
    """Rows as they become known, to the screen and to a file."""

    def __init__(self, rows: Sequence[Row], machine: Machine, every: int, file: Path | None) -> None:
        self._rows, self._machine, self._every, self._file = rows, machine, every, file
        self.results: dict[tuple[str, str], Result] = {}

    def take(self, file: Path) -> None:
        """What llama.cpp answered in an earlier run of the same cases: it is not asked again."""
        for found in json.loads(file.read_text("utf-8")):
            if found["theirs"]:
                one = Result(found["model"], found["row"], found["what"], theirs=Outcome(**found["theirs"]))
                self.results[one.model, one.row] = one

    def run(self, weights: Weights) -> None:
        path, embeds = model_file(weights), weights.runs == "embed"
        rows = [row for row in self._rows if (row.runs == "embed") == embeds]
        if beside := [row for row in rows if not row.alone and (weights.name, row.name) not in self.results]:
            with peer(path, self._machine, embeds=embeds, as_ours=True) as side:
                self._ask(weights, beside, side)
        for opened, some in self._sides(path, rows, embeds=embeds):
            with opened as own:
                self._ask(weights, some, own)

    def _sides(
        self, path: Path, rows: Sequence[Row], *, embeds: bool
    ) -> Iterator[tuple[AbstractContextManager[Side], list[Row]]]:
        """Ours, one after the other: the server, the library, the server with another format."""
        served = [row for row in rows if row.runs != "library" and row.format is None]
        if served:
            yield ours(path, self._machine, embeds=embeds), served
        if typed := [row for row in rows if row.runs == "library"]:
            yield library(path, self._machine), typed
        for row in rows:
            if row.format is not None:
                yield ours(path, self._machine, options=["--format", row.format]), [row]

    def _ask(self, weights: Weights, rows: Sequence[Row], side: Side) -> None:
        for row in rows:
            found = outcome(row, side, self._every)
            result = self.results.setdefault((weights.name, row.name), Result(weights.name, row.name, row.what))
            if side.peer:
                result.theirs = found
            else:
                result.ours, result.fault = found, fault(row, found, result.theirs)
            self._tell(result, found)

    def _tell(self, result: Result, found: Outcome) -> None:
        theirs = str(result.theirs) if result.theirs else "-"
        both = (
            f"Antiphon {result.ours!s:>9}   llama.cpp {theirs:>9}"
            if result.ours
            else f"{'':18}   llama.cpp {theirs:>9}"
        )
        print(f"{result.model:<10} {result.row:<31} {both}   {found.seconds:6.1f} s  {result.fault}", flush=True)
        if self._file is not None:
            self._file.write_text(json.dumps([asdict(one) for one in self.results.values()], indent=1))


def markdown(models: Sequence[Weights], results: dict[tuple[str, str], Result]) -> Iterator[str]:
    """The table as docs/choosing-a-model.md has it: Antiphon's count and, behind it, llama.cpp's."""
    asked = [weights for weights in models if any(model == weights.name for model, _ in results)]
    yield f"| way | right is | {' | '.join(weights.name for weights in asked)} |"
    yield f"|---|---|{'---|' * len(asked)}"
    for row in ROWS:
        found = [results.get((weights.name, row.name)) for weights in asked]
        if any(found):
            first = next(one for one in found if one)
            yield f"| {first.row} | {first.what} | {' | '.join(map(cell, found))} |"


def cell(result: Result | None) -> str:
    if result is None or result.ours is None:
        return ""
    theirs = f" ({result.theirs.right})" if result.theirs else ""
    return f"{result.ours}{theirs}"


def chosen(names: str | None, known: Sequence[Any]) -> list[Any]:
    """Those of the names, between commas: whole ones, or how some begin; all where there are none."""
    found = []
    for name in names.split(",") if names else [""]:
        exactly = [one for one in known if one.name == name]
        some = exactly or [one for one in known if one.name.startswith(name)]
        if not some:
            raise SystemExit(f"none is named {name!r}. There are: {', '.join(one.name for one in known)}")
        found += [one for one in some if one not in found]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names, or how they begin, between commas")
    parser.add_argument("--rows", help="names, or how they begin, between commas")
    parser.add_argument("--every", type=int, default=1, help="of the cases of a row, each so many'th")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where all answers are written")
    parser.add_argument("--theirs", type=Path, help="the answers of an earlier run, of which llama.cpp's are taken")
    given = parser.parse_args()
    models = chosen(given.models, MODELS)
    table = Table(chosen(given.rows, ROWS), Machine(given.threads or computing_threads()), given.every, given.json)
    if given.theirs is not None:
        table.take(given.theirs)
    for weights in models:
        print(f"{weights.name}: {weights.title}", flush=True)
        table.run(weights)
    print("\n".join(["", *markdown(models, table.results)]))
    for weights in models:
        print(f"{weights.name}: {weights.title}")
    faults = [result for result in table.results.values() if result.fault]
    for result in faults:
        print(f"{result.model}, {result.row}: {result.fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
