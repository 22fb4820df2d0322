"""llama.cpp's tests of its server, as the source of llama-cpp-python has them; `llama_server.py` is their server."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.client_server import ROOT
from kit.sources import fetch_sources
from suites.outcomes import Outcome, environment, pytest_outcomes

LOCK = ROOT / "requirements" / "api-suites.lock"
MEMBERS = re.compile(
    r"vendor/llama\.cpp/(tools/server/tests/.*|models/templates/.*)|tests/(?!conftest|utils).*\.(py|jinja)|vllm/.*\.py"
)
TESTS = "llama_cpp_python-0.3.36/vendor/llama.cpp/tools/server/tests"
LIMIT = 3600


def fetch(folder: Path) -> Path:
    """Fetches this suite and vLLM's, whose sources are in one lock. Returns the folder of this one's tests."""
    if not (folder / ".sources").exists():
        fetch_sources(LOCK, MEMBERS, folder)
        (folder / ".sources").touch()
    return folder / TESTS


def run(source: Path, files: Sequence[str], only: str) -> Iterator[Outcome]:
    server = source / "llama-server"
    program = shlex.join([sys.executable, str(ROOT / "tests" / "suites" / "llama_server.py")])
    server.write_text(f'#!/bin/sh\nexec {program} --any-name "$@"\n')
    server.chmod(0o755)
    python = environment(source / ".environment", "-r", str(source / "requirements.txt"))
    env = {"LLAMA_SERVER_BIN_PATH": str(server), "PORT": "8711", "PYTHONPATH": str(source)}
    chosen = ["-k", only] if only else []
    yield from pytest_outcomes(python, source, ["-m", "not slow", *chosen, *files], env, LIMIT)
