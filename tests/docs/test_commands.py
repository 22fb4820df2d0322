"""What the pages tell people to type: commands that exist, configurations that are read, requests that are answered."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_group

from antiphon.cli.app import COMMANDS, build_app
from antiphon.config import load_config
from docs.blocks import ADDRESS, FILES, PAGES, REQUESTS, TYPED, Block, blocks, place, wrong
from kit.javascript import NODE

CURL = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'
SCRIPTS = [block for page in PAGES for block in blocks(page, "js") if block.runs]


@pytest.mark.parametrize("block", TYPED, ids=place)
def test_the_commands_of_a_block_exist_with_their_options(block: Block) -> None:
    assert [fault for words in command_lines(block.code) if (fault := fault_of(words))] == []


def command_lines(code: str) -> Iterator[list[str]]:
    """The words behind each ``antiphon`` of a block, as a shell splits them; below a prompt nothing else is typed."""
    lines = code.replace("\\\n", " ").splitlines()
    for line in [line for line in lines if line.startswith("$ ")] or lines:
        for part in re.split(r"\|\|?|&&|;|&(?= |$)|>", line.removeprefix("$ ")):
            found = re.match(r"\s*(?:\w+=\S+ |sudo -u \w+ |env )*antiphon (.*)", part)
            if found:
                yield shlex.split(found[1].partition(" #")[0])


def fault_of(words: list[str]) -> str | None:
    """What is wrong with a command line; None: nothing that its options and commands show."""
    name = next((word for word in words if not word.startswith("-")), None)
    if name is None or name in ("COMMAND", "--help"):
        return None
    if name not in COMMANDS:
        return f"no command {name}"
    node, behind = command(name), words[words.index(name) + 1 :]
    while getattr(node, "commands", None) and behind and behind[0] in node.commands:
        node, behind = node.commands[behind[0]], behind[1:]
    options = {option for param in node.params for option in (*param.opts, *param.secondary_opts)} | {"--help"}
    unknown = [word for word in behind if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options]
    return f"{' '.join(words)}: no option {', '.join(unknown)}" if unknown else None


@cache
def command(name: str) -> Any:
    return get_group(build_app(name)).commands[name]


@pytest.mark.parametrize("block", FILES, ids=place)
def test_a_configuration_of_a_page_is_read(block: Block, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(block.code)
    load_config({"ANTIPHON_HOME": str(tmp_path)})


@pytest.mark.parametrize("block", REQUESTS, ids=place)
def test_a_request_of_a_page_is_answered(block: Block, server: str, tmp_path: Path) -> None:
    code = CURL + block.code.replace(ADDRESS, server)
    done = subprocess.run(["bash", "-ec", code], capture_output=True, text=True, cwd=tmp_path, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout
    assert wrong(block.code, done.stdout) == []


@pytest.mark.parametrize("block", SCRIPTS, ids=place)
def test_a_script_of_a_page_runs(block: Block, server: str, tmp_path: Path) -> None:
    (tmp_path / "page.mjs").write_text(block.code.replace(ADDRESS, server))
    command = [NODE, str(tmp_path / "page.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    assert wrong(block.code, done.stdout) == []
