"""vLLM's tests of its entry points over HTTP, from its source; `vllm_fixtures.py` gives them a server of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.client_server import ROOT
from suites import llama
from suites.outcomes import Outcome, environment, pytest_outcomes

PACKAGES = (
    "pytest==9.1.1 pytest-asyncio==1.4.0 pytest-timeout==2.4.0 openai==2.46.0 anthropic requests httpx fastapi pydantic"
    " jsonschema numpy openai-harmony==0.0.8 regex tqdm"
).split()
FILES = (
    *(f"tests/entrypoints/{files}/test_*.py" for files in ("anthropic", "openai", "openai/*", "tool_parsers")),
    "tests/entrypoints/serve/tokenize/test_tokenization.py",
)
LIMIT = 3600


def fetch(folder: Path) -> Path:
    llama.fetch(folder)
    return folder / "vllm-0.33.0"


def run(source: Path, files: Sequence[str], only: str) -> Iterator[Outcome]:
    python = environment(source / ".environment", *PACKAGES)
    paths = (source, ROOT / "tests")
    env = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "SUITE_PYTHON": sys.executable}
    options = ["-p", "suites.vllm_fixtures", "-o", "asyncio_mode=auto", "--rootdir", str(source), "-c", os.devnull]
    options += ["--timeout", "120", "--continue-on-collection-errors", *(["-k", only] if only else [])]
    yield from pytest_outcomes(python, source, [*options, *files], env, LIMIT)
