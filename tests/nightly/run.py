"""How replies are read and prompts are written, beside oracles that nobody here wrote: `make replies-nightly`.

    .venv/bin/python tests/nightly/run.py [--only PART] [--page FILE] [--workers N] [--verbose]

Each failure must be argued in ``argued.json``; one that is not, and one that is argued and fails no longer, is an error.
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

sys.path.insert(0, str(Path(__file__).parents[1]))

from nightly.deepseek import differing  # noqa: E402
from nightly.page import page  # noqa: E402
from nightly.published import Row, chosen, tried  # noqa: E402
from nightly.suite import replayed  # noqa: E402

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
    return Result({"prompts": CONVERSATIONS * len(names), "equal": CONVERSATIONS * len(names) - len(failures)}, failures)


PARTS: Mapping[str, Callable[[int], Result]] = {"suite": suite, "published": published, "deepseek": deepseek}


def unargued(part: str, result: Result) -> Iterator[str]:
    """The failures without an argument, and the arguments without a failure."""
    argued = {row: entry["why"] for entry in json.loads(ARGUED.read_text("utf-8")) for row in entry.get(part, ())}
    yield from (f"{name}: {words}" for name, words in result.failures.items() if name not in argued)
    yield from (f"{name}: is argued, and fails no longer" for name in argued if name not in result.failures)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--page", type=Path, help="a file for the tables")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    results = {name: run(args.workers) for name, run in PARTS.items() if args.only in (None, name)}
    wrong = [line for name, result in results.items() for line in unargued(name, result)]
    for name, result in results.items():
        print(name, result.counts, *(f"\n    {family} {dict(counts)}" for family, counts in result.by_family.items()))
    print("\n".join(wrong))
    if args.page:
        args.page.write_text(page(results, json.loads(ARGUED.read_text("utf-8"))), "utf-8")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
