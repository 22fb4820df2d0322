"""The parts of pages that are printed from the code: the built site has them, and no file of the repository.

A page has two marks where such a part belongs, ``<!-- NAME: printed -->`` and ``<!-- end of NAME -->``. What stands
between them tells a reader of the file where the part can be read, and the site has the part instead.

PYTHONPATH=src python tests/docs/printed.py NAME     # prints one
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from docs import drawn, errors, lint_rules, parameters
from kit import openchatml_clauses, openchatml_machine

PARTS: Mapping[str, Callable[[], str]] = {
    "errors": errors.tables,
    "parameters": parameters.tables,
    "names": parameters.other_names,
    "rules": lint_rules.rules,
    "families": lambda: "\n".join(drawn.families()),
    "states": lambda: "\n".join(drawn.states()),
    "images": lambda: "\n".join(drawn.images()),
    "reader-states": openchatml_machine.tables,
    "clauses": openchatml_clauses.table,
}
MARKED = re.compile(r"<!-- ([\w-]+): printed -->\n(.*?)<!-- end of \1 -->\n", re.DOTALL)


def completed(page: str) -> str:
    """The text of a page with its printed parts. Raises `KeyError` for one that there is not."""
    return MARKED.sub(lambda found: PARTS[found[1]]().strip("\n") + "\n", page)


if __name__ == "__main__":
    print(PARTS[sys.argv[1]](), end="")
