"""Docstrings and values as Markdown."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!$).*\n?)*)+", re.MULTILINE)


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return " ".join(text.split()).replace("|", r"\|")


def code(value: object) -> str:
    """A value as TOML and JSON write it, as code."""
    return f"`{json.dumps(value, default=str, ensure_ascii=False)}`"


def docstring(thing: Any) -> str:
    """The docstring as paragraphs of Markdown: code in single backticks, examples in fences. Empty: none."""
    return markdown(inspect.getdoc(thing) or "")


def markdown(text: str) -> str:
    """What a docstring says, as `docstring` has it."""
    text = text.replace("``", "`")
    text = DOCTEST.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)
    return sections(text).strip()


def sections(text: str) -> str:
    """``Args:`` and its like, whose lines are indented, as a list."""
    lines: list[str] = []
    indented = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Yields):", line):
            lines += [f"*{line[:-1]}*", ""]
            indented = True
        elif indented and line.startswith("    ") and not line.startswith("     "):
            lines.append(f"* {line.strip()}")
        elif indented and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            indented = indented and not line
            lines.append(line)
    return "\n".join(lines)
