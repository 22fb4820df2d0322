"""Constrained replies of a real model at temperature 1: whatever it prefers, a reply that ends is what was requested.

`make check-structured` runs this file: a table of 30 seeds for each configuration, and exit 1 for any fault. Two
engines of one thread each take half an hour on two slow cores. Seeds and rows can be divided over machines:

PYTHONPATH=tests python tests/generation/structured.py --seeds 0-14 --only harmony --only "a schema" --engines 1
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from antiphon.catalog.files.store import ModelStore
from antiphon.config import load_config, shipped_entries
from antiphon.conversation import FinishReason, MessageEnded
from antiphon.engines import Engine, EngineInfo, EngineProxy, GenerateOptions, Sampling, Step
from antiphon.engines.gguf_file import read_gguf_metadata
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.errors import AntiphonError
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model, Plan, Reply, collect, plan_turn, run_turn
from antiphon.generation.compile import ReplyCompiler
from antiphon.generation.constraint import shape_of
from antiphon.tokens import Control, PieceDecoder, Tokenizer, gguf_tokenizer
from kit.configurations import CONFIGURATIONS, MOST, THINKING, Configuration

SLOTS = 6
CLOSERS = ("<|return|>", "<|end|>")
"""What may close an answer where a format spells its controls out."""
HALF_CHARACTER = 3
"""Ids at most that the engine does not report when the limit cuts a character (docs/engines.md)."""
ENDS = ("finished", "cut")
"""How a reply may end."""
KINDS = ("parse", "schema", "tool_choice", "reason", "engine")
"""What may be wrong with one."""
FORMATS = ("harmony", "openchatml", "chatml")

Ending = tuple[str, str]
"""One of `ENDS` and nothing, or one of `KINDS` and what was wrong."""


def format_named(name: str, controls: Collection[Control]) -> Format:
    """Harmony and OpenChatML spell their controls out for this vocabulary; the template has two tags."""
    match name:
        case "harmony":
            return harmony(controls)
        case "openchatml":
            return openchatml(controls)
        case _:
            return template_format(name, controls, replies=QWEN)


class Heard(EngineProxy):
    """An engine whose words are noted: what was sampled is read again, strictly."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.ids: list[int] = []

    @property
    def info(self) -> EngineInfo:
        return self._engine.info

    def using(self) -> AbstractAsyncContextManager[Engine]:
        return nullcontext(self._engine)

    async def generate(
        self, prompt: Sequence[int], sampling: Sampling, **options: Unpack[GenerateOptions]
    ) -> AsyncGenerator[Step, None]:
        async with aclosing(super().generate(prompt, sampling, **options)) as steps:
            async for step in steps:
                self.ids += step.ids
                yield step

    async def aclose(self) -> None:
        """The engine is another server's."""


@dataclass
class Check:
    """One model in one format, in every configuration."""

    engine: Engine
    tokenizer: Tokenizer
    format: Format
    compiler: ReplyCompiler = field(init=False)

    def __post_init__(self) -> None:
        self.compiler = ReplyCompiler(self.format, self.tokenizer, self.engine.info.end_ids)

    async def endings(self, configuration: Configuration, seed: int) -> list[Ending]:
        """How the reply ended, or all that is wrong with it."""
        heard = Heard(self.engine)
        plan = await self._plan(configuration, seed, heard)
        try:
            (reply,) = await collect(run_turn(plan))
        except AntiphonError as error:
            return [("engine", f"{error.code}: {error.message}")]
        if reply.reason is FinishReason.LENGTH_OUTPUT:
            spoken = reply.usage.completion_tokens
            whole = MOST - spoken <= HALF_CHARACTER
            return [("cut", "") if whole else ("reason", f"length after {spoken} tokens")]
        faults: list[Ending] = [*configuration.faults(reply), *self._strictly(plan, heard.ids, reply)]
        if configuration.closed and self._spells and not self._text(heard.ids).endswith(CLOSERS):
            faults.append(("parse", "not closed"))
        return faults or [("finished", "")]

    async def _plan(self, configuration: Configuration, seed: int, engine: Engine) -> Plan:
        model = Model(
            name="m",
            engine=engine,
            tokenizer=self.tokenizer,
            format=self.format,
            compiler=self.compiler,
            thinking_budget=THINKING,
        )
        bias = dict.fromkeys(engine.info.end_ids, -100.0) if self._spells else {}
        draft = plan_turn(model, configuration.request(seed, bias))
        shape = replace(shape_of(draft), **configuration.shape_of(seed))
        constraint = await self.compiler.compile(shape, draft.prompt)
        return Plan(draft.model, draft.request, draft.prompt, draft.prompt_ids, draft.sampling, constraint)

    @property
    def _spells(self) -> bool:
        return any(closer in map(str, self.format.stops) for closer in CLOSERS)

    def _text(self, ids: Sequence[int]) -> str:
        """The text, without the end tokens that the engine adds when a grammar is over."""
        pieces = PieceDecoder(self.tokenizer).feed([id for id in ids if id not in self.engine.info.end_ids])
        return "".join(map(str, pieces))

    def _strictly(self, plan: Plan, ids: Sequence[int], reply: Reply) -> list[Ending]:
        """What the strict parser says of the same ids; the model's end token is for formats that have it for a stop."""
        parser = self.format.parser(prompt=plan.prompt, strict=True)
        ends = {self.tokenizer.piece(id) for id in self.engine.info.end_ids} - set(self.format.stops)
        try:
            pieces = [piece for piece in PieceDecoder(self.tokenizer).feed(ids) if piece not in ends]
            events = [*parser.feed(pieces), *parser.close()]
        except AntiphonError as error:
            return [("parse", f"strictly: {error.message}")]
        read = [event.message.text for event in events if isinstance(event, MessageEnded)]
        texts = [str(message.text) for message in reply.messages]
        return [] if read == texts else [("parse", f"strictly read as {read}, reported as {texts}")]

    async def run(self, configuration: Configuration, seeds: Sequence[int]) -> Counter[Ending]:
        """How the replies of these seeds ended; as many at a time as the engine has slots."""
        room = asyncio.Semaphore(self.engine.info.slots)

        async def one(seed: int) -> list[Ending]:
            async with room:
                return await self.endings(configuration, seed)

        return Counter(ending for endings in await asyncio.gather(*map(one, seeds)) for ending in endings)


Row = tuple[str, str]
"""A format and a configuration, by their names."""


async def check(path: Path, rows: Sequence[Row], seeds: Sequence[int], engines: int) -> dict[Row, Counter[Ending]]:
    """Every row with every seed; an engine takes the next row when it is done with one, and says so."""
    tokenizer = gguf_tokenizer(read_gguf_metadata(path))
    settings = LlamaCppSettings(model=path, context=640, slots=SLOTS, threads=1, cache_mib=64)
    todo, done = deque(rows), dict[Row, Counter[Ending]]()
    started = time.monotonic()

    async def work() -> None:
        engine = await LlamaCppEngine.start(settings)
        checks = {name: Check(engine, tokenizer, format_named(name, tokenizer.controls)) for name in FORMATS}
        while todo:
            row = todo.popleft()
            done[row] = await checks[row[0]].run(CONFIGURATIONS[row[1]], seeds)
            spent = time.monotonic() - started
            print(f"{spent:6.0f} s  {len(done)} of {len(rows)}  {', '.join(row)}: {_summary(done[row])}", flush=True)
        await engine.aclose()

    await asyncio.gather(*(work() for _ in range(engines)))
    return done


def _summary(ended: Counter[Ending]) -> str:
    return ", ".join(f"{count} {' '.join(ending).strip()}" for ending, count in ended.items())


def table(done: Mapping[Row, Counter[Ending]]) -> str:
    """A line for each row; the last columns must be empty."""
    columns = (*ENDS, *KINDS)
    lines = [f"{'':<46}" + "".join(f"{column:>12}" for column in columns)]
    for row, ended in [*done.items(), (("all", ""), sum(done.values(), Counter[Ending]()))]:
        counts = [sum(count for (kind, _), count in ended.items() if kind == column) for column in columns]
        lines.append(f"{', '.join(filter(None, row)):<46}" + "".join(f"{count or '-':>12}" for count in counts))
    return "\n".join(lines)


def model_path() -> Path:
    """The file that ANTIPHON_TEST_MODEL names, else the store's."""
    named = os.environ.get("ANTIPHON_TEST_MODEL")
    store = ModelStore(Path(load_config(os.environ).config.store.folder))
    path = Path(named) if named else store.path("smollm2", shipped_entries()["smollm2"])
    assert path is not None, "the default model is not here: antiphon pull smollm2"
    return path


def seeds_of(text: str) -> range:
    """``0-29``, both included, or one seed."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=seeds_of, default=range(30), help="FIRST-LAST (default: 0-29)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a format or a configuration")
    parser.add_argument("--engines", type=int, default=2, help="of one thread each (default: 2)")
    given = parser.parse_args()
    unknown = set(given.only) - {*FORMATS, *CONFIGURATIONS}
    if unknown:
        parser.error(f"no format and no configuration: {', '.join(sorted(unknown))}")
    formats = [name for name in FORMATS if name in given.only] or FORMATS
    configurations = [name for name in CONFIGURATIONS if name in given.only] or list(CONFIGURATIONS)
    rows = [(format, name) for format in formats for name in configurations]
    print(f"{len(rows)} rows of {len(given.seeds)} seeds, temperature 1, {MOST} tokens at most", flush=True)
    done = asyncio.run(check(model_path(), rows, given.seeds, given.engines))
    print(f"\n{table({row: done[row] for row in rows})}")
    wrong = {(row, ending): n for row, ended in done.items() for ending, n in ended.items() if ending[0] not in ENDS}
    for (row, (kind, what)), count in wrong.items():
        print(f"{count} x {', '.join(row)}: {kind}: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
