"""The files of a conformance suite: cases as plain JSON, a line each, and an index of them.

    PYTHONPATH=tests python tests/spec/vectors.py

writes the index of the suite of OpenChatML, whose cases are written by hand, anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spec.manifest import requirements

HERE = Path(__file__).parent
INDEX, SHARED = "index.json", "shared.json"
LEVELS = ("specification", "choices", "diagnostics")
Json = dict[str, Any]


@dataclass
class Cases:
    """The cases of a suite by topic, which is the ``op`` of their requests; ids are numbered within a kind."""

    topics: dict[str, list[Json]] = field(default_factory=dict)

    def add(
        self,
        op: str,
        kind: str,
        title: str,
        clauses: Iterable[str],
        request: Json,
        *,
        parts: Sequence[str] = (),
        decisions: Sequence[str] = (),
        **demands: Json,
    ) -> None:
        """Adds a case; ``demands`` by the names of levels."""
        cases = self.topics.setdefault(op, [])
        prefix = f"{op}-{slug(kind)}-"
        number = 1 + sum(case["id"].startswith(prefix) and case["id"][len(prefix) :].isdigit() for case in cases)
        case = {"id": f"{prefix}{number}", "title": title, "clauses": sorted(set(clauses))}
        optional = {"with": list(parts), "decisions": list(decisions)}
        case |= {name: value for name, value in optional.items() if value}
        cases.append({**case, "request": {"op": op, **request}, **demands})


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def pieces_of(text: str, controls: Collection[str]) -> list[Any]:
    """The text as pieces, each spelling of a control as that control."""
    if not controls:
        return [text] if text else []
    longest = "|".join(map(re.escape, sorted(controls, key=len, reverse=True)))
    parts = re.split(f"({longest})", text)
    return [{"control": part} if i % 2 else part for i, part in enumerate(parts) if part]


def text_of(pieces: Iterable[Any]) -> str:
    return "".join(piece if isinstance(piece, str) else piece["control"] for piece in pieces)


def index(name: str, title: str, topics: Mapping[str, Sequence[Json]], clauses: Mapping[str, str]) -> Json:
    """What a suite is: its name, version, licence, protocol, levels, and how many cases and demands it has."""
    used = {clause for cases in topics.values() for case in cases for clause in case["clauses"]}
    return {
        "name": name,
        "title": title,
        "version": "1.0",
        "license": "Apache-2.0",
        "protocol": 1,
        "levels": list(LEVELS),
        "cases": sum(map(len, topics.values())),
        "topics": {topic: counts(cases) for topic, cases in sorted(topics.items())},
        "clauses": {clause: sentence for clause, sentence in clauses.items() if clause in used},
    }


def counts(cases: Sequence[Json]) -> Json:
    """How many cases, and how many demands of each level."""
    levels = {level: sum(level in case for case in cases) for level in LEVELS}
    return {"cases": len(cases), **{level: number for level, number in levels.items() if number}}


def write(
    name: str, title: str, topics: Mapping[str, Sequence[Json]], clauses: Mapping[str, str], shared: Json | None = None
) -> None:
    """Writes a suite's folder anew: a file a topic, what requests share, and the index."""
    folder = HERE / name
    for topic, cases in topics.items():
        lines = ",\n".join(map(compact, cases))
        (folder / f"{topic}.json").write_text(f"[\n{lines}\n]\n", "utf-8")
    if shared is not None:
        lines = ",\n".join(f"{compact(key)}:{compact(part)}" for key, part in shared.items())
        (folder / SHARED).write_text(f"{{\n{lines}\n}}\n", "utf-8")
    write_index(folder, index(name, title, topics, clauses))


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write_index(folder: Path, value: Json) -> None:
    (folder / INDEX).write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def read_topics(folder: Path) -> dict[str, list[Json]]:
    """The cases of a suite's files by their topics."""
    files = [path for path in sorted(folder.glob("*.json")) if path.name not in (INDEX, SHARED)]
    return {path.stem: json.loads(path.read_text("utf-8")) for path in files}


def main() -> None:
    clauses = {clause: sentence for clause, sentence in requirements().items() if clause.startswith("OCM-")}
    folder = HERE / "openchatml"
    write_index(folder, index("openchatml", "OpenChatML 2.2", read_topics(folder), clauses))


if __name__ == "__main__":
    main()
