"""The compliance runner of Open Responses, over bun: 17 cases, seven of them over a WebSocket, for two models each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.client_server import ROOT, Served, running
from suites.outcomes import Outcome

COMMIT = "92c12d96d7b61d6d15e2214daa5e9c6000ab6e1c"
REPOSITORY = os.environ.get("OPEN_RESPONSES") or "https://github.com/openresponses/openresponses"
PACKAGES = ("bun@1.4.4", "zod@3.25.76")
"""Its runtime, and what the runner alone needs, in the version of its lock."""
SERVER = Served((sys.executable, ROOT / "tests" / "suites" / "serving.py"), "plain suite", obedient=True, env={})


def fetch(folder: Path) -> Path:
    source = folder / "open-responses"
    if not (source / ".ready").exists():
        source.mkdir(exist_ok=True)
        git = ["git", "-C", str(source)]
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "fetch", "--quiet", REPOSITORY, COMMIT], check=True)
        subprocess.run([*git, "checkout", "--quiet", COMMIT, "--", "bin", "src"], check=True)
        source.joinpath("package.json").write_text("{}")
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES]
        subprocess.run(command, cwd=source, check=True)
        (source / ".ready").touch()
    return source


def run(source: Path, files: Sequence[str], only: str) -> Iterator[Outcome]:
    """The outcomes with a model that does not think, and with one that does, whose names have ``thinking/`` before."""
    runner = [str(source / "node_modules" / ".bin" / "bun"), "run", "bin/compliance-test.ts", "--json", "-k", "none"]
    with running(SERVER) as url:
        for model, prefix in zip(SERVER.models.split(), ("", "thinking/"), strict=True):
            command = [*runner, "-u", f"{url}/v1", "-m", model]
            done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300)
            for result in json.loads(done.stdout)["results"]:
                passed = {"passed": True, "failed": False}.get(result["status"])
                why = "; ".join(result.get("errors") or ())[:500]
                if only in (test := prefix + result["id"]):
                    yield Outcome(test, passed, why)
