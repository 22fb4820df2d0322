"""The same prompts through every layer over one inner engine: tokens a second and time to the first token, as ratios.

python bench/engine.py MODEL.gguf [--streams 1,4,8] [--tokens 64] [--rounds 3] [--threads 1]

The layers run in turn, round after round, and the middle ratio counts, so that a busy machine hurts all alike; the
processor time of a token, in all processes that a layer needs, depends less on who else is there. The peer is
llama.cpp's server core called in its own process, with no socket, no client and no Python event loop about it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Sampling
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.formats.template import template_format
from antiphon.generation import Model, TurnRequest, plan_turn
from antiphon.http.server.server import Server
from antiphon.tokens import gguf_tokenizer

Prompt = Sequence[int]
QUESTION = "Tell me something about it that few people know. "


@dataclass(frozen=True, slots=True)
class Run:
    """One round of one layer: seconds to the end of all streams, of processor time, and to each first token."""

    tokens: int
    seconds: float
    processor: float
    firsts: tuple[float, ...]

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds

    @property
    def first(self) -> float:
        return statistics.median(self.firsts)


Layer = Callable[[Sequence[str], int], Awaitable[Run]]
"""(questions, tokens of each answer) → what it took. A new layer is one more entry of `layers`."""


def prompt_of(model: Model, question: str) -> Prompt:
    """The ids that the API makes of the question: every layer evaluates prompts of this shape."""
    conversation = Conversation((Message(role=Role.USER, text=question),))
    return plan_turn(model, TurnRequest(conversation=conversation)).prompt_ids


def processor_seconds(*pids: int) -> float:
    """Spent so far by these processes and by this one."""
    times = [psutil.Process(pid).cpu_times() for pid in (os.getpid(), *pids)]
    return sum(time.user + time.system for time in times)


def through_engine(engine: LlamaCppEngine, model: Model) -> Layer:
    async def one(prompt: Prompt, tokens: int, start: float) -> tuple[int, float]:
        count, first = 0, 0.0
        sampling = Sampling(max_tokens=tokens, temperature=0, ignore_eos=True)
        async with aclosing(engine.generate(prompt, sampling)) as steps:
            async for step in steps:
                if step.ids and not count:
                    first = time.perf_counter() - start
                count += len(step.ids)
        return count, first

    async def run(questions: Sequence[str], tokens: int) -> Run:
        assert engine.pid is not None
        prompts = [prompt_of(model, question) for question in questions]
        start, before = time.perf_counter(), processor_seconds(engine.pid)
        found = await asyncio.gather(*(one(prompt, tokens, start) for prompt in prompts))
        seconds, spent = time.perf_counter() - start, processor_seconds(engine.pid) - before
        return Run(sum(count for count, _ in found), seconds, spent, tuple(first for _, first in found))

    return run


def through_chat(url: str, client: aiohttp.ClientSession, engine: LlamaCppEngine) -> Layer:
    """The whole way: JSON in, events out, over a socket. The client runs in this very process, at the server's cost."""

    async def one(question: str, tokens: int, start: float) -> tuple[int, float]:
        count, first = 0, 0.0
        body = {
            "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": tokens,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        async with client.post(f"{url}/v1/chat/completions", json=body) as response:
            async for line in response.content:
                first = first or (time.perf_counter() - start if b'"content":"' in line else 0.0)
                if b'"choices":[]' in line:
                    count = json.loads(line.removeprefix(b"data: "))["usage"]["completion_tokens"]
        return count, first

    async def run(questions: Sequence[str], tokens: int) -> Run:
        assert engine.pid is not None
        start, before = time.perf_counter(), processor_seconds(engine.pid)
        found = await asyncio.gather(*(one(question, tokens, start) for question in questions))
        seconds, spent = time.perf_counter() - start, processor_seconds(engine.pid) - before
        return Run(sum(count for count, _ in found), seconds, spent, tuple(first for _, first in found))

    return run


@asynccontextmanager
async def served(model: Model) -> AsyncIterator[str]:
    """The URL of the API over ``model``, in this event loop."""
    ready = asyncio.Event()
    server = Server(create_app(StaticCatalog({model.name: model})), on_ready=lambda url: ready.set())
    task = asyncio.create_task(server.serve())
    await ready.wait()
    yield server.url
    server.should_exit = True
    await task


INNER = """
import json, sys, threading, time, xllamacpp
settings = json.loads(sys.stdin.readline())
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = settings["model"], settings["context"], settings["slots"]
params.n_ctx *= params.n_parallel
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
params.n_ubatch, params.hostnames, params.port, params.api_keys = 512, ["127.0.0.1"], 0, [settings["key"]]
params.verbosity, params.slot_prompt_similarity, params.cache_ram_mib = 2, settings["similarity"], settings["cache_mib"]
server = xllamacpp.Server(params)
print("ready", flush=True)

def one(prompt, tokens, start, found):
    first = 0.0
    def hear(event):
        nonlocal first
        first = first or time.perf_counter() - start
    server.handle_completions(
        {"prompt": prompt, "n_predict": tokens, "stream": True, "samplers": ["top_k"], "top_k": 1, "ignore_eos": True,
         "repeat_last_n": 0}, hear)
    found.append((tokens, first))  # It has no end but its limit.

for line in sys.stdin:
    prompts, tokens = json.loads(line)
    found, start = [], time.perf_counter()
    threads = [threading.Thread(target=one, args=(prompt, tokens, start, found)) for prompt in prompts]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    print(json.dumps([time.perf_counter() - start, found]), flush=True)
"""


class Inner:
    """llama.cpp's server core by itself, in a process of its own."""

    def __init__(self, settings: LlamaCppSettings, model: Model) -> None:
        self._model = model
        self._process = subprocess.Popen(
            [sys.executable, "-c", INNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        names = ("context", "slots", "threads", "similarity", "cache_mib")
        self._ask({name: getattr(settings, name) for name in names} | {"model": str(settings.model), "key": "bench"})

    def _ask(self, what: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    async def run(self, questions: Sequence[str], tokens: int) -> Run:
        prompts = [prompt_of(self._model, question) for question in questions]
        before = processor_seconds(self._process.pid)
        seconds, found = json.loads(await asyncio.to_thread(self._ask, [prompts, tokens]))
        spent = processor_seconds(self._process.pid) - before
        return Run(sum(count for count, _ in found), seconds, spent, tuple(first for _, first in found))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--streams", default="1,4,8")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    settings = LlamaCppSettings(model=chosen.model, context=512, slots=8, threads=chosen.threads, cache_mib=256)
    engine, tokenizer = await LlamaCppEngine.start(settings), gguf_tokenizer(read_gguf_metadata(chosen.model))
    format = template_format("chatml", tokenizer.controls.keys())
    model = Model(name="bench", engine=engine, tokenizer=tokenizer, format=format)
    inner = Inner(settings, model)
    try:
        async with served(model) as url, aiohttp.ClientSession() as client:
            # The first is the peer of all others.
            layers: dict[str, Layer] = {
                "inner engine": inner.run,
                "Engine.generate": through_engine(engine, model),
                "chat completions": through_chat(url, client, engine),
            }
            salt = 1000  # No prompt twice: two layers share an engine, which keeps what it evaluated.
            for streams in map(int, chosen.streams.split(",")):
                runs: dict[str, list[Run]] = {name: [] for name in layers}
                for _ in range(chosen.rounds + 1):
                    for name, layer in layers.items():
                        questions = [f"{salt + i} is a number. {QUESTION * 2}" for i in range(streams)]
                        salt += streams
                        runs[name].append(await layer(questions, chosen.tokens))
                report(streams, {name: found[1:] for name, found in runs.items()})  # The first round warms up.
    finally:
        inner.close()
        await engine.aclose()


def report(streams: int, runs: dict[str, list[Run]]) -> None:
    peer_name, peer = next(iter(runs.items()))
    for name, found in runs.items():
        rate = statistics.median(run.rate for run in found)
        first = statistics.median(run.first for run in found)
        ratio = statistics.median(mine.rate / its.rate for mine, its in zip(found, peer, strict=True))
        work = statistics.median(run.processor / run.tokens for run in found) * 1e3
        dearer = statistics.median(
            (mine.processor / mine.tokens) / (its.processor / its.tokens) for mine, its in zip(found, peer, strict=True)
        )
        later = statistics.median(mine.first - its.first for mine, its in zip(found, peer, strict=True))
        print(
            f"{streams:>3} streams  {name:<20} {rate:>7.1f} tokens/s ({ratio:.2f} x {peer_name})   "
            f"first token {first * 1e3:>7.1f} ms ({later * 1e3:+.1f})   "
            f"processor {work:>6.2f} ms a token ({dearer:.3f} x)"
        )


if __name__ == "__main__":
    asyncio.run(main())
