"""The service over an engine of unlimited speed, beside LiteLLM's proxy in front of that very service.

python bench/service.py [--litellm COMMAND] [--streams 1,16,64,256] [--tokens 128] [--rounds 3]

One process serves, a second is the proxy in front of it, and this third one sends requests and times what arrives.
COMMAND is ``litellm`` of an environment of its own (``pip install 'litellm[proxy]'``); without it Antiphon alone is
measured. The two take turns, at the same number of tokens, and the middle of the rounds counts. Processor time is the
serving process's alone, so it depends less on who else is on the machine. What the proxy adds to the first token is its
time less Antiphon's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine, Step
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.tenancy import NOBODY, Tenant
from antiphon.tokens import ByteTokenizer, Control

IDLE = 1_000
FIRSTS = 40
REQUESTS = 400
WORKERS = 16
LEAST = 1024
"""Tokens of one run at least: fewer are over before they can be timed."""
KEY = f"sk-{secrets.token_hex(32)}"
"""LiteLLM's proxy does not start without one."""
HEADERS = {"authorization": f"Bearer {KEY}"}


class Idle(ScriptedEngine):
    """Writes one token, and nothing more until its client goes."""

    async def generate(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        n: int = 1,
        grammar: str | None = None,
        tenant: Tenant = NOBODY,
    ) -> AsyncGenerator[Step, None]:
        yield Step((ord("a"),), 0)
        await asyncio.Event().wait()


def serve() -> None:
    """The service: ``endless`` writes letters without end, ``idle`` one letter."""
    tokenizer = ByteTokenizer([Control("<|im_start|>"), Control("<|im_end|>")])
    format = template_format("chatml", tokenizer.controls.keys())
    engines = {"endless": ScriptedEngine([ord("a")] * 8000), "idle": Idle([])}
    models = {
        name: Model(name=name, engine=engine, tokenizer=tokenizer, format=format) for name, engine in engines.items()
    }
    app = create_app(StaticCatalog(models), limits=Limits(max_concurrent=2 * IDLE, max_queue=2 * IDLE))
    Server(app, on_ready=lambda url: print(url, flush=True)).run()


@dataclass(frozen=True, slots=True)
class Served:
    """Where it is, and whose processor time and memory count."""

    url: str
    process: psutil.Process

    def seconds(self) -> float:
        family = [self.process, *self.process.children(recursive=True)]
        return sum(sum(one.cpu_times()[:2]) for one in family)

    def memory(self) -> int:
        return int(self.process.memory_info().rss)


@dataclass(frozen=True, slots=True)
class Run:
    """Of one round: tokens or requests a second, and microseconds of processor time for each."""

    rate: float
    cost: float


@contextmanager
def antiphon_service() -> Iterator[Served]:
    child = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        yield Served(child.stdout.readline().strip(), psutil.Process(child.pid))
    finally:
        child.terminate()
        child.wait(30)


@contextmanager
def litellm(command: str, upstream: str) -> Iterator[Served]:
    """LiteLLM's proxy, one worker, in front of ``upstream``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.yaml"
        config.write_text(
            "model_list:\n- model_name: endless\n  litellm_params:\n    model: openai/endless\n    api_key: any\n"
            f"    api_base: {upstream}/v1\n"
        )
        child = subprocess.Popen(
            [command, "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"],
            env={
                **os.environ,
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_LOG": "ERROR",
                "PYTHONPATH": "",
                "LITELLM_MASTER_KEY": KEY,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield Served(f"http://127.0.0.1:{port}", psutil.Process(child.pid))
        finally:
            child.terminate()
            child.wait(30)


def request_body(tokens: int, *, model: str = "endless", stream: bool = True) -> dict[str, object]:
    return {
        "model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": tokens, "stream": stream,
    }  # fmt: skip


async def streamed(session: aiohttp.ClientSession, url: str, tokens: int) -> tuple[int, float]:
    """How many tokens came, and after how many seconds the first."""
    start, first, count = time.perf_counter(), 0.0, 0
    async with session.post(f"{url}/v1/chat/completions", json=request_body(tokens)) as answer:
        answer.raise_for_status()
        async for part in answer.content.iter_any():
            count += part.count(b'"content":"a"') + part.count(b'"content": "a"')
            first = first or (time.perf_counter() - start if count else 0.0)
    return count, first


async def load(session: aiohttp.ClientSession, served: Served, streams: int, tokens: int) -> Run:
    before, start = served.seconds(), time.perf_counter()
    counts = await asyncio.gather(*(streamed(session, served.url, tokens) for _ in range(streams)))
    tokens_read, took = sum(count for count, _ in counts), time.perf_counter() - start
    assert tokens_read > 0.95 * streams * tokens, f"{tokens_read} of {streams * tokens} tokens came"
    return Run(tokens_read / took, (served.seconds() - before) / tokens_read * 1e6)


async def first(session: aiohttp.ClientSession, served: Served) -> float:
    """Milliseconds to the first token of one stream."""
    return (await streamed(session, served.url, 2))[1] * 1e3


async def requests(session: aiohttp.ClientSession, served: Served) -> Run:
    """Requests a second that are not streamed, of one token each."""

    async def worker() -> None:
        for _ in range(REQUESTS // WORKERS):
            async with session.post(f"{served.url}/v1/chat/completions", json=request_body(1, stream=False)) as answer:
                answer.raise_for_status()
                await answer.read()

    before, start = served.seconds(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    return Run(REQUESTS / (time.perf_counter() - start), (served.seconds() - before) / REQUESTS * 1e6)


async def idle(session: aiohttp.ClientSession, served: Served) -> float:
    """MB that the server grows by with many streams that wait."""
    before = served.memory()
    async with AsyncExitStack() as open_streams:
        for _ in range(IDLE):
            post = session.post(f"{served.url}/v1/chat/completions", json=request_body(9, model="idle"))
            answer = await open_streams.enter_async_context(post)
            await answer.content.readany()
        return (served.memory() - before) / 1e6


async def up(session: aiohttp.ClientSession, served: Served) -> None:
    """Waits for the first answer, which also warms it."""
    async with asyncio.timeout(180):
        while True:
            try:
                await streamed(session, served.url, 4)
            except aiohttp.ClientError:
                await asyncio.sleep(0.5)
            else:
                return


Every = Sequence[tuple[str, Served]]
Rounds = Mapping[str, Sequence[Run]]


async def alternately(every: Every, rounds: int, run: Callable[[Served], Awaitable[Run]]) -> Rounds:
    """The runs of each, one after the other in every round, so that a busy machine hurts all alike."""
    runs: dict[str, list[Run]] = {name: [] for name, _ in every}
    for _ in range(rounds):
        for name, served in every:
            runs[name].append(await run(served))
    return runs


def report(what: str, unit: str, runs: Rounds) -> Iterator[str]:
    """A line for each, of the middle of its rounds, and how many times better the first is, round by round."""
    for name, ran in runs.items():
        rate, cost = (statistics.median(getattr(run, field) for run in ran) for field in ("rate", "cost"))
        yield f"{what:<12} {name:<8} {rate:>9,.0f} {unit}/s {cost:>9,.1f} µs processor each"
    mine, *others = runs.values()
    for other in others:
        faster = [one.rate / two.rate for one, two in zip(mine, other, strict=True)]
        cheaper = [two.cost / one.cost for one, two in zip(mine, other, strict=True)]
        middle = f"{statistics.median(faster):.1f} x ({min(faster):.1f} to {max(faster):.1f})"
        yield f"{what:<12} ratio    {middle:>26} {statistics.median(cheaper):>9.1f} x"


async def measure(every: Every, streams: Sequence[int], tokens: int, rounds: int) -> None:
    timeout = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=2), timeout=timeout, headers=HEADERS
    ) as session:
        for _, served in every:
            await up(session, served)
        for count in streams:
            each = max(tokens, LEAST // count)
            runs = await alternately(every, rounds, lambda served: load(session, served, count, each))  # noqa: B023
            print(*report(f"{count} streams", "tokens", runs), sep="\n", flush=True)
        runs = await alternately(every, rounds, lambda served: requests(session, served))
        print(*report("not streamed", "requests", runs), sep="\n", flush=True)
        waits = [[await first(session, served) for _, served in every] for _ in range(FIRSTS)]
        own, *others = (statistics.median(column) for column in zip(*waits, strict=True))
        print(f"first token: antiphon {own:.1f} ms")
        for other in others:
            added = other - own
            share = own / added
            print(f"first token through the proxy {other:.1f} ms: it adds {added:.1f}; antiphon: {share:.2f} of that")
        print(f"{IDLE} idle streams: {await idle(session, every[0][1]):.0f} MB")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments.add_argument("--litellm", default="")
    arguments.add_argument("--streams", default="1,16,64,256")
    arguments.add_argument("--tokens", type=int, default=128)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    if given.serve:
        return serve()
    streams = [int(count) for count in given.streams.split(",")]
    with antiphon_service() as service:
        every = [("antiphon", service)]
        if not given.litellm:
            return asyncio.run(measure(every, streams, given.tokens, given.rounds))
        with litellm(given.litellm, service.url) as proxy:
            return asyncio.run(measure([*every, ("litellm", proxy)], streams, given.tokens, given.rounds))


if __name__ == "__main__":
    main()
