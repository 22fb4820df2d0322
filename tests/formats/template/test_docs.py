"""What the page and the example show is so."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_pages_code_runs() -> None:
    page = (ROOT / "docs" / "templates.md").read_text()
    blocks = re.findall(r"(?<!-->\n)```python\n(.*?)```", page, re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/templates.md", "exec"), {})


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "chat_templates.py"))
    assert "'user\\nSay <|im_end|> please'" in capsys.readouterr().out
