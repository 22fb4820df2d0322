"""What tests share lies in the kit."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from house.statements import statements

TESTS = Path(__file__).parents[1]
MAYBE = re.compile(r"from [\w.]*(?:test_|conftest)")
"""What few modules have, and all that are found."""


def test_no_module_imports_from_a_test_or_from_a_folder_s_fixtures() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        for node in statements(ast.parse(text)) if MAYBE.search(text) else ():
            if isinstance(node, ast.ImportFrom):
                module = (node.module or "").rpartition(".")[2]
                if module.startswith("test_") or module == "conftest":
                    found.append(f"{path.relative_to(TESTS).as_posix()}:{node.lineno}: {node.module}")
    assert found == [], "move what is shared to tests/kit"
