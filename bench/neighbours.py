"""What a constrained reply costs the reply beside it, on the embedded engine: python bench/neighbours.py MODEL.gguf

One thread, two slots. The engine's processor time for each token of a plain reply, beside a neighbour without a grammar
and beside one under each grammar, in turns; the medians of the rounds. "Forced" is the same grammar without
`no_forcing`, as the engine would take it by itself.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from antiphon.engines import Sampling
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.grammar import Json
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.grammar.lark_text import HEADER
from antiphon.tokens import Tokenizer, gguf_tokenizer

TOKENS, ROUNDS = 48, 3
TICKS = os.sysconf("SC_CLK_TCK")
GRAMMARS: dict[str, Any] = {
    "a const of 16 KiB": {"const": "xy z" * 4_000},
    "1,000 items of 1,000 characters": {"type": "array", "minItems": 1_000, "items": {"const": "y" * 1_000}},
    "`^a*$` of 100,000": {"type": "string", "pattern": "^a*$", "minLength": 100_000},
    "`^(?:a|b)*a(?:a|b){25}$`": {"type": "string", "pattern": "^(?:a|b)*a(?:a|b){25}$"},
    "5,000 values, again and again": {
        "type": "array",
        "minItems": 1_000,
        "items": {"enum": [f"value number {i} of many {i * 7919 % 10007}" for i in range(5_000)]},
    },
    "`^(?:.*a.{100}|.*b.{99}c)*$`": {"type": "string", "pattern": "^(?:.*a.{100}|.*b.{99}c)*$"},
}


def spent(engine: LlamaCppEngine) -> float:
    """Processor seconds of the engine's process so far."""
    fields = Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def say(engine: LlamaCppEngine, prompt: list[int], grammar: str | None, tokens: int) -> float:
    """Processor seconds of the engine for each token after the first."""
    seen, began = 0, 0.0
    sampling = Sampling(max_tokens=tokens, temperature=1.0, seed=1, ignore_eos=grammar is None)
    async for step in engine.generate(prompt, sampling, grammar=grammar):
        began = began or spent(engine)
        seen += len(step.ids)
    return (spent(engine) - began) / (seen - 1)


async def beside(engine: LlamaCppEngine, tokenizer: Tokenizer, grammar: str | None) -> float:
    """What the plain reply costs while its neighbour, which began earlier and ends later, is at work."""
    neighbour = asyncio.create_task(say(engine, tokenizer.encode("Say it:"), grammar, 8 * TOKENS))
    await asyncio.sleep(0.5)
    cost = await say(engine, tokenizer.encode("Once upon a time"), None, TOKENS)
    assert not neighbour.done(), "the neighbour ended first"
    neighbour.cancel()
    await asyncio.gather(neighbour, return_exceptions=True)
    return cost


async def main(path: Path) -> None:
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    engine = await LlamaCppEngine.start(LlamaCppSettings(model=path, context=2048, slots=2, threads=1, cache_mib=0))
    vocabulary = Vocabulary(tokenizer, engine.info.end_ids)
    grammars = {name: compile_grammar(Json(schema), vocabulary).lark for name, schema in GRAMMARS.items()}
    forced = {f"{name}, forced": text.replace(HEADER, "%llguidance {}") for name, text in grammars.items()}
    asked: dict[str, str | None] = {"nothing": None, **grammars, **forced}
    costs: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(ROUNDS):
        for name, grammar in asked.items():
            costs[name].append(await beside(engine, tokenizer, grammar))
    plain = statistics.median(costs["nothing"])
    for name, measured in costs.items():
        cost = statistics.median(measured)
        print(f"| {name} | {cost * 1000:.0f} ms | {plain / cost:.2f} |", flush=True)
    await engine.aclose()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
