"""The server that clients of others are tested against, and where their environments are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.several import SEVERAL

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = Path(os.environ.get("CLIENT_ENVIRONMENTS", ROOT / ".clients"))
"""The clients' environments, for this clone or for several."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server to be tested: how it is started (it prints its URL), and its models' names.

    The models: one that chats, one that thinks before it speaks, one that embeds. ``obedient`` ones follow orders.
    """

    command: Sequence[str | Path]
    models: str
    obedient: bool
    env: Mapping[str, str]


OBEDIENT = Served((sys.executable, ROOT / "tests" / "kit" / "obedient.py"), "small oss count", obedient=True, env={})
REAL = Served(
    (sys.executable, "-c", "from antiphon.cli import main; main()", "serve", "--port", "0", "--json"),
    "smollm2 smollm2 minilm",
    obedient=False,
    env={
        "ANTIPHON_SESSIONS_STORE": "memory",
        "ANTIPHON_LOG_ACCESS": "false",
        "ANTIPHON_TOOLS_CLIENT_MCP": "true",
        "ANTIPHON_TOOLS_CLIENT_MCP_NETWORKS": "127.0.0.0/8",
    },
)


@contextmanager
def running(served: Served) -> Iterator[str]:
    """The URL of the server while it runs."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            [str(part) for part in served.command],
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **SEVERAL, **served.env},
        )
        try:
            assert server.stdout is not None
            announced = next((line for line in server.stdout if "http" in line), None)
            if announced is None:
                raise SystemExit("the server did not start")
            yield announced[announced.index("http") :].partition('"')[0].strip()
        finally:
            server.terminate()
            server.wait(60)


def uv() -> str:
    """The path of uv; it gets an environment of its own when there is none."""
    found = shutil.which("uv")
    if found:
        return found
    own = ENVIRONMENTS / "uv"
    if not (own / "bin" / "uv").exists():
        subprocess.run([sys.executable, "-m", "venv", own], check=True)
        subprocess.run([own / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return str(own / "bin" / "uv")
