"""Antiphon beside SMG and LiteLLM in front of one engine of unlimited speed, at its own pace or flat out.

python bench/gateway.py [--smg PYTHON] [--litellm PYTHON] [--old COMMIT] [--loads paced,…] [--rounds 3] [--json FILE]

The engine answers over vLLM's HTTP and, for SMG, over its gRPC; both gateways render the same template, encode with the
same tokenizer and read the same replies. LiteLLM's proxy passes on what the engine says as text. They take turns, and
the middle of the rounds counts. Processor time is the gateway's alone; clients, engine and gateway share the machine,
so tokens a second are what is left over. The last rows are of the start, to the first answer. ``--old`` is Antiphon as
it was at another commit. Each PYTHON is that of an environment: with ``smg smg-grpc-proto tokenizers uvloop``, with
``litellm[proxy]``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from gateways import HEADERS, Gateway, Running, antiphon, checkout, command, litellm, smg, spent
from stub.folder import make_folder
from stub.says import CALL, PACED, TEXT, WIDE, Speaker

from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries

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
    again: bool = False
    """Each request has the history of the one before, and another message after it."""
    as_text: bool = True
    """It is put to a gateway that only passes on what an engine says, too."""


LOADS = (
    Load("paced", 200, PACED, 300, seconds=8.0, as_text=False),
    Load("text", 64, TEXT, 500),
    Load("text-16", 16, TEXT, 500),
    Load("wide", 64, WIDE, 4000, as_text=False),
    Load("call", 64, CALL, 0, tools=True, as_text=False),
    Load("whole", 16, TEXT, 1, stream=False),
    Load("whole-call", 16, CALL, 0, stream=False, tools=True, as_text=False),
    Load("long-first", 1, TEXT, 1, history=130_000, as_text=False),
    Load("long", 1, TEXT, 1, history=130_000, again=True, as_text=False),
)
START, RENDER = "start", "render"
"""Of a gateway to its first answer; of `antiphon render` with one message."""


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
    """The request ``number`` of a client."""
    first = 0 if load.again else 1000 * number
    turns = [
        LONG.format(first + turn) * (load.history // (40 * len(LONG))) for turn in range(20 if load.history else 0)
    ]
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


async def run_load(url: str, load: Load) -> Seen:
    seen = Seen()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(None)) as session:
        until = time.perf_counter() + load.seconds
        await asyncio.gather(
            *(client(url, session, load, seen, until, number * 1000) for number in range(load.streams))
        )
    return seen


def measured(name: str, running: Running, load: Load, call_tokens: int) -> Row:
    uvloop.run(run_load(running.url, replace(load, seconds=0.5)))
    before, began = spent(running.process), time.perf_counter()
    seen = uvloop.run(run_load(running.url, load))
    seconds, cpu = time.perf_counter() - began, (spent(running.process) - before) * 1e6
    tokens = seen.requests * (load.tokens or call_tokens)
    first = sorted(seen.first) or [float("nan")]
    return Row(
        name, load.name, tokens / seconds, seen.requests / seconds,
        1e3 * statistics.median(first), 1e3 * first[int(len(first) * 0.99)],
        cpu / max(1, tokens), cpu / max(1, seen.requests), seen.failures,
    )  # fmt: skip


def middle(rows: Sequence[Row]) -> Row:
    """The median of each figure."""
    columns = {
        name: statistics.median(getattr(row, name) for row in rows)
        for name, value in asdict(rows[0]).items()
        if not isinstance(value, str)
    }
    return Row(rows[0].gateway, rows[0].load, **columns)


def compare(gateways: Mapping[str, Gateway], loads: Sequence[Load], rounds: int, call_tokens: int) -> Iterator[Row]:
    """Each load of each gateway that can take it, in turns."""
    for load in loads:
        taken: dict[str, list[Row]] = {name: [] for name in gateways if load.as_text or name != "litellm"}
        for _ in range(rounds):
            for name, rows in taken.items():
                with gateways[name]() as running:
                    rows.append(measured(name, running, load, call_tokens))
        yield from map(middle, taken.values())


def starts(gateways: Mapping[str, Gateway], rounds: int) -> Iterator[Row]:
    """From the start of each to its first answer: the columns of the first token, and of a request."""
    taken: dict[str, list[Row]] = {name: [] for name in gateways}
    for _ in range(rounds):
        for name, rows in taken.items():
            with gateways[name]() as running:
                ms, cpu = running.seconds * 1e3, running.cpu * 1e6
                rows.append(Row(name, START, 0, 0, ms, ms, 0, cpu, 0))
    yield from map(middle, taken.values())


def renders(sources: Mapping[str, Path | None], rounds: int) -> Iterator[Row]:
    """`antiphon render` of one message: the columns of the first token, and of a request."""
    words, stdin = ("render", "-", "--format", "chatml"), '[{"role": "user", "text": "Hi"}]'
    taken: dict[str, list[Row]] = {name: [] for name in sources}
    for _ in range(5 * rounds):
        for name, rows in taken.items():
            seconds, cpu = command(*words, stdin=stdin, source=sources[name])
            rows.append(Row(name, RENDER, 0, 0, seconds * 1e3, seconds * 1e3, 0, cpu * 1e6, 0))
    yield from map(middle, taken.values())


def line(row: Row) -> str:
    return (
        f"{row.load:11} {row.gateway:9} {row.tokens_per_s:9,.0f} tok/s {row.requests_per_s:7,.0f} req/s  first "
        f"{row.first_p50_ms:7.1f} / {row.first_p99_ms:7.1f} ms  {row.cpu_us_per_token:8.1f} µs/token "
        f"{row.cpu_us_per_request:9.0f} µs/request  {row.failures:.0f} failed"
    )


def described() -> dict[str, Any]:
    """Where and of what these figures are."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=Path(__file__).parent, capture_output=True, text=True
    )
    return {
        "commit": commit.stdout.strip(), "machine": platform.platform(), "python": platform.python_version(),
        "cores": os.cpu_count(), "load": os.getloadavg()[0], "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", type=Path)
    parser.add_argument("--litellm", type=Path)
    parser.add_argument("--old", default="")
    parser.add_argument("--loads", default=",".join((*(load.name for load in LOADS), START, RENDER)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    about, rows, named = described(), list[Row](), options.loads.split(",")
    source = ModelStore(Path(load_config(os.environ).config.store.folder)).path("smollm2", shipped_entries()["smollm2"])
    if source is None:
        raise SystemExit("the default model is not here: make model")
    folder = Path(tempfile.mkdtemp(prefix="gateway-"))
    try:
        with ExitStack() as stack:
            call_tokens = Speaker(make_folder(source, folder)).call_tokens
            sources: dict[str, Path | None] = {"antiphon": None}
            if options.old:
                sources["old"] = stack.enter_context(checkout(options.old, folder))
            gateways: dict[str, Gateway] = {name: antiphon(folder, at) for name, at in sources.items()}
            if options.smg:
                gateways["smg"] = smg(folder, options.smg.absolute())
            if options.litellm:
                gateways["litellm"] = litellm(folder, options.litellm.absolute())
            loads = [load for load in LOADS if load.name in named]
            for row in chain(
                compare(gateways, loads, options.rounds, call_tokens),
                starts(gateways, options.rounds) if START in named else (),
                renders(sources, options.rounds) if RENDER in named else (),
            ):
                rows.append(row)
                print(line(row), flush=True)
        if options.json:
            options.json.write_text(json.dumps({**about, "rows": [asdict(row) for row in rows]}, indent=1))
    except BaseException:
        for log in folder.glob("*.log"):
            sys.stderr.write(f"--- {log.name}\n{log.read_text()[-1500:]}\n")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
