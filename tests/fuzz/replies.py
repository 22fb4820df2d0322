"""Random replies with every damage, in every format, over every wire: how many hold the law of `kit.damaged_replies`.

    python tests/fuzz/replies.py [DRAWS] [--seed N] [--formats 'a;b'] [--damages 'a;b'] [--shown N]

Prints the draws and the faults of each format, wire and damage, and the first faults whole. Exits with 1 where the law
does not hold of one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.damaged_replies import ALL, FORMATS, WIRES, Draw, faults, reply_of


async def run(draws: Iterable[Draw], shown: int) -> int:
    """Prints the table, and returns how many draws have a fault."""
    tried, faulty = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    count = 0
    for draw in draws:
        found = await faults(draw)
        for cell in (("format", draw.format), ("wire", draw.wire), ("damage", draw.damage)):
            tried[cell] += 1
            faulty[cell] += bool(found)
        count += bool(found)
        if found and count <= shown:
            print(draw, reply_of(draw), *found, sep="\n    ", flush=True)
    for kind, rows in itertools.groupby(sorted(tried), key=lambda cell: cell[0]):
        print(f"{kind}:", ", ".join(f"{name} {faulty[kind, name]} of {tried[kind, name]}" for _, name in rows))
    print(f"{count} of {sum(tried.values()) // 3} draws have a fault")
    return count


def drawn(count: int, seed: int, formats: Iterable[str], damages: Iterable[str]) -> Iterable[Draw]:
    """Each format, wire and damage in turn."""
    cells = itertools.cycle(itertools.product(damages, WIRES, formats))
    for number, (damage, wire, format) in enumerate(itertools.islice(cells, count)):
        yield Draw(format, wire, damage, seed + number)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("draws", nargs="?", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--formats", default=";".join(FORMATS))
    options.add_argument("--damages", default=";".join(ALL))
    options.add_argument("--shown", type=int, default=20)
    given = options.parse_args()
    sys.exit(
        bool(
            asyncio.run(
                run(drawn(given.draws, given.seed, given.formats.split(";"), given.damages.split(";")), given.shown)
            )
        )
    )


if __name__ == "__main__":
    main()
