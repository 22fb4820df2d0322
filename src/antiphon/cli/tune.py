"""``antiphon doctor --tune``: with how many threads the embedded engine is fastest on this machine."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from statistics import median

import msgspec

from antiphon.catalog.describe import describe
from antiphon.catalog.files.store import ModelStore, not_here
from antiphon.catalog.known_formats import NO_FORMATS, known_formats
from antiphon.catalog.loading import NO_SECRETS
from antiphon.config import LoadedConfig, find_entry
from antiphon.config.load import Tuned, TunedEngine, tuned_file, write_tuned
from antiphon.engines import Engine, Sampling
from antiphon.engines.llama_cpp import LlamaCpp, LlamaCppEngine, LlamaCppSettings
from antiphon.engines.machine import usable_cores
from antiphon.errors import ConfigError, EngineError
from antiphon.errors.extras import require
from antiphon.tokens import Tokenizer

from .options import print_json
from .terminal import tell, waiting_for

SECONDS = 2.0
"""How long each measurement lasts; a token more where tokens are slower."""
ROUNDS = 3
"""The middle one counts."""
WORDS = "{} is a number. Tell me something about it that few people know, and why. "
NUMBERS = itertools.count()
"""No prompt twice: the engine keeps what it evaluated."""


class Speed(msgspec.Struct, frozen=True):
    """Tokens a second with so many threads: of one reply by itself, and of ``slots`` replies at once together."""

    threads: int
    one: float
    all: float

    @property
    def score(self) -> float:
        """Twice as fast in one of the two counts as much as in the other."""
        return math.sqrt(self.one * self.all)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Measured speeds, and the setting: ``in_use`` is another number where the configuration sets one."""

    model: str
    cores: int
    slots: int
    measured: tuple[Speed, ...]
    best: int
    in_use: int
    origin: str
    file: str


def measure_threads(loaded: LoadedConfig, reload: Callable[[], LoadedConfig], *, json: bool) -> None:
    """Measures the default model, prints what was measured and stores the best.

    Raises `ConfigError` where it is no chat model that runs here, `ModelError` where its file is not here.
    """
    require("xllamacpp", "local", "the embedded engine")
    name, settings, tokenizer = asyncio.run(measurable(loaded))
    with waiting_for("measuring the embedded engine"):
        measured = tuple(asyncio.run(speeds(settings, tokenizer, candidates(usable_cores()))))
    best = max(measured, key=lambda speed: speed.score)
    file = tuned_file(os.environ)
    write_tuned(file, Tuned(usable_cores(), TunedEngine(best.threads)))
    now = reload()
    report = Report(
        model=name, cores=usable_cores(), slots=settings.slots, measured=measured, best=best.threads,
        in_use=now.config.engine.threads, origin=now.origin(("engine", "threads")), file=str(file),
    )  # fmt: skip
    if json:
        print_json(report)
    else:
        tell("\n".join(lines(report)))


async def measurable(loaded: LoadedConfig) -> tuple[str, LlamaCppSettings, Tokenizer]:
    """The default model's name, how the engine runs it, and its vocabulary."""
    config = loaded.config
    name, entry = find_entry(config.model, config.entries)
    if not isinstance(entry.engine, LlamaCpp) or entry.task != "chat":
        hint = "antiphon doctor --tune --model NAME"
        raise ConfigError(f"{name} is no chat model that the embedded engine runs", hint=hint)
    path = ModelStore(Path(config.store.folder)).path(name, entry)
    if path is None:
        raise not_here(name)
    described = await describe(name, entry, path, config=config.engine, formats=known_formats(NO_FORMATS))
    spec = described.spec(config.engine, NO_SECRETS)
    return name, entry.engine.settings(spec), spec.tokenizer


def candidates(cores: int) -> list[int]:
    """Numbers of threads that may be the best: all cores, one less, or one for two that share a unit."""
    return sorted({cores, max(1, cores - 1), max(1, cores // 2)})


async def speeds(settings: LlamaCppSettings, tokenizer: Tokenizer, threads: Sequence[int]) -> list[Speed]:
    """The engine is started anew for each number, in turns, so that other work on the machine hurts all alike."""
    found: dict[int, list[Speed]] = {number: [] for number in threads}
    for _ in range(ROUNDS):
        for number, rounds in found.items():
            engine = await LlamaCppEngine.start(replace(settings, threads=number))
            try:
                one, all = [await rate(engine, tokenizer, streams) for streams in (1, settings.slots)]
            finally:
                await engine.aclose()
            rounds.append(Speed(number, one, all))
    return [
        Speed(number, median(speed.one for speed in rounds), median(speed.all for speed in rounds))
        for number, rounds in found.items()
    ]


async def rate(engine: Engine, tokenizer: Tokenizer, streams: int) -> float:
    """Tokens a second of so many replies together, each from its first token on."""
    counts = await asyncio.gather(*(reply(engine, tokenizer) for _ in range(streams)))
    return sum(tokens / seconds for tokens, seconds in counts)


async def reply(engine: Engine, tokenizer: Tokenizer) -> tuple[int, float]:
    """How many tokens came after the first, and in how many seconds."""
    prompt = tokenizer.encode(WORDS.format(next(NUMBERS)))
    sampling = Sampling(max_tokens=engine.info.context - len(prompt), temperature=0.0, ignore_eos=True)
    first, count = 0.0, 0
    async with aclosing(engine.generate(prompt, sampling)) as steps:
        async for step in steps:
            now = time.perf_counter()
            if not first:
                first = now
                continue
            count += len(step.ids)
            if now - first > SECONDS:
                break
    if not count:
        raise EngineError("the engine made no tokens")
    return count, now - first


def lines(report: Report) -> Iterator[str]:
    """The report for people."""
    together = f"{report.slots} at once"
    yield f"{report.model} on {report.cores} cores, tokens a second:"
    yield f"{'threads':>8} {'1 reply':>10} {together:>12}"
    for speed in report.measured:
        yield f"{speed.threads:>8} {speed.one:>10.1f} {speed.all:>12.1f}{'  best' * (speed.threads == report.best)}"
    yield f"engine.threads = {report.best} is stored in {report.file}."
    if report.in_use != report.best:
        yield f"Not in use: {report.origin} sets engine.threads = {report.in_use}."
