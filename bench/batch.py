"""How many tokens of prompts a batch evaluates: with its lines by what their prompts share, and in the file's order.

``bench/batch.py [GROUPS] [LINES]`` makes a batch of so many system texts with so many questions each, shuffled, and has
the default model answer it twice with one token a line. Tokens that the engine found in its cache do not count.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from pathlib import Path

import msgspec

from antiphon.api.batches.offline import OfflineBatch, Tally
from antiphon.api.batches.routes import ENDPOINTS
from antiphon.config import BatchesConfig, load_config
from antiphon.http.context import Context
from antiphon.library.app import assembled

SENTENCES = 12
"""Of each system text."""


def lines(groups: int, each: int) -> list[str]:
    """The batch: all of a group share their system text, which differs from the others' in its first word."""
    written = []
    for group in range(groups):
        system = f"Helper {group}. " + " ".join(f"Rule {i} of helper {group} is to be brief." for i in range(SENTENCES))
        for question in range(each):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": f"What is {question} + 1?"}]
            request = {"custom_id": f"{group}-{question}", "method": "POST", "url": "/v1/chat/completions"}
            written.append(json.dumps({**request, "body": {"messages": messages, "max_tokens": 1}}))
    random.Random(7).shuffle(written)
    return written


async def answered(batch: Path, out: Path, *, by_prompt: bool) -> Tally:
    """What one run of the batch took; the engine is a new one, whose cache is empty."""
    config = msgspec.structs.replace(load_config(os.environ).config, batches=BatchesConfig(enabled=False))
    async with assembled(config, preload=False) as parts, parts.app.router.lifespan_context(parts.app):
        context: Context = parts.app.state.context
        return await OfflineBatch(context, ENDPOINTS, batch, by_prompt).run(out)


def main(groups: int = 8, each: int = 12) -> None:
    with tempfile.TemporaryDirectory() as folder:
        batch = Path(folder) / "in.jsonl"
        batch.write_text("\n".join(lines(groups, each)) + "\n")
        evaluated = {}
        for name, by_prompt in (("by prompt", True), ("file order", False)):
            tally = asyncio.run(answered(batch, Path(folder) / f"{name}.jsonl", by_prompt=by_prompt))
            evaluated[name] = tally.evaluated
            print(f"{name:>10}: {tally.prompt_tokens} tokens of prompts, {tally.evaluated} evaluated", flush=True)
    print(f"     ratio: {evaluated['by prompt'] / evaluated['file order']:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
