"""The code in the pages runs, and so do the examples."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOT_RUN = "<!-- not run"
"""On the line before a block that needs what a test has not: a model of yours, a server. It is compiled still."""


def blocks(page: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, code, to be run) of each Python block."""
    text = page.read_text("utf-8")
    for found in re.finditer(r"^([^\n]*)\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, found.start(2)) + 1
        yield line, found[2], not found[1].startswith(NOT_RUN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    for line, source, to_run in blocks(page):
        code = compile(
            "\n" * (line - 1) + source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
        )
        if not to_run:
            continue
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([\w./-]+?)(?:#[\w-]+)?\)", page.read_text("utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
