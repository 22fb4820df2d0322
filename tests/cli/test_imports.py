"""What commands import: each only what it uses, so that it answers at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request

import pytest

from kit.program import CONFIG, answer_to, environment, started
from kit.waiting import PATIENCE

CHAT = '{"messages": [{"role": "user", "content": "Hi"}]}'
TRANSCRIPT = '---\nversion: "2.2"\n---\n<|start|>user<|message|>Hi<|end|>\n'
REPLY = "<|channel|>final<|message|>4<|return|>"

FRONT = frozenset("annotated_doc shellingham typer typing_extensions".split())
"""Typer, and what it brings: no pydantic, which its 0.29 has and `pyproject.toml` keeps out."""
HELP = frozenset("annotated_doc attr attrs markdown_it mdurl pygments rich shellingham typer".split())
MESSAGES = FRONT | {"msgspec"}
TEXT = MESSAGES | {"jsonschema_rs", "yaml", "cython_runtime"}
CORE = frozenset("cli conversation errors formats tokens version".split())
CHATS = frozenset("api config generation grammar tenancy tools wire".split())
"""What reading a chat request as the server reads it takes."""
NAMED = frozenset("catalog config engines plugins store".split())
"""What a format that is named takes, by way of the configuration's tables."""
CONFIGURED = MESSAGES | {"platformdirs"}
UNNAMED = frozenset(
    "asyncio jinja2 sqlite3 ssl antiphon.engines.llama_cpp.model_file antiphon.formats.template.jinja"
    " antiphon.store.sqlite".split()
)
"""What runs models, stores answers, or reads a model's own template."""


@dataclass(frozen=True, slots=True)
class Run:
    """A command with its input; the rooms of ours that it imports, and the packages of others that it may."""

    arguments: tuple[str, ...]
    text: str
    rooms: frozenset[str]
    packages: frozenset[str] = TEXT
    without: frozenset[str] = frozenset()
    """Modules, which stand for those below them, that it may not import."""


RUNS = (
    Run(("--version",), "", frozenset({"cli", "version"}), frozenset()),
    Run(("--help",), "", frozenset({"cli", "errors", "version"}), HELP),
    Run(("render", "-", "--to", "harmony"), '{"messages": [{"role": "user", "text": "Hi"}]}', CORE, MESSAGES),
    Run(("render", "-", "--to", "harmony"), CHAT, CORE | CHATS, TEXT | {"docstring_parser", "platformdirs"}),
    Run(("render", "-", "--to", "chatml"), '[{"role": "user", "text": "Hi"}]', CORE | NAMED, CONFIGURED, UNNAMED),
    Run(("parse", "-", "--from", "harmony"), REPLY, CORE, MESSAGES),
    Run(("convert", "-", "--to", "harmony"), TRANSCRIPT, CORE | {"api", "conversion"}),
    Run(("validate", "-"), TRANSCRIPT, CORE),
)

SERVED = frozenset(
    "api catalog cli config conversation engines errors formats generation grammar http"
    " isolation library observe playground plugins store tenancy tokens tools version wire".split()
)
SERVES = (TEXT - {"yaml", "jsonschema_rs"}) | frozenset(
    "anyio click h11 httptools idna jinja2 markupsafe platformdirs prometheus_client python_multipart sniffio starlette"
    " tokenizers uvicorn uvloop websockets".split()
)
"""What answers HTTP and chats: no browser's client, no YAML, no MCP, no cryptography, nothing of engines elsewhere."""
UNUSED = frozenset(
    "antiphon.api.batches.service antiphon.api.completions antiphon.api.embeddings antiphon.api.interactive"
    " antiphon.api.messages.routes antiphon.api.messages.read antiphon.api.messages.schema antiphon.api.native"
    " antiphon.api.ollama.read antiphon.api.ollama.route antiphon.api.ollama.schema antiphon.api.openapi.document"
    " antiphon.api.rerank antiphon.api.responses antiphon.conversion antiphon.formats.openchatml"
    " antiphon.formats.template.check antiphon.grammar.source antiphon.store.postgres antiphon.tools.mcp.tool_set"
    " antiphon.tools.python".split()
)
"""What a server of another format, of tools or of another wire imports when it is requested."""

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
    check_imports(done.stderr, run.rooms, run.packages, run.without)


def test_serve_imports_what_its_models_and_their_chats_use(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG)
    program = (sys.executable, "-c", PROGRAM)
    with started(tmp_path, "--json", program=program, stderr=subprocess.PIPE) as (server, lines):
        printed = ""
        while "}" not in printed:
            printed += next(lines)
        url = f"{json.loads(printed)['url']}/v1/chat/completions"
        with answer_to(Request(url, CHAT.encode(), {"content-type": "application/json"})) as answer:
            assert "Paris." in answer.read().decode()
        server.terminate()
        _, printed = server.communicate(timeout=PATIENCE)
    check_imports(printed.splitlines()[-1], SERVED, SERVES, UNUSED)


def check_imports(printed: str, rooms: Set[str], packages: Set[str], without: Set[str]) -> None:
    """``printed``: the modules that were imported."""
    names = [name.split(".") for name in printed.split()]
    own = {name[1] for name in names if name[0] == "antiphon" and name[1:]}
    assert own - {"structs", "writing"} == rooms | {"exports"}, (
        "these are two small modules, of what decodes and what writes files"
    )
    others = {name[0] for name in names} - sys.stdlib_module_names - {"antiphon"}
    assert {name for name in others if not name.startswith("_")} <= packages
    above = {".".join(name[:length]) for name in names for length in range(1, len(name) + 1)}
    assert not above & without
