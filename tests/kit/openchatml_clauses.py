"""The table clause → test in docs/openchatml.md. Run as a script it writes the table anew."""

from __future__ import annotations

import re
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
ELSEWHERE = {"OCM-89": "in `tests/tools`", "OCM-93": "in `tests/tools`"}
"""What the tools room does."""
PAGE = TESTS.parent / "docs" / "openchatml.md"
sys.path.insert(0, str(TESTS))

from spec.manifest import pinned, requirements  # noqa: E402  (as a script, the tests' folder is no import path yet)

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


def page() -> str:
    """The page with the table as it should be."""
    return PAGE.read_text("utf-8").partition(HEADING)[0] + table()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
