"""``make newcomer``: what a newcomer waits for, on three ways of two commands each: ``newcomer.py CHROMIUM``.

From a clone to an answer in the browser, from the wheel to an answer in the terminal, from the pages to a first
program. All is new: the clone, the environments, the models; packages come from the index that pip has. Exit code 1
where an answer is not the right one.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from docs.blocks import ROOT, blocks

BROWSER = ROOT / "tests" / "browser" / "newcomer.mjs"
QUESTION, ANSWER = "What is the capital of Japan?", "Tokyo"
LONGEST = 1800
T = TypeVar("T")


class Way:
    """The commands of one way, each timed, in an environment that has nothing of ours."""

    def __init__(self, title: str, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON", "PYTHON", "VIRTUAL"))
        }
        self.environ = {**clean, "ANTIPHON_HOME": str(folder / "home")}
        print(f"\n{title}", flush=True)

    def timed(self, shown: str, step: Callable[[], T]) -> T:
        begun = time.monotonic()
        done = step()
        print(f"{time.monotonic() - begun:8.1f} s  {shown}", flush=True)
        return done

    def run(self, shown: str, command: Sequence[str]) -> str:
        """What the command prints. Raises `SystemExit` where it fails."""
        return self.timed(shown, lambda: printed(command, self.folder, self.environ))


def printed(command: Sequence[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=LONGEST
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def require(answer: str) -> None:
    if ANSWER not in answer:
        raise SystemExit(f"The answer is wrong: {answer}")


def clone_to_browser(work: Path, chromium: str) -> None:
    way = Way("clone -> answer in the browser", work / "clone")
    way.run("git clone", ["git", "clone", "--quiet", str(ROOT), "antiphon"])
    port = free_port()
    with (way.folder / "stderr").open("w") as stderr:
        server = subprocess.Popen(
            ["make", "serve", f"PORT={port}"],
            cwd=way.folder / "antiphon",
            env=way.environ,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,  # make and what it starts are ended together
        )
    try:
        way.timed("make serve: until it serves", lambda: until_it_serves(server))
        command = ["node", str(BROWSER), chromium, f"http://127.0.0.1:{port}/"]
        require(way.run("the browser: the page, the question, the answer", command))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.communicate()


def until_it_serves(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    if not any("serves" in line for line in server.stdout):
        raise SystemExit("make serve ended")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def wheel_to_terminal(work: Path, wheel: Path) -> None:
    way = Way("wheel -> answer in the terminal", work / "terminal")
    installed(way, wheel)
    require(way.run(f'antiphon chat "{QUESTION}"', [str(way.folder / "venv/bin/antiphon"), "chat", QUESTION]))


def pages_to_program(work: Path, wheel: Path) -> None:
    way = Way("pages -> first program", work / "program")
    installed(way, wheel)
    first = next(block for block in blocks(ROOT / "docs" / "python.md", "python"))
    (way.folder / "first.py").write_text(first.code)
    require(
        way.run(
            "python first.py (the first block of docs/python.md)", [str(way.folder / "venv/bin/python"), "first.py"]
        )
    )


def installed(way: Way, wheel: Path) -> None:
    """The wheel with its engine, in an environment of its own."""
    printed([sys.executable, "-m", "venv", "venv"], way.folder, way.environ)
    pip = [str(way.folder / "venv/bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    way.run(f"pip install '{re.sub('-.*', '', wheel.name)}[local]'", [*pip, f"antiphon[local] @ {wheel.as_uri()}"])


def built(folder: Path) -> Path:
    environ = dict(os.environ)
    printed([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT, environ)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(chromium: str) -> int:
    with tempfile.TemporaryDirectory(prefix="antiphon-newcomer-") as name:
        work = Path(name)
        wheel = built(work / "dist")
        wheel_to_terminal(work, wheel)
        pages_to_program(work, wheel)
        clone_to_browser(work, chromium)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
