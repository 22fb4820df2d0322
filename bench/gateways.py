"""How the gateways of `gateway.py` are started, each in front of an engine of its own."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

HERE = Path(__file__).parent
KEY = "sk-none"
"""LiteLLM's proxy does not start without one."""
HEADERS = {"content-type": "application/json", "authorization": f"Bearer {KEY}"}
CONFIG = """
model = "m"
embedding_model = ""

[models.m]
tokenizer = "{folder}"
chat_template = "{folder}/chat_template.jinja"
context = 65536

[models.m.engine]
kind = "vllm"
url = "http://127.0.0.1:{port}"
served_name = "m"
grammar = false

[server]
port = {own}

[log]
access = false
"""
LITELLM = """
model_list:
- model_name: m
  litellm_params:
    model: openai/m
    api_key: any
    api_base: http://127.0.0.1:{port}/v1
"""
FIRST = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "seed": 1})


@dataclass(frozen=True)
class Running:
    """A gateway, and the seconds and processor seconds from its start to its first answer."""

    url: str
    process: psutil.Process
    seconds: float
    cpu: float


Gateway = Callable[[], AbstractContextManager[Running]]


def antiphon(folder: Path, source: Path | None = None) -> Gateway:
    """Ours; ``source`` is the folder ``src`` of another commit."""

    @contextmanager
    def running() -> Iterator[Running]:
        environ = {"PYTHONPATH": str(source)} if source is not None else {}
        with stub(sys.executable, "stub_http.py", folder) as port:
            own, home = free_port(), folder / "home"
            home.mkdir(exist_ok=True)
            (home / "config.toml").write_text(CONFIG.format(folder=folder, port=port, own=own))
            serve = (sys.executable, "-c", "from antiphon.cli import main; main()", "serve")
            with program(*serve, log=folder / "antiphon.log", ANTIPHON_HOME=str(home), **environ) as process:
                yield started(process, own)

    return running


def smg(folder: Path, python: Path) -> Gateway:
    """SMG, in front of the engine's gRPC; ``python`` is that of its environment."""

    @contextmanager
    def running() -> Iterator[Running]:
        with stub(python, "stub_grpc.py", folder) as port:
            own = free_port()
            command = (
                python.with_name("smg"), "launch", "--host", "127.0.0.1", "--port", own, "--prometheus-port",
                free_port(), "--worker-urls", f"grpc://127.0.0.1:{port}", "--model-path", folder,
                "--tool-call-parser", "qwen", "--log-level", "warn",
            )  # fmt: skip
            with program(*command, log=folder / "smg.log") as process:
                yield started(process, own)

    return running


def litellm(folder: Path, python: Path) -> Gateway:
    """LiteLLM's proxy, one worker, in front of the engine's chat completions: it renders and parses nothing."""

    @contextmanager
    def running() -> Iterator[Running]:
        with stub(sys.executable, "stub_http.py", folder) as port:
            own = free_port()
            (folder / "litellm.yaml").write_text(LITELLM.format(port=port))
            command = (
                python.with_name("litellm"), "--config", folder / "litellm.yaml", "--host", "127.0.0.1", "--port", own,
                "--telemetry", "False",
            )  # fmt: skip
            environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": KEY}
            with program(*command, log=folder / "litellm.log", **environ) as process:
                yield started(process, own)

    return running


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """The folder ``src`` of a commit of this repository."""
    at = folder / "old"
    git = ("git", "-C", str(HERE.parent), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(at), commit], check=True)
    try:
        yield at / "src"
    finally:
        subprocess.run([*git, "remove", "--force", str(at)], check=True)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def spent(process: psutil.Process) -> float:
    """Processor time, in seconds, of a process and its children."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def clean() -> dict[str, str]:
    """The environment without settings of ours; byte code is written, as where it is installed."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ANTIPHON_", "PYTHONDONT"))}


@contextmanager
def program(*command: object, log: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A program while it runs; what it logs is in ``log``."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE, stderr=file, text=True, env={**clean(), **environ}, cwd=log.parent,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def stub(python: str | Path, file: str, folder: Path) -> Iterator[int]:
    """The port of an engine."""
    with program(python, HERE / "stub" / file, folder, log=folder / f"{file}.log") as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


def started(process: subprocess.Popen[str], port: int) -> Running:
    """When a chat is answered. Raises `SystemExit` where the gateway ends, or does not answer for two minutes."""
    began, watched = time.perf_counter(), psutil.Process(process.pid)
    while time.perf_counter() - began < 120 and process.poll() is None:
        if answers(port):
            return Running(f"http://127.0.0.1:{port}", watched, time.perf_counter() - began, spent(watched))
        time.sleep(0.005)
    raise SystemExit(f"a gateway does not answer: {process.args!r}")


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", FIRST, HEADERS)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def command(*words: str, stdin: str = "", source: Path | None = None) -> tuple[float, float]:
    """Seconds and processor seconds of a command of ours."""
    environ = {**clean(), **({"PYTHONPATH": str(source)} if source is not None else {})}
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", "from antiphon.cli import main; main()", *words],
        input=stdin, text=True, check=True, stdout=subprocess.DEVNULL, env=environ,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu
