"""The blocks of code in the pages: their language, their place, and whether they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOT_RUN = "<!-- not run"
"""On the line before a block that needs what a test has not: a model of yours, a server. It is compiled still."""
ADDRESS = "http://127.0.0.1:8080"
"""Where the pages have their server; in a test it is at another port."""


@dataclass(frozen=True, slots=True)
class Block:
    """``line`` is that of its first line of code; ``runs``: it is not marked as one that cannot run in a test."""

    page: Path
    line: int
    language: str
    code: str
    runs: bool

    @property
    def asks_the_server(self) -> bool:
        return ADDRESS in self.code


def blocks(page: Path, *languages: str) -> Iterator[Block]:
    """The blocks of a page in these languages, in their order."""
    text = page.read_text("utf-8")
    for found in re.finditer(r"^([^\n]*)\n```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if found[2] in languages:
            line = text.count("\n", 0, found.start(3)) + 1
            yield Block(page, line, found[2], found[3], not found[1].startswith(NOT_RUN))


ANSWERS = {
    "capital of Japan": "Tokyo",
    '"guided_choice": ["Paris", "Rome"]': "Paris",
    "Where does she live": "Bern",
    "raining in Oslo": "Oslo",
    "tools=[weather]": "called: {",
}
"""What the default model must answer where a page asks so, as a reader would who runs it."""


def wrong(code: str, printed: str) -> list[str]:
    """The answers that the code asks for and that were not printed, where it prints any."""
    return [answer for asked, answer in ANSWERS.items() if asked in code and answer not in printed]


def place(block: Block) -> str:
    """The name of a block in a test's."""
    return f"{block.page.name}:{block.line}"


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
"""Of the model of which the pages have people check the template."""
TYPED = [block for page in PAGES for block in blocks(page, "sh", "console", "bash")]
"""What the pages have people type."""
REQUESTS = [block for block in TYPED if block.runs and block.asks_the_server and block.code.startswith("curl ")]
OTHER_FILES = ("[project", "[language-server")
"""How blocks of TOML begin that are for other programs: a package's own file, an editor's."""
FILES = [
    block
    for page in PAGES
    for block in blocks(page, "toml")
    if block.runs and page.name != "templates.md" and not block.code.startswith(OTHER_FILES)
]
"""Configurations of Antiphon."""


def own_tools() -> str:
    """The file ``mytools.py`` of the page about tools."""
    return next(block.code for block in blocks(ROOT / "docs" / "tools.md", "python") if "def shout" in block.code)
