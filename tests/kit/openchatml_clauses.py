"""The table clause → test of docs/internals/openchatml.md."""

from __future__ import annotations

import re
from pathlib import Path

from spec.manifest import pinned, requirements

TESTS = Path(__file__).parents[1]
ELSEWHERE = {"OCM-89": "in `tests/tools`", "OCM-93": "in `tests/tools`"}
"""What the tools room does."""
HEADING = "| clause | what it requires | tests |\n|---|---|---|\n"


def table() -> str:
    tests = pinned(TESTS / "formats" / "openchatml")
    rows = []
    for clause, sentence in requirements().items():
        if not clause.startswith("OCM-"):
            continue
        names = sorted(
            {test.partition("::")[2].removeprefix("test_").replace("_", " ") for test in tests.get(clause, [])}
        )
        more = f"; and {len(names) - 2} more" if len(names) > 2 else ""
        pinned_by = f"{'; '.join(names[:2]) or ELSEWHERE.get(clause, '')}{more}"
        rows.append(f"| {clause} | {_cell(sentence)} | {pinned_by} |\n")
    return HEADING + "".join(rows)


def _cell(sentence: str) -> str:
    """The sentence as a cell of the table: controls as code, which Markdown would take for tags."""
    return re.sub(r"<\|\w+\|>\w*", r"`\g<0>`", sentence).replace("|", "\\|")
