"""How replies are read and prompts are written, beside oracles that nobody here wrote: `make replies-nightly`.

    .venv/bin/python tests/nightly/run.py [--only PART] [--page FILE] [--workers N] [--prune]

Each failure must be argued in ``argued.json``. One that is not is an error, and so is one that is argued and fails no
longer; ``--prune`` takes these out of the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from nightly.deepseek import differing
from nightly.page import page
from nightly.published import Row, chosen, tried

Argued = list[dict[str, Any]]
"""Reasons (``why``), each with the failures of a part that it is of."""
ARGUED = Path(__file__).with_name("argued.json")
CONVERSATIONS = 300


@dataclass
class Result:
    """One part of the run: counts by what they are of, and failures by their names."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    by_family: dict[str, Counter[str]] = field(default_factory=dict)


def suite(workers: int) -> Result:
    """The recorded outputs, over the chat API."""
    from nightly.suite import replayed  # its packages are fetched for this run alone

    result = Result(by_family=defaultdict(Counter))
    for case in asyncio.run(replayed()):
        result.by_family[case.family][case.status] += 1
        if case.status == "fail":
            result.failures[case.id] = case.detail
    result.counts = dict(sum(result.by_family.values(), Counter()))
    return result


def published(workers: int) -> Result:
    """The templates of published models."""
    result, counts = Result(), Counter[str]()
    with ProcessPoolExecutor(workers) as pool:
        rows: Iterable[Row] = pool.map(tried, chosen())
        for row in rows:
            counts += Counter(
                templates=1,
                prompts=row.prompts,
                equal=row.equal,
                llama=row.llama,
                replies=row.replies,
                read=row.read,
                dropped=row.dropped,
                silent=row.silent,
            )
            result.failures |= {f"{row.name}: {name}": words for name, words in row.faults}
    result.counts = dict(counts)
    return result


def deepseek(workers: int) -> Result:
    """The prompts of models that have a program instead of a template."""
    names = ("deepseek-v3.2", "deepseek-v4", "deepseek-v4.1")
    failures = {f"{name}: {one}": "another prompt" for name in names for one in differing(name, CONVERSATIONS)}
    return Result(
        {"prompts": CONVERSATIONS * len(names), "equal": CONVERSATIONS * len(names) - len(failures)}, failures
    )


PARTS: Mapping[str, Callable[[int], Result]] = {"suite": suite, "published": published, "deepseek": deepseek}


def unargued(part: str, result: Result, argued: Argued) -> Iterator[str]:
    """The failures without an argument, and the arguments without a failure."""
    known = {row for entry in argued for row in entry.get(part, ())}
    yield from (f"{name}: {words}" for name, words in result.failures.items() if name not in known)
    yield from (f"{name}: is argued, and fails no longer" for name in sorted(known - result.failures.keys()))


def pruned(argued: Argued, results: Mapping[str, Result]) -> Argued:
    """The arguments of what still fails."""
    kept = [
        {"why": entry["why"]}
        | {
            part: rows
            for part, all_rows in entry.items()
            if part != "why"
            and (rows := [row for row in all_rows if part not in results or row in results[part].failures])
        }
        for entry in argued
    ]
    return [entry for entry in kept if len(entry) > 1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--page", type=Path, help="a file for the tables")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prune", action="store_true", help="take out arguments without a failure")
    args = parser.parse_args()
    argued: Argued = json.loads(ARGUED.read_text("utf-8"))
    results = {name: run(args.workers) for name, run in PARTS.items() if args.only in (None, name)}
    if args.prune:
        argued = pruned(argued, results)
        ARGUED.write_text(json.dumps(argued, ensure_ascii=False, indent=1) + "\n", "utf-8")
    wrong = [line for name, result in results.items() for line in unargued(name, result, argued)]
    for name, result in results.items():
        print(name, result.counts, *(f"\n    {family} {dict(counts)}" for family, counts in result.by_family.items()))
    print("\n".join(wrong))
    if args.page:
        args.page.write_text(page(results, argued), "utf-8")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
