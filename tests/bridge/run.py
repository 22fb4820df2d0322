"""Whether each next prompt begins with the prompt before and all that was sampled, template by template.

    .venv/bin/python tests/bridge/run.py [--only WORD] [--turns N] [--templates FOLDER] [--page FILE]

A model of each template says calls whose value it spells in sixteen ways, thoughts and answers, over so many turns; its
client sends back what it got. A next prompt is kept, or the report names what the template means by another one (it
drops the thoughts of a turn that is over). Anything else is a break, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from bridge.talk import MEANT, SPELLINGS, Row, Talk
from bridge.templates import jinja, names, source

HEAD = """# Prefixes that were kept, by template

Does the next prompt begin with the prompt before it and all that was sampled? `make bridge` makes the list anew: a
model of each template says calls whose value it spells in sixteen ways (`False`, `1e3`, `[1,2]`, single quotes,
escapes), texts, two calls at once and, where the template knows them, thoughts; its client sends back what it got, over
{turns} turns. The templates are our own tests', those of the packages `trl` and `unsloth`, and the declared ones.
[Ids and probabilities](../../token-ids.md) says how prompts keep ids, and what each cause of a loss means.

The columns behind `kept` count prompts in which the template means something else, which the report names: it leaves
out the thoughts of turns that are over, ends a reply otherwise, writes an earlier part otherwise once more follows it,
or leaves out a text beside a call. `other` would be a fault.

"""
COLUMNS = ("kept", *MEANT, "other")


def row_of(name: str, *, turns: int, folder: Path | None) -> Row:
    """All spellings of one template, with thoughts and without where it knows any."""
    found = jinja(name, (folder / name).read_text("utf-8")) if folder else source(name)
    row = Row(name)
    for thinks, (kind, spelled) in product((False, True) if found.thinks else (False,), SPELLINGS):
        row += asyncio.run(Talk(found, kind, spelled, thinks=thinks).run(turns))
    return row


def page(rows: Iterable[Row]) -> str:
    """The table, in Markdown."""
    lines = [f"| template | {' | '.join(COLUMNS)} |", f"|---|{'--:|' * len(COLUMNS)}"]
    for row in rows:
        cells = (row.kept, *(row.meant[cause] for cause in MEANT), len(row.breaks))
        lines.append(f"| {row.name} | {' | '.join(str(cell or '') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="templates with this in their names")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--templates", type=Path, help="a folder of Jinja templates instead of our own and packages'")
    parser.add_argument("--page", type=Path, help="a file for the table")
    args = parser.parse_args()
    known = sorted(path.name for path in args.templates.glob("*.jinja")) if args.templates else names()
    chosen = [name for name in known if args.only in name]
    rows: list[Row] = []
    with ProcessPoolExecutor() as pool:
        for row in pool.map(partial(row_of, turns=args.turns, folder=args.templates), chosen):
            rows.append(row)
            print(f"{row.name:48} kept {row.kept:5}  {dict(row.meant) or ''}", flush=True)
            for what in row.breaks[:3]:
                print(f"    {what}")
    total = sum(rows, Row(f"{len(rows)} templates"))
    print(page([total]))
    if args.page:
        args.page.write_text(HEAD.format(turns=args.turns) + page([total, *rows]), "utf-8")
    sys.exit(bool(total.breaks))


if __name__ == "__main__":
    main()
