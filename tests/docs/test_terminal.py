"""The commands of the pages run as they stand there, in a folder that has the files which they name.

A block that is one ``curl`` is `test_commands`'s. What no test has (a package index, a cluster, another program) is in
`ABSENT`: such a command does nothing here, and the table says what runs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from antiphon.store import SqliteStore
from docs.blocks import REQUESTS, ROOT, TEMPLATE, TYPED, Block, blocks, own_tools, place
from kit.certificates import signed
from kit.program import PROGRAM, environment

TERMINALS = [block for block in TYPED if block.runs and block not in REQUESTS]

ABSENT = {
    "make": "a clone: `make newcomer` runs `make serve`, and these tests are a part of `make test`",
    "pip": "a package index: `make newcomer` and `make package` install the wheel",
    "ray": "Ray: `make check-ray`",
    "serve": "Ray: `make check-ray`",
    "vllm": "vLLM: `make check-vllm`",
    "lm_eval": "lm-eval: `make test-clients CLIENTS=lm_eval`",
    "claude": "Claude Code: `make test-clients`",
}
"""Programs that are not here, and what runs them."""
ABSENT_OURS = {
    "mcp log*": "an MCP server that wants a sign-in: tests/tools",
    "* --config antiphon.toml": "the vLLM of that file: `make check-vllm`",
    "* --tools python*": "bubblewrap: tests/tools",
    "store import *": "a PostgreSQL: tests/store",
}
"""Our commands that need more than this folder, as patterns, and what runs them."""
SMALLER = {
    "transcript.py 1000": "transcript.py 1",
    "-c 1,4,16 -n 64 --in 128 --out 64": "-c 1 -n 1 --in 8 --out 4",
    "--context 65536": "--context 1024",
    "--workers 4": "--workers 2",
}
"""What would take minutes, or more memory than a test may have."""

OURS = """\
#!/bin/bash
case "$*" in {absent}) exit 0;; esac
if [ "$1" != serve ]; then exec {program} "$@"; fi
shift; said=$(mktemp); args=$(printf '%s\\n' "$@" | sed '/^--port$/,+1d')
mapfile -t args <<< "$args"; [ -n "${{args[0]}}" ] || args=()
{program} serve "${{args[@]}}" --port 0 --json > "$said" & server=$!
for _ in $(seq 600); do grep -q '}}' "$said" && break; kill -0 $server || exit 1; sleep 0.1; done
kill $server; wait $server; grep '"url"' "$said"
"""
"""``antiphon`` in a test: a server is at a port of its own, and ends when it serves."""

PLAYED = 'engine = "scripted"\nformat = "chatml"\nreply = "Hello."\n'
LOADED = 'source = "{}"\ndefault_output_tokens = 30\n'  # Some of its answers go round in circles.
REAL = ("bring-your-own-model.md", "catalog.md", "choosing-a-model.md", "datasets.md")
"""Pages of which the model's own file matters; the commands of others do the same with one that plays a script."""

TALK = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]}
HARMONY = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}
OCM = """\
---
version: "2.2"
---
<|start|>user<|message|>Hi<|end|>
<|start|>assistant<|channel|>final<|message|>Hello.<|return|>
"""


@pytest.fixture
def folder(tmp_path: Path, smollm2_path: Path) -> Path:
    """What the pages take for granted in the folder where a reader is."""
    work = tmp_path / "work"
    home = tmp_path / "antiphon"
    for made in (work / "chats", work / "logs" / "may", home, tmp_path / ".config/fish/completions", tmp_path / "bin"):
        made.mkdir(parents=True)
    (home / "config.toml").write_text(f"[models.smollm2]\n{PLAYED}[models.mine]\n{PLAYED}")
    SqliteStore(home / "sessions.db")
    (work / "model.gguf").symlink_to(smollm2_path)
    (work / "bench").symlink_to(ROOT / "bench")
    (work / "my-model").mkdir()
    (work / "my-model/tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    for name in ("talk.ocm", "chats/one.ocm"):
        (work / name).write_text(OCM)
    for name in ("talk.json", "logs/may/one.json"):
        (work / name).write_text(json.dumps(TALK))
    (work / "mytools.py").write_text(own_tools())
    (work / "mcp.json").write_text('{"mcpServers": {}}')
    (work / "data.jsonl").write_text(json.dumps(TALK) + "\n")
    (work / "in.jsonl").write_text(next(blocks(ROOT / "docs/batches.md", "json")).code)
    write_programs(tmp_path / "bin")
    return work


def write_programs(folder: Path) -> None:
    program = " ".join(f"'{word}'" for word in PROGRAM)
    ours = OURS.format(program=program, absent="|".join(pattern.replace(" ", "\\ ") for pattern in ABSENT_OURS))
    python = f'#!/bin/bash\nexec {sys.executable} "$@"\n'
    for name, text in {"antiphon": ours, "python": python, **dict.fromkeys(ABSENT, "#!/bin/bash\n")}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


@pytest.mark.parametrize("block", TERMINALS, ids=place)
def test_what_a_page_types_runs(block: Block, folder: Path, request: pytest.FixtureRequest) -> None:
    if block.page.name in REAL:
        model = LOADED.format((folder / "model.gguf").readlink())
        (folder.parent / "antiphon/config.toml").write_text(f"[models.smollm2]\n{model}[models.mine]\n{model}")
    if block.page.name == "cli.md":
        (folder / "talk.json").write_text(json.dumps(HARMONY))
    if "cert.pem" in block.code:
        Path(signed(folder, "cert")[1]).rename(folder / "key.pem")
    code = block.code
    if "curl" in code or "--url" in code:
        code = re.sub("http://127.0.0.1:(8080|11434)", request.getfixturevalue("server"), code)
    for large, small in SMALLER.items():
        code = code.replace(large, small)
    for command, output in typed(code):
        done = run(command, folder)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        if output and command.split()[0] not in ABSENT:
            printed = done.stdout.replace(str(folder.parent / "antiphon"), "~/.cache/antiphon")
            assert matches(printed, output), (command, printed)


def typed(code: str) -> Iterator[tuple[str, list[str]]]:
    """What is typed, and the lines that the page shows below it: the whole of it, where it shows no prompt."""
    if not code.startswith("$ "):
        yield code, []
        return
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        last = next(at for at, line in enumerate(lines) if not line.endswith("\\"))
        yield "\n".join(lines[: last + 1]), lines[last + 1 :]


def matches(printed: str, shown: list[str]) -> bool:
    """Whether the lines are those of the page, in which ``…`` is any text."""
    lines = [line.rstrip() for line in printed.strip().splitlines()]
    patterns = [re.sub(r"([\[\]?*])", r"[\1]", line).replace("…", "*").rstrip() for line in shown]
    return len(lines) == len(patterns) and all(map(fnmatchcase, lines, patterns))


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    top = folder.parent
    environ = {**environment(top / "antiphon"), "HOME": str(top), "PATH": f"{top / 'bin'}:{os.environ['PATH']}"}
    script = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n' + command
    return subprocess.run(
        ["bash", "-ec", script],
        cwd=folder, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=240, check=False,
    )  # fmt: skip
