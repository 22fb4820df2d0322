"""How the cost of work grows with its size: the exponent of each, which is 1 where twice the work takes twice the time.

python bench/growth.py [--work prompt,messages,…] [--rounds 5] [--json FILE]

Each kind of work is done at sizes that double; a time is processor time of this process, the least of the rounds, and
new in each (no text is found in a cache of texts). The exponent is the slope of the time over the size, both as
logarithms, by least squares over the larger half of the sizes, and between the last two.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from transcript import transcript

from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries
from antiphon.conversation import Conversation, Message, Role, ToolSpec
from antiphon.engines import ScriptedEngine
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import read, validate, write
from antiphon.formats.template import jinja_format, template_format
from antiphon.generation import Model, Plan, TurnRequest, plan_turn, prepare_turn, run_turn
from antiphon.tokens import gguf_tokenizer, o200k_harmony

WORDS = "The quick brown fox jumps over the lazy dog; naïve façades don't help anybody. "
NUMBERS = itertools.count()
QWEN = Path(__file__).parents[1] / "tests" / "formats" / "template" / "jinja" / "qwen3.jinja"


Making = Callable[[int], Callable[[], object]]
"""Prepares the work of a size, which then is timed."""


@dataclass(frozen=True)
class Growth:
    """The sizes double, from the ``first``."""

    unit: str
    first: int
    doublings: int
    make: Making


@dataclass(frozen=True)
class Measured:
    """Seconds of processor time at each size."""

    sizes: Sequence[int]
    seconds: Sequence[float]

    @property
    def exponent(self) -> float:
        """Of the larger half of the sizes, where fixed costs count for little."""
        half = len(self.sizes) // 2
        points = [(math.log(size), math.log(spent)) for size, spent in zip(self.sizes, self.seconds, strict=True)][
            half:
        ]
        x, y = (sum(column) / len(points) for column in zip(*points, strict=True))
        return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)

    @property
    def last(self) -> float:
        return math.log2(self.seconds[-1] / self.seconds[-2])


def fresh(size: int) -> str:
    """A text of about so many characters that was never seen before."""
    text = f"{next(NUMBERS)}: {WORDS}"
    return (text * (size // len(text) + 1))[:size]


def model_of(format: str) -> Model:
    """A model of this format with the vocabulary of the default model, or of gpt-oss, over a scripted engine."""
    engine = ScriptedEngine([1] * 8, context=10_000_000)
    if format == "harmony":
        return Model(name=format, engine=engine, tokenizer=o200k_harmony(), format=Harmony())
    source = ModelStore(Path(load_config(os.environ).config.store.folder)).path("smollm2", shipped_entries()["smollm2"])
    if source is None:
        raise SystemExit("the default model is not here: make model")
    tokenizer = gguf_tokenizer(read_gguf_metadata(source))
    controls = tokenizer.controls.keys()
    spoken = jinja_format(QWEN.read_text(), controls) if format == "jinja" else template_format(format, controls)
    return Model(name=format, engine=engine, tokenizer=tokenizer, format=spoken)


def chat(turns: int, size: int) -> Conversation:
    messages = (
        Message(role=(Role.ASSISTANT if n % 2 else Role.USER), text=fresh(size)) for n in range(turns - 1 + turns % 2)
    )
    return Conversation(tuple(messages))


def prompts(format: str) -> Making:
    model = model_of(format)

    def make(size: int) -> Callable[[], object]:
        request = TurnRequest(conversation=chat(1, size))
        return lambda: plan_turn(model, request)

    return make


def histories(format: str) -> Making:
    model = model_of(format)

    def make(turns: int) -> Callable[[], object]:
        request = TurnRequest(conversation=chat(turns, 200))
        return lambda: plan_turn(model, request)

    return make


def next_turns(format: str) -> Making:
    """A chat that was rendered before, and two messages more."""
    model = model_of(format)

    def make(turns: int) -> Callable[[], object]:
        before = chat(turns, 200)
        plan_turn(model, TurnRequest(conversation=before))
        added = (Message(role=Role.ASSISTANT, text=fresh(200)), Message(role=Role.USER, text=fresh(200)))
        request = TurnRequest(conversation=Conversation((*before.messages, *added)))
        return lambda: plan_turn(model, request)

    return make


def tools(format: str) -> Making:
    """With the grammar that holds one of the calls."""
    model = model_of(format)

    def make(count: int) -> Callable[[], object]:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("city", "unit", "day")}}
        offered = tuple(
            ToolSpec(name=f"tool_{next(NUMBERS)}", description=fresh(80), parameters=schema) for _ in range(count)
        )
        request = TurnRequest(conversation=Conversation(chat(1, 20).messages, tools=offered))
        return lambda: asyncio.run(prepared(model, request))

    return make


async def prepared(model: Model, request: TurnRequest) -> Plan:
    return await prepare_turn(model, request)


def replies(format: str) -> Making:
    """Read as it is sampled, an id a step."""
    model = model_of(format)
    words = model.tokenizer.encode(WORDS)

    def make(count: int) -> Callable[[], object]:
        said = [*itertools.islice(itertools.cycle(words), count)]
        speaking = Model(
            name="m", engine=ScriptedEngine(said, context=10_000_000), tokenizer=model.tokenizer, format=model.format
        )
        request = TurnRequest(conversation=chat(1, 20), max_tokens=count)
        plan = asyncio.run(prepared(speaking, request))
        return lambda: asyncio.run(run(plan))

    return make


async def run(*plans: Plan) -> None:
    async def one(plan: Plan) -> None:
        async with aclosing(run_turn(plan)) as events:
            async for _ in events:
                pass

    await asyncio.gather(*map(one, plans))


def streams(format: str) -> Making:
    """So many replies of 50 tokens at once."""
    model = model_of(format)
    said = [*itertools.islice(itertools.cycle(model.tokenizer.encode(WORDS)), 50)]
    speaking = Model(
        name="m", engine=ScriptedEngine(said, slots=4096), tokenizer=model.tokenizer, format=model.format
    )  # fmt: skip

    def make(count: int) -> Callable[[], object]:
        plan = asyncio.run(prepared(speaking, TurnRequest(conversation=chat(1, 20))))
        return lambda: asyncio.run(run(*[plan] * count))

    return make


def transcripts(work: Callable[[bytes], object]) -> Making:
    def make(kilobytes: int) -> Callable[[], object]:
        data = b"".join(transcript(kilobytes * 1000))[: kilobytes * 1000]
        data = data[: data.rindex(b"<|return|>") + 11]
        return lambda: work(data)

    return make


FORMATS = ("chatml", "harmony", "jinja")
READ: dict[str, Callable[[bytes], object]] = {
    "read": read,
    "validate": lambda data: list(validate(data)),
    "write": lambda data: write(read(data)),
}


T = TypeVar("T")


def growth_of(unit: str, first: int, doublings: int, make: Callable[[T], Making], of: T) -> Growth:
    return Growth(unit, first, doublings, make(of))


def kinds() -> Iterator[tuple[str, Callable[[], Growth]]]:
    """The names, and what makes each when its turn comes: vocabularies take memory."""
    for one in FORMATS:
        yield f"prompt, {one}", partial(growth_of, "characters", 8192, 7, prompts, one)
        yield f"messages, {one}", partial(growth_of, "messages", 64, 7, histories, one)
        yield f"next turn, {one}", partial(growth_of, "messages", 64, 7, next_turns, one)
        yield f"tools, {one}", partial(growth_of, "tools", 8, 7, tools, one)
        yield f"reply, {one}", partial(growth_of, "tokens", 512, 7, replies, one)
        yield f"streams, {one}", partial(growth_of, "streams", 16, 7, streams, one)
    for name, work in READ.items():
        yield f"transcript, {name}", partial(growth_of, "kB", 64, 6, transcripts, work)


def measured(growth: Growth, rounds: int) -> Measured:
    sizes, seconds = [growth.first << n for n in range(growth.doublings + 1)], list[float]()
    growth.make(growth.first)()  # Once before, so that all is there.
    for size in sizes:
        least = math.inf
        for _ in range(rounds):
            work = growth.make(size)
            gc.collect()
            began = time.process_time()
            work()
            least = min(least, time.process_time() - began)
        seconds.append(least)
    return Measured(sizes, seconds)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--work", default="", help="part of the names of those to run")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json", type=Path)
    given = arguments.parse_args()
    found = {}
    print(f"{'work':<22} {'of':<11} {'from':>7} {'to':>9} {'ms':>9} {'ms':>9} {'exponent':>9} {'last':>6}")
    for name, make in kinds():
        if given.work not in name:
            continue
        growth = make()
        result = found[name] = measured(growth, given.rounds)
        first, last = (seconds * 1e3 for seconds in (result.seconds[0], result.seconds[-1]))
        print(
            f"{name:<22} {growth.unit:<11} {result.sizes[0]:>7,} {result.sizes[-1]:>9,} "
            f"{first:>9.2f} {last:>9.2f} {result.exponent:>9.2f} {result.last:>6.2f}",
            flush=True,
        )
    if given.json:
        given.json.write_text(json.dumps({name: asdict(result) for name, result in found.items()}, indent=1))


if __name__ == "__main__":
    main()
