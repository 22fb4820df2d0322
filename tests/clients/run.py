"""Runs clients of others, each in an environment of its own, against one server: ``run.py [NAME…]``.

Every script in ``scripts`` names its packages as PEP 723 has it; ``uv`` makes the environments, kept under
``.clients``. A line a step goes to the screen, then a table; the exit code tells whether all passed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
KEPT = ROOT / ".clients"
LIMIT = 900
"""Seconds that a client may take, its environment included."""


@dataclass(frozen=True, slots=True)
class Outcome:
    client: str
    version: str
    passed: int
    failed: tuple[str, ...]


@contextmanager
def served() -> Iterator[str]:
    """The URL of a server whose model does as it is told."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    server = subprocess.Popen(
        [sys.executable, HERE / "obedient.py"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        if not url:
            raise SystemExit("the server did not start")
        yield url
    finally:
        server.terminate()
        server.wait(20)


def python_command(script: Path) -> list[str]:
    """How to run a script in its own environment."""
    return [uv(), "run", "--quiet", "--no-project", "--python", sys.executable, "--script", str(script)]


def node_command(script: Path) -> list[str]:
    """The same for Node; its package is fetched when it is not there."""
    modules = KEPT / "node"
    if not (modules / "node_modules" / "openai").exists():
        modules.mkdir(parents=True, exist_ok=True)
        (modules / "package.json").write_text("{}")
        subprocess.run(["npm", "install", "--silent", "openai@6", "zod@4"], cwd=modules, check=True)
    shutil.copy(script, modules)
    return ["node", str(modules / script.name)]


def uv() -> str:
    """The path of uv; it gets an environment of its own when there is none."""
    found = shutil.which("uv")
    if found:
        return found
    own = KEPT / "uv"
    if not (own / "bin" / "uv").exists():
        subprocess.run([sys.executable, "-m", "venv", own], check=True)
        subprocess.run([own / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return str(own / "bin" / "uv")


def ran(script: Path, url: str) -> Outcome:
    """One client's steps."""
    command = node_command(script) if script.suffix == ".mjs" else python_command(script)
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(
        command,
        env={**env, "ANTIPHON_URL": url, "UV_CACHE_DIR": str(KEPT / "cache"), "NO_PROXY": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    print(done.stdout, flush=True)
    lines = [line.split(" ", 1) for line in done.stdout.splitlines()]
    told = {kind: [rest for start, *rests in lines if start == kind for rest in rests] for kind in ("ok", "failed")}
    version = next((rest[0] for start, *rest in lines if start == "version" and rest), "?")
    ended = () if done.returncode == 0 or told["failed"] else (f"ended with {done.returncode}",)
    return Outcome(script.stem, version, len(told["ok"]), (*told["failed"], *ended))


def main(names: list[str]) -> int:
    scripts = sorted(path for path in (HERE / "scripts").iterdir() if path.stem != "steps" and path.is_file())
    chosen = [path for path in scripts if not names or path.stem in names]
    with served() as url:
        outcomes = [ran(script, url) for script in chosen]
    width = max((len(outcome.version) for outcome in outcomes), default=0)
    for outcome in outcomes:
        failed = ", ".join(outcome.failed) or "-"
        print(f"{outcome.client:<18} {outcome.version:<{width}}  {outcome.passed:>2} passed   failed: {failed}")
    return int(not outcomes or any(outcome.failed or not outcome.passed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
