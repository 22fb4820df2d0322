"""Antiphon beside SMG and LiteLLM in front of one engine of unlimited speed, at its own pace or flat out.

python bench/gateway.py [--smg PYTHON] [--litellm COMMAND] [--loads paced,text,…] [--rounds 3] [--json FILE]

The engine answers over vLLM's HTTP and, for SMG, over its gRPC; all gateways render the same template, encode with the
same tokenizer and read the same replies. They take turns, and the middle of the rounds counts. Processor time is the
gateway's alone; clients, engine and gateway share the machine, so tokens a second are what is left over. SMG's PYTHON
is that of an environment with ``smg smg-grpc-proto tokenizers uvloop``, LiteLLM's COMMAND that of one with
``litellm[proxy]``. Without them Antiphon alone is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import uvloop
from stub.folder import make_folder
from stub.says import CALL, PACED, TEXT, WIDE, Speaker

from antiphon.config import load_config, shipped_entries
from antiphon.models.store import ModelStore

HERE = Path(__file__).parent
LONG = "What is the matter with number {}? It is said to be quite remarkable, if not odd. "
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
        },
    }
]
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


@dataclass(frozen=True)
class Load:
    """``streams`` clients that each send one request after the other for ``seconds``, or ``requests`` of them."""

    name: str
    streams: int
    seed: int
    tokens: int
    stream: bool = True
    seconds: float = 5.0
    tools: bool = False
    history: int = 0
    """Characters of the conversation before the last message."""
    grows: bool = False
    """Each request is the one before and a message more."""


LOADS = (
    Load("paced", 200, PACED, 300, seconds=8.0),
    Load("text", 64, TEXT, 500),
    Load("wide", 64, WIDE, 4000),
    Load("call", 64, CALL, 0, tools=True),
    Load("whole", 16, TEXT, 1, stream=False),
    Load("whole-call", 16, CALL, 0, stream=False, tools=True),
    Load("long", 1, TEXT, 1, history=130_000, grows=True),
)


@dataclass
class Seen:
    """What the clients of one load saw, in seconds."""

    requests: int = 0
    bytes: int = 0
    first: list[float] = field(default_factory=list)
    failures: int = 0


@dataclass(frozen=True)
class Row:
    """One gateway under one load: tokens and requests a second, first token in ms, processor time in microseconds."""

    gateway: str
    load: str
    tokens_per_s: float
    requests_per_s: float
    first_p50_ms: float
    first_p99_ms: float
    cpu_us_per_token: float
    cpu_us_per_request: float
    failures: int


def body_of(load: Load, number: int) -> dict[str, Any]:
    """The request ``number`` of a client: in a chat that grows, the one before and two messages more."""
    turns = [LONG.format(turn) * (load.history // (40 * len(LONG))) for turn in range(20 if load.history else 0)]
    turns += [f"And what about number {turn}?" for turn in range(number if load.grows else 0)]
    messages = [{"role": role, "content": turn} for turn in turns for role in ("user", "assistant")]
    body: dict[str, Any] = {
        "model": "m", "messages": [*messages, {"role": "user", "content": f"Say something. {number}"}],
        "seed": load.seed, "stream": load.stream, "temperature": 0,
    }  # fmt: skip
    if load.tokens:
        body["max_tokens"] = load.tokens
    return {**body, "tools": TOOLS} if load.tools else body


async def client(url: str, session: aiohttp.ClientSession, load: Load, seen: Seen, until: float, number: int) -> None:
    clock = time.perf_counter
    while clock() < until:
        body = json.dumps(body_of(load, number)).encode()
        number += 1
        began = clock()
        async with session.post(f"{url}/v1/chat/completions", data=body, headers=HEADERS) as reply:
            if reply.status != 200:
                seen.failures += 1
                await reply.read()
                await asyncio.sleep(0.1)
                continue
            first, size = True, 0
            async for data in reply.content.iter_any():
                if first:
                    seen.first.append(clock() - began)
                    first = False
                size += len(data)
        seen.requests += 1
        seen.bytes += size


HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-none"}


async def run_load(url: str, load: Load) -> Seen:
    seen = Seen()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as session:
        until = time.perf_counter() + load.seconds
        await asyncio.gather(
            *(client(url, session, load, seen, until, number * 1000) for number in range(load.streams))
        )
    return seen


def spent(process: psutil.Process) -> float:
    """Processor time, in seconds, of a process and its children."""
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def measured(name: str, url: str, process: psutil.Process, load: Load, call_tokens: int) -> Row:
    uvloop.run(run_load(url, Load(**{**asdict(load), "seconds": 0.5})))
    before, began = spent(process), time.perf_counter()
    seen = uvloop.run(run_load(url, load))
    seconds, cpu = time.perf_counter() - began, (spent(process) - before) * 1e6
    tokens = seen.requests * (load.tokens or call_tokens)
    first = sorted(seen.first) or [float("nan")]
    return Row(
        name, load.name, tokens / seconds, seen.requests / seconds,
        1e3 * statistics.median(first), 1e3 * first[int(len(first) * 0.99)],
        cpu / max(1, tokens), cpu / max(1, seen.requests), seen.failures,
    )  # fmt: skip


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def program(*command: str | Path, log: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """A program while it runs; what it logs is in ``log``."""
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE, stderr=file, text=True, env={**os.environ, **environ}, cwd=log.parent,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    """Until a chat is answered. Raises `SystemExit` where the gateway ends, or does not answer for a minute."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        with suppress(aiohttp.ClientError):
            if uvloop.run(run_load(url, Load("first", 1, TEXT, 1, stream=False, seconds=0.01))).requests:
                return
        time.sleep(0.05)
    raise SystemExit(f"a gateway does not answer: {process.args!r}")


@contextmanager
def stub(python: str | Path, file: str, folder: Path) -> Iterator[int]:
    """The port of an engine."""
    with program(python, HERE / "stub" / file, folder, log=folder / f"{file}.log") as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextmanager
def antiphon(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    with ExitStack() as stack:
        port, own = stack.enter_context(stub(sys.executable, "stub_http.py", folder)), free_port()
        home = folder / "home"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(CONFIG.format(folder=folder, port=port, own=own))
        serve = (sys.executable, "-c", "from antiphon.cli import main; main()", "serve")
        process = stack.enter_context(program(*serve, log=folder / "antiphon.log", ANTIPHON_HOME=str(home)))
        url = f"http://127.0.0.1:{own}"
        wait_for(url, process)
        yield url, psutil.Process(process.pid)


@contextmanager
def smg(python: Path, folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    with ExitStack() as stack:
        port, own = stack.enter_context(stub(python, "stub_grpc.py", folder)), free_port()
        process = stack.enter_context(
            program(
                python.with_name("smg"), "launch", "--host", "127.0.0.1", "--port", str(own), "--prometheus-port",
                str(free_port()), "--worker-urls", f"grpc://127.0.0.1:{port}", "--model-path", folder,
                "--tool-call-parser", "qwen", "--log-level", "warn", log=folder / "smg.log",
            )
        )  # fmt: skip
        url = f"http://127.0.0.1:{own}"
        wait_for(url, process)
        yield url, psutil.Process(process.pid)


Gateway = Callable[[], Any]


def middle(rows: Sequence[Row]) -> Row:
    """The median of each figure."""
    columns = {
        name: statistics.median(getattr(row, name) for row in rows)
        for name, value in asdict(rows[0]).items()
        if not isinstance(value, str)
    }
    return Row(rows[0].gateway, rows[0].load, **columns)


def compare(gateways: Mapping[str, Gateway], loads: Sequence[Load], rounds: int, call_tokens: int) -> list[Row]:
    """Each load of each gateway, in turns."""
    rows = []
    for load in loads:
        taken: dict[str, list[Row]] = {name: [] for name in gateways}
        for _ in range(rounds):
            for name, gateway in gateways.items():
                with gateway() as (url, process):
                    taken[name].append(measured(name, url, process, load, call_tokens))
        for found in taken.values():
            rows.append(middle(found))
            print(line(rows[-1]), flush=True)
    return rows


def line(row: Row) -> str:
    return (
        f"{row.load:11} {row.gateway:9} {row.tokens_per_s:9,.0f} tok/s {row.requests_per_s:7,.0f} req/s  first "
        f"{row.first_p50_ms:7.1f} / {row.first_p99_ms:7.1f} ms  {row.cpu_us_per_token:8.1f} µs/token "
        f"{row.cpu_us_per_request:9.0f} µs/request  {row.failures:.0f} failed"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", type=Path)
    parser.add_argument("--loads", default=",".join(load.name for load in LOADS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gateway-"))
    try:
        source = ModelStore(Path(load_config(os.environ).config.store.folder)).path(
            "smollm2", shipped_entries()["smollm2"]
        )
        if source is None:
            raise SystemExit("the default model is not here: make model")
        call_tokens = Speaker(make_folder(source, folder)).call_tokens
        gateways: dict[str, Gateway] = {"antiphon": lambda: antiphon(folder)}
        if options.smg:
            gateways["smg"] = lambda: smg(options.smg.absolute(), folder)
        rows = compare(
            gateways, [load for load in LOADS if load.name in options.loads.split(",")], options.rounds, call_tokens
        )
        if options.json:
            options.json.write_text(json.dumps({"machine": platform.platform(), "rows": [asdict(r) for r in rows]}))
    except BaseException:
        for log in folder.glob("*.log"):
            sys.stderr.write(f"--- {log.name}\n{log.read_text()[-1500:]}\n")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
