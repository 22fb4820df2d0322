"""POST /v1/embeddings against the engine by itself: texts a second, as ratios. Run: python bench/embeddings.py"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from antiphon.api import create_app
from antiphon.catalog.describe import describe
from antiphon.catalog.files.store import ModelStore
from antiphon.catalog.known_formats import known_formats
from antiphon.catalog.loading import open_model
from antiphon.catalog.static import StaticCatalog
from antiphon.config import EngineConfig, load_config, shipped_entries
from antiphon.generation import plan_embedding
from antiphon.http.server.server import Server

NAME = "all-minilm-l6-v2"
TEXTS = [f"Sentence {i} speaks of {('cats', 'bread', 'stars', 'taxes')[i % 4]} and of little else." for i in range(64)]
ROUNDS = 7


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return time.perf_counter() - started


async def main() -> None:
    entry = shipped_entries()[NAME]
    store = ModelStore(Path(load_config({}).config.store.folder))
    store.pull(NAME, entry)
    path = store.path(NAME, entry)
    assert path is not None
    config = EngineConfig(threads=1)
    model = await open_model(await describe(NAME, entry, path, config=config, formats=known_formats()), config=config)
    ready = asyncio.Event()
    server = Server(create_app(StaticCatalog({NAME: model})), on_ready=lambda url: ready.set())
    serving = asyncio.create_task(server.serve())
    await ready.wait()
    ids = plan_embedding(model, TEXTS).inputs

    async with aiohttp.ClientSession(server.url) as client:

        async def ask(texts: list[str], format: str) -> None:
            async with client.post("/v1/embeddings", json={"input": texts, "encoding_format": format}) as answer:
                json.loads(await answer.read())

        print(f"{'texts a request':>16} {'format':>8} {'texts/s':>8} {'engine alone':>13} {'ratio':>6}")
        for count in (1, 64):
            for format in ("float", "base64"):
                served, alone = [], []
                for _ in range(ROUNDS):
                    alone.append(await seconds(lambda count=count: model.engine.embed(ids[:count])))
                    served.append(await seconds(lambda count=count, format=format: ask(TEXTS[:count], format)))
                over_http, direct = count / statistics.median(served), count / statistics.median(alone)
                print(f"{count:>16} {format:>8} {over_http:>8.0f} {direct:>13.0f} {over_http / direct:>6.2f}")
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
