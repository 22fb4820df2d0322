"""No block of code in a page is one that nothing reads."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from antiphon.formats.replies.reply_file import load_replies
from antiphon.formats.template import TemplateRegistry, load_template_python
from antiphon.tools.mcp import read_mcp_config
from docs.blocks import FILES, PAGES, ROOT, Block, blocks, place

DOCS = ROOT / "docs"
RUN = {
    "python": "test_docs",
    "js": "test_commands",
    "sh": "test_commands, test_terminal",
    "bash": "test_commands, test_terminal",
    "console": "test_commands, test_terminal",
    "toml": "test_commands, and here",
    "json": "here",
    "py": "test_reference: signatures, made from the code",
    "text": "no code: what is printed or drawn, and transcripts",
}
"""What reads the blocks of a language."""
FOR_OTHERS = {
    ("operations.md", "ini"): "tests/package/test_repository.py: the file of deploy/",
    ("operations.md", "nginx"): "tests/package/test_repository.py: the file of deploy/",
    ("scale.md", "sql"): "tests/store/test_postgres.py runs it",
    ("datasets.md", "yaml"): "Axolotl's, which does not install on these processors: `make check-training` says so",
    ("lint.md", "yaml"): "here",
    ("openchatml.md", "lua"): "an editor's: nothing here has Neovim",
}
"""Blocks that other programs read, and what reads them here."""
FENCE = re.compile(r"^( *)```(\w*)\n.*?^\1```$", re.MULTILINE | re.DOTALL)
JSON = [block for page in PAGES for block in blocks(page, "json")]
TOML = [block for page in PAGES for block in blocks(page, "toml") if block not in FILES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_has_a_language_that_a_test_reads(page: Path) -> None:
    found = {(page.name, language) for _, language in FENCE.findall(page.read_text("utf-8"))}
    assert [one for one in found if one[1] not in RUN and one not in FOR_OTHERS] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_code_is_called_text(page: Path) -> None:
    code = re.compile(r"^(import |from \w+ import|def |curl |antiphon |pip |\$ |[{\[])", re.MULTILINE)
    inside = [block for block in blocks(page, "text") if code.search(block.code)]
    assert [place(block) for block in inside] == []


@pytest.mark.parametrize("block", JSON, ids=place)
def test_a_block_of_json_is_json(block: Block) -> None:
    """One value, a value a line, or a member of an object."""
    if "mcpServers" in block.code:
        assert read_mcp_config(block.code, {"WIKI_TOKEN": "t", "BOOKS_SECRET": "s"})
        return
    code = f"{{{block.code}}}" if re.match(r'"\w+": ', block.code) else block.code
    try:
        json.loads(code)
    except json.JSONDecodeError:
        assert [json.loads(line) for line in code.splitlines()]


@pytest.mark.parametrize("block", TOML, ids=place)
def test_a_file_of_another_kind_is_read(block: Block) -> None:
    """Of templates the description of replies; of packages their entry points; of an editor, TOML."""
    if block.page.name == "templates.md":
        load_replies(block.code, "toml")
    assert tomllib.loads(block.code)


def test_the_template_of_the_page_is_loaded_and_writes() -> None:
    (source,) = (block.code for block in blocks(DOCS / "templates.md", "python") if "register_module" in block.code)
    templates, names = load_template_python(source, "riddle.py", templates=TemplateRegistry("mine"))
    assert names == ["riddle"]
    assert templates.get("riddle")().messages2prompt("Who?") == "Riddle: Who?\nAnswer:"


def test_the_hooks_of_the_page_are_those_of_the_repository() -> None:
    (shown,) = blocks(DOCS / "lint.md", "yaml")
    offered = re.findall(r"^- id: (\S+)", (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"- id: (\S+)", shown.code)) <= set(offered)
