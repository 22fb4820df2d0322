"""What one API key can find out of what another sends, by the counts of cached tokens and by the time.

Each try, a key sends a text with a secret, and another sends the same text with the right secret or with a wrong one,
by the toss of a coin. If caches were shared, the answer to the right one would say so, and would come sooner. A row has
the mean of the cached tokens for right and for wrong guesses, and how often coins tossed anew would part the counts,
and the times, at least as far (the p-values of permutation tests). The last row is the same with `share_cache`, to show
that the attack itself works.

    make tenants                        # 2,000 tries of the first kind, 100 of the second
    python tests/clients/tenants.py --tries 100 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.files.store import ModelStore
from antiphon.catalog.static import StaticCatalog
from antiphon.config import load_config, shipped_entries
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.formats.template import template_format
from antiphon.generation import Model
from antiphon.http.gate.keys import new_key
from antiphon.tokens import gguf_tokenizer
from kit.api import exchange

(ANN, ANNS), (BOB, BOBS) = new_key("ann"), new_key("bob")
WORDS = "amber birch cedar delta ember flint grove heath inlet jetty knoll larch marsh north ochre plain".split()
LENGTH = 40
"""Words of a text before its secret: long enough that evaluating it is most of a request's time."""
ROUNDS = 2000
CERTAIN = 0.001
"""A p-value below this is taken for a leak; without one a run in five hundred shows it."""


@dataclass(frozen=True, slots=True)
class Try:
    right: bool
    cached: int
    seconds: float


async def application(stack: AsyncExitStack, *, share_cache: bool) -> Starlette:
    name = "smollm2"
    store, entry = ModelStore(Path(load_config({}).config.store.folder)), shipped_entries()[name]
    store.pull(name, entry)
    path = store.path(name, entry)
    assert path is not None
    settings = LlamaCppSettings(model=path, context=512, slots=4, threads=1, cache_mib=64, share_cache=share_cache)
    engine = await LlamaCppEngine.start(settings)
    stack.push_async_callback(engine.aclose)
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    format = template_format("chatml", tokenizer.controls.keys())
    model = Model(name=name, engine=engine, tokenizer=tokenizer, format=format)
    return create_app(StaticCatalog({name: model}), keys=[ANNS, BOBS])


async def send(application: Starlette, key: str, text: str) -> tuple[int, float]:
    """How many tokens the answer says were cached, and its seconds."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": text}], "max_tokens": 1}
    start = time.perf_counter()
    answer = await exchange(application, "/v1/chat/completions", body, [], key=key)
    seconds = time.perf_counter() - start
    assert answer.status == 200, answer.body
    cached: int = json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"]
    return cached, seconds


async def pry(application: Starlette, tries: int, dice: random.Random) -> list[Try]:
    await send(application, ANN, "Hello")
    await send(application, BOB, "Hello")
    results = []
    for _ in range(tries):
        text, secret = " ".join(dice.choices(WORDS, k=LENGTH)), dice.randrange(1000, 10000)
        right = dice.random() < 0.5
        guess = secret if right else dice.randrange(1000, 10000)
        await send(application, ANN, f"{secret} {text}")
        results.append(Try(right, *await send(application, BOB, f"{guess} {text}")))
    return results


def p_value(values: Sequence[float], coins: Sequence[bool], dice: random.Random) -> float:
    """How often coins tossed anew would part the means of ``values`` at least as far as the real ones do."""
    tossed = list(coins)

    def apart() -> float:
        sides = [
            [value for value, side in zip(values, tossed, strict=True) if side is right] for right in (True, False)
        ]
        return abs(statistics.fmean(sides[0]) - statistics.fmean(sides[1]))

    real, further = apart(), 0
    for _ in range(ROUNDS):
        dice.shuffle(tossed)
        further += apart() >= real
    return (further + 1) / (ROUNDS + 1)


async def main() -> int:
    arguments = argparse.ArgumentParser(description="What one API key finds out of another's prompts.")
    arguments.add_argument("--tries", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=20261122)
    given = arguments.parse_args()
    print(f"{'':<12}{'tries':>7}{'cached, right':>15}{'cached, wrong':>15}{'p of counts':>13}{'p of times':>12}")
    found = False
    for share_cache, tries in ((False, given.tries), (True, min(100, given.tries))):
        dice = random.Random(given.seed)
        async with AsyncExitStack() as stack:
            results = await pry(await application(stack, share_cache=share_cache), tries, dice)
        coins = [one.right for one in results]
        means = [statistics.fmean(one.cached for one in results if one.right is right) for right in (True, False)]
        ps = [p_value(values, coins, dice) for values in ([t.cached for t in results], [t.seconds for t in results])]
        label = "shared" if share_cache else "kept apart"
        print(f"{label:<12}{tries:>7}{means[0]:>15.1f}{means[1]:>15.1f}{ps[0]:>13.4f}{ps[1]:>12.4f}", flush=True)
        found = found or (not share_cache and min(ps) < CERTAIN)
    return int(found)


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
