"""``make newcomer``: what a newcomer waits for, from a clone and from the wheel: ``newcomer.py CHROMIUM``.

Until the first answer, the first typed answer (the README's first example) and the first page, in seconds, and in
seconds of the processor, which other work on the machine changes less. All is new: the clone, the environments, the
models; packages come from the index that pip has, and not from its cache. Exit code 1 where an answer is wrong.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from urllib.request import Request, urlopen

import psutil

from docs.blocks import ROOT, blocks

BROWSER = ROOT / "tests" / "browser" / "newcomer.mjs"
QUESTION, ANSWER = "What is the capital of Japan?", "Tokyo"
LONGEST = 1800
T = TypeVar("T")


class Way:
    """The steps of one way, each timed, in an environment that has nothing of ours."""

    def __init__(self, title: str, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON", "PYTHON", "VIRTUAL"))
        }
        self.environ = {**clean, "ANTIPHON_HOME": str(folder / "home"), "PIP_NO_CACHE_DIR": "1"}
        print(f"\n{title}: seconds, and of the processor", flush=True)

    def timed(self, shown: str, step: Callable[[], T]) -> T:
        begun, used = time.monotonic(), processor()
        done = step()
        print(f"{time.monotonic() - begun:8.1f} {processor() - used:8.1f}  {shown}", flush=True)
        return done

    def run(self, shown: str, command: Sequence[str]) -> str:
        """What the command prints. Raises `SystemExit` where it fails."""
        return self.timed(shown, lambda: printed(command, self.folder, self.environ))

    def serve(self, command: Sequence[str], folder: Path, chromium: str) -> None:
        """From the command to the first answer over HTTP, then to the page with an answer in the browser."""
        port = free_port()
        with (self.folder / "stderr").open("w") as stderr:
            server = subprocess.Popen(
                [part.format(port=port) for part in command],
                cwd=folder,
                env=self.environ,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,  # make and what it starts are ended together
            )
        url = f"http://127.0.0.1:{port}"
        try:
            shown = " ".join(command).format(port="N")
            self.timed(f"{shown}: the first answer", lambda: require(first_answer(server, url)))
            browser = ["node", str(BROWSER), chromium, f"{url}/"]
            require(self.run("the page in a browser, with an answer", browser))
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.communicate()

    def typed(self, python: Path) -> None:
        """The README's first example, which asserts its answer."""
        first = next(block for block in blocks(ROOT / "README.md", "python"))
        (self.folder / "first.py").write_text(first.code)
        self.run("python first.py: the first typed answer", [str(python), "first.py"])


def processor() -> float:
    """Seconds of the processor that processes of this one took, those that run still too."""
    total = 0.0
    for each in (me := psutil.Process()), *me.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.children_user + times.children_system
            total += times.user + times.system if each is not me else 0
    return total


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


def first_answer(server: subprocess.Popen[str], url: str) -> str:
    """What the server answers once it says that it serves."""
    assert server.stdout is not None
    if not any("serves" in line for line in server.stdout):
        raise SystemExit("the server ended before it served")
    body = json.dumps({"messages": [{"role": "user", "content": QUESTION}]}).encode()
    request = Request(f"{url}/v1/chat/completions", body, {"content-type": "application/json"})
    with urlopen(request, timeout=LONGEST) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def from_clone(work: Path, chromium: str) -> None:
    way = Way("from a clone", work / "clone")
    way.run("git clone", ["git", "clone", "--quiet", str(ROOT), "antiphon"])
    clone = way.folder / "antiphon"
    way.serve(["make", "serve", "PORT={port}"], clone, chromium)
    way.typed(clone / ".venv/bin/python")


def from_wheel(work: Path, wheel: Path, chromium: str) -> None:
    way = Way("from the wheel", work / "wheel")
    printed([sys.executable, "-m", "venv", "venv"], way.folder, way.environ)
    programs = way.folder / "venv/bin"
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    way.run("pip install 'antiphon[local]'", [*pip, f"antiphon[local] @ {wheel.as_uri()}"])
    require(way.run(f'antiphon chat "{QUESTION}": the first answer', [str(programs / "antiphon"), "chat", QUESTION]))
    way.typed(programs / "python")
    way.serve([str(programs / "antiphon"), "serve", "--port", "{port}"], way.folder, chromium)


def built(folder: Path) -> Path:
    environ = dict(os.environ)
    printed([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT, environ)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main(chromium: str) -> int:
    with tempfile.TemporaryDirectory(prefix="antiphon-newcomer-") as name:
        work = Path(name)
        wheel = built(work / "dist")
        from_clone(work, chromium)
        from_wheel(work, wheel, chromium)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
