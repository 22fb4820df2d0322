"""What short commands import: each only what it uses, so that it answers at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.program import environment

CHAT = '{"messages": [{"role": "user", "content": "Hi"}]}'
TRANSCRIPT = '---\nversion: "2.2"\n---\n<|start|>user<|message|>Hi<|end|>\n'
REPLY = "<|channel|>final<|message|>4<|return|>"

FRONT = frozenset("annotated_doc shellingham typer typing_extensions".split())
"""Typer, and what it brings: no pydantic, which its 0.29 has and `pyproject.toml` keeps out."""
HELP = frozenset("annotated_doc attr attrs markdown_it mdurl pygments rich shellingham typer".split())
MESSAGES = FRONT | {"msgspec"}
TEXT = MESSAGES | {"jsonschema_rs", "yaml", "cython_runtime"}
CORE = frozenset("cli conversation errors formats tokens version".split())
CHATS = frozenset("config engines generation grammar plugins store tenancy tools wire".split())
"""What reading a chat request as the server reads it takes."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command with its input; the rooms of ours that it imports, and the packages of others that it may."""

    arguments: tuple[str, ...]
    text: str
    rooms: frozenset[str]
    packages: frozenset[str] = TEXT


RUNS = (
    Run(("--version",), "", frozenset({"cli", "version"}), frozenset()),
    Run(("--help",), "", frozenset({"cli", "errors", "version"}), HELP),
    Run(("render", "-", "--to", "harmony"), '{"messages": [{"role": "user", "text": "Hi"}]}', CORE, MESSAGES),
    Run(("render", "-", "--to", "harmony"), CHAT, CORE | CHATS, TEXT | {"docstring_parser", "platformdirs"}),
    Run(("parse", "-", "--from", "harmony"), REPLY, CORE, MESSAGES),
    Run(("convert", "-", "--to", "harmony"), TRANSCRIPT, CORE | {"conversion", "wire"}),
    Run(("validate", "-"), TRANSCRIPT, CORE),
)

PROGRAM = """
import sys
before = set(sys.modules)
from antiphon.cli import main
try:
    main()
finally:
    print(*(set(sys.modules) - before), file=sys.stderr)
"""


@pytest.mark.parametrize("run", RUNS, ids=lambda run: " ".join(run.arguments) + f" {len(run.rooms)} rooms")
def test_a_command_imports_what_it_uses(run: Run, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *run.arguments],
        input=run.text, capture_output=True, text=True, timeout=120, check=True, env=environment(tmp_path),
    )  # fmt: skip
    names = [name.split(".") for name in done.stderr.split()]
    assert {name[1] for name in names if name[0] == "antiphon" and name[1:]} == run.rooms
    others = {name[0] for name in names} - sys.stdlib_module_names - {"antiphon"}
    assert {name for name in others if not name.startswith("_")} <= run.packages
