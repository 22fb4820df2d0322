"""What a second worker brings: ``antiphon serve --workers N`` over a scripted engine of unlimited speed.

python bench/workers.py [--workers 1,2] [--streams 16] [--tokens 8000] [--delay 0] [--rounds 5]

All is in processor time, because the clients of a measurement, and whoever else is on the machine, take of the same
cores. Were every process of the server to have a core of its own, as two workers on two free cores nearly have, a round
would take as long as its busiest process worked, or, with fewer cores than processes, its share of the work of all:
tokens by that time are the rate. The cost of a token is what all processes, the supervisor too, spent for it. The
numbers of workers take turns, with as many streams for each worker, and the middle of the rounds counts. With a
``--delay``, in seconds between two tokens of a stream, each token is written by itself; without, those that come
together are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

CONFIG = """
model = "endless"
[models.endless]
engine = "scripted"
format = "chatml"
context = 100000
reply = "{reply}"
delay = {delay}
[log]
access = false
"""


@dataclass(frozen=True, slots=True)
class Served:
    """A server with so many workers."""

    workers: int
    url: str
    process: psutil.Process

    def seconds(self) -> dict[int, float]:
        """What each of its processes has worked so far."""
        return {one.pid: sum(one.cpu_times()[:2]) for one in (self.process, *self.process.children(recursive=True))}


@dataclass(frozen=True, slots=True)
class Run:
    """Of one round: tokens a second as counted above, and microseconds of processor time for each token."""

    rate: float
    cost: float
    shares: tuple[float, ...]


@contextmanager
def server(workers: int, tokens: int, delay: float) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "config.toml").write_text(CONFIG.format(reply="a" * tokens, delay=delay))
        command = [sys.executable, "-c", "from antiphon.cli import main; main()", "serve", "--port", "0", "--json"]
        child = subprocess.Popen(
            [*command, "--workers", str(workers)],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "ANTIPHON_HOME": home},
        )  # fmt: skip
        try:
            assert child.stdout is not None
            announced = "".join(child.stdout.readline() for _ in range(4))
            yield Served(workers, json.loads(announced)["url"], psutil.Process(child.pid))
        finally:
            child.terminate()
            child.wait(60)


async def streamed(session: aiohttp.ClientSession, url: str, tokens: int) -> int:
    """How many tokens came."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": tokens, "stream": True}
    count = 0
    async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for part in answer.content.iter_any():
            count += part.count(b'"content":"a"')
    return count


async def load(session: aiohttp.ClientSession, served: Served, streams: int, tokens: int, cores: int) -> Run:
    before = served.seconds()
    counts = await asyncio.gather(*(streamed(session, served.url, tokens) for _ in range(streams * served.workers)))
    spent = [seconds - before.get(pid, 0.0) for pid, seconds in served.seconds().items()]
    read = sum(counts)
    assert read > 0.95 * len(counts) * tokens, f"{read} of {len(counts) * tokens} tokens came"
    took = max(max(spent), sum(spent) / min(cores, served.workers))
    return Run(read / took, sum(spent) / read * 1e6, tuple(sorted((one / sum(spent) for one in spent), reverse=True)))


async def measure(every: Sequence[Served], streams: int, tokens: int, rounds: int, cores: int) -> None:
    runs: dict[int, list[Run]] = {served.workers: [] for served in every}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:
        for served in every:
            await load(session, served, streams, 10, cores)
        for _ in range(rounds):
            for served in every:
                runs[served.workers].append(await load(session, served, streams, tokens, cores))
    first = every[0].workers
    for workers, ran in runs.items():
        rate, cost = (statistics.median(getattr(run, field) for run in ran) for field in ("rate", "cost"))
        rates = [run.rate / one.rate for run, one in zip(ran, runs[first], strict=True)]
        costs = [run.cost / one.cost for run, one in zip(ran, runs[first], strict=True)]
        shares = " ".join(f"{share:.0%}" for share in statistics.median_low([run.shares for run in ran]))
        print(
            f"{workers} workers  {rate:>9,.0f} tokens/s ({statistics.median(rates):.2f} x, {min(rates):.2f} to "
            f"{max(rates):.2f})  {cost:>6.1f} µs a token ({statistics.median(costs):.3f} x)  by process {shares}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--workers", default="1,2")
    arguments.add_argument("--streams", type=int, default=16)
    arguments.add_argument("--tokens", type=int, default=8000)
    arguments.add_argument("--delay", type=float, default=0.0)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    with ExitStack() as stack:
        numbers = [int(number) for number in given.workers.split(",")]
        every = [stack.enter_context(server(number, given.tokens + 100, given.delay)) for number in numbers]
        asyncio.run(measure(every, given.streams, given.tokens, given.rounds, os.cpu_count() or 1))


if __name__ == "__main__":
    main()
