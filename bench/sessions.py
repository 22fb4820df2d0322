"""A session's late turns beside its early ones: time to the first token, and tokens that were evaluated.

python bench/sessions.py model.gguf
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path

import aiohttp

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.server.server import Server
from antiphon.tokens import gguf_tokenizer

TURNS, ROUNDS = 20, 3
QUESTION = "Tell me one more thing about bees, please."


async def turn(client: aiohttp.ClientSession, url: str, session: str) -> tuple[float, int, int]:
    """Seconds to the first token, tokens evaluated, tokens of the prompt."""
    body = {"prompt": QUESTION, "session_id": session, "interactive_mode": True, "stream": True}
    started, first, last = time.perf_counter(), None, b""
    async with client.post(url, json={**body, "request_output_len": 24, "ignore_eos": True}) as response:
        async for line in response.content:
            first = first or time.perf_counter()
            last = line
    counts = json.loads(last)
    prompt = counts["history_tokens"] + counts["input_tokens"]
    assert first is not None
    return first - started, prompt - counts["cached_tokens"], prompt


async def main(path: Path) -> None:
    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=2048, slots=2, threads=1))
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    format = template_format("chatml", tokenizer.controls.keys())
    ready = asyncio.Event()
    model = Model(name="m", engine=engine, tokenizer=tokenizer, format=format)
    server = Server(create_app(StaticCatalog({"m": model})), on_ready=lambda url: ready.set())
    task = asyncio.create_task(server.serve())
    await ready.wait()
    url = f"{server.url}/v1/chat/interactive"
    async with aiohttp.ClientSession() as client:
        await turn(client, url, "warm")
        rounds = [[await turn(client, url, f"s{i}") for _ in range(TURNS)] for i in range(ROUNDS)]
    server.should_exit = True
    await task
    early, late = ([turns[at] for turns in rounds] for at in (1, TURNS - 1))
    for name, turns in (("turn 2", early), (f"turn {TURNS}", late)):
        ms = statistics.median(seconds for seconds, _, _ in turns) * 1000
        print(f"{name:>8}  ttft {ms:7.1f} ms  evaluated {turns[0][1]:4d} of {turns[0][2]:5d} tokens")
    ratios = [late_turn[0] / early_turn[0] for early_turn, late_turn in zip(early, late, strict=True)]
    print(f"   ratio  {statistics.median(ratios):.2f}  (lowest {min(ratios):.2f}, highest {max(ratios):.2f})")


asyncio.run(main(Path(sys.argv[1])))
