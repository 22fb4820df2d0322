"""Random frames of Harmony over the real vocabulary: how many hold the law of `kit.harmony_frames`.

    python tests/fuzz/harmony_frames.py [DRAWS] [--seed N] [--shown N]

Every draw goes through reader and renderer, and over one wire and back. Prints how many were drawn and have faults,
and the first ones whole. Exits with 1 where the law does not hold of one.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.harmony_frames import EVERY, Frames, misread, mistold, spelled


async def run(draws: int, seed: int, shown: int) -> int:
    """Prints the table, and returns how many draws have a fault."""
    tried, faulty, frames = Counter[str](), Counter[str](), 0
    for number, wire in zip(range(seed, seed + draws), itertools.cycle(EVERY), strict=False):
        frames += Frames(number).count
        for place, found in (("read and written", misread(number)), (wire, await mistold(number, wire))):
            tried[place] += 1
            faulty[place] += bool(found)
            if found and faulty.total() <= shown:
                print(number, place, repr(spelled(Frames(number).ids)), *found, sep="\n    ", flush=True)
    print(
        f"{frames} frames of Harmony:",
        ", ".join(f"{place} {faulty[place]} of {count}" for place, count in tried.items()),
    )
    return faulty.total()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("draws", nargs="?", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--shown", type=int, default=20)
    given = options.parse_args()
    sys.exit(bool(asyncio.run(run(given.draws, given.seed, given.shown))))


if __name__ == "__main__":
    main()
