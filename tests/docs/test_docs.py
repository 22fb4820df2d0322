"""The code in the pages runs, and so do the examples."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path

import ollama
import openai
import pytest

from docs.blocks import ADDRESS, PAGES, ROOT, blocks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A page whose code asks the server at its usual address finds one there; its ``client`` is closed in the end."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    found = list(blocks(page, "python"))
    address = request.getfixturevalue("server") if any(one.asks_the_server and one.runs for one in found) else ADDRESS
    for block in found:
        source = "\n" * (block.line - 1) + block.code.replace(ADDRESS, address)
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not block.runs:
            continue
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, names))
        else:
            exec(code, names)
    if isinstance(client := names.get("client"), openai.OpenAI | ollama.Client):
        client.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([\w./-]+?)(?:#[\w-]+)?\)", re.sub(r"`[^`\n]*`", "", page.read_text("utf-8")))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
