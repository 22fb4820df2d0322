"""Engines sleep when they are idle or others need their memory, and wake when requested. The clock is handed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from antiphon.catalog import Catalog, open_catalog
from antiphon.catalog.memory import ModelMemory, SleepingEngine
from antiphon.config import Config, EngineConfig, ModelEntry, ModelFilesConfig
from antiphon.conversation import Conversation, Message, Role
from antiphon.engines import Sampling, Scripted, ScriptedEngine
from antiphon.engines.llama_cpp import LlamaCpp
from antiphon.errors import EngineError, ModelError, OverloadedError
from antiphon.generation import Model, TurnRequest, collect, prepare_turn, run_turn
from antiphon.http.errors import answer_to
from kit.waiting import PATIENCE, until


class Clock:
    """Calls when the test says that the time has come."""

    def __init__(self) -> None:
        self.pending: dict[object, tuple[float, Callable[[], None]]] = {}

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self)
        self.pending[timer] = (seconds, call)
        return timer

    async def strike(self) -> None:
        """What is pending is due, and gets done."""
        due, self.pending = list(self.pending.values()), {}
        for _, call in due:
            call()
        while naps := [task for task in asyncio.all_tasks() if "_put_to_sleep" in repr(task.get_coro())]:
            await asyncio.gather(*naps)


class Timer:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def cancel(self) -> None:
        self._clock.pending.pop(self, None)


class Starts:
    """Starts engines that say one id, and counts those that run."""

    def __init__(self) -> None:
        self.count = 0
        self.running = 0
        self.most = 0
        self.error: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self) -> Counted:
        await self.go.wait()
        if self.error:
            raise self.error
        self.count += 1
        self.running += 1
        self.most = max(self.most, self.running)
        return Counted(self)


class Counted(ScriptedEngine):
    def __init__(self, starts: Starts) -> None:
        super().__init__([7])
        self._starts = starts

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self._starts.running -= 1


async def use(engine: SleepingEngine) -> list[int]:
    return [id async for step in engine.generate([1], Sampling(max_tokens=1)) for id in step.ids]


async def test_an_idle_engine_sleeps_when_its_time_has_come_and_wakes_when_asked() -> None:
    clock, starts = Clock(), Starts()
    engine = await SleepingEngine.woken("a", 1, starts, ModelMemory(idle=60, later=clock.later))
    assert [seconds for seconds, _ in clock.pending.values()] == [60]
    await clock.strike()
    assert (engine.awake, starts.running) == (False, 0)
    assert await use(engine) == [7]
    assert (engine.awake, starts.count) == (True, 2)
    await engine.aclose()
    assert (starts.running, clock.pending) == (0, {})


async def test_an_engine_that_works_is_left_alone() -> None:
    clock, starts = Clock(), Starts()
    engine = await SleepingEngine.woken("a", 1, starts, ModelMemory(idle=60, later=clock.later))
    due = [call for _, call in clock.pending.values()]
    async with aclosing(engine.generate([1], Sampling(max_tokens=1))) as steps:
        await anext(steps)
        assert clock.pending == {}
        due[0]()  # A timer that fired in the very moment when work began.
        await asyncio.sleep(0)
        assert engine.awake
    assert len(clock.pending) == 1
    await engine.aclose()


async def test_without_a_time_it_never_sleeps() -> None:
    clock = Clock()
    engine = await SleepingEngine.woken("a", 1, Starts(), ModelMemory(later=clock.later))
    assert (clock.pending, engine.awake) == ({}, True)
    await engine.aclose()


async def test_the_longest_unused_makes_room() -> None:
    starts, memory = Starts(), ModelMemory(budget=20)
    a, b = [await SleepingEngine.woken(name, 10, starts, memory) for name in "ab"]
    await use(a)
    c = await SleepingEngine.woken("c", 10, starts, memory)
    assert [engine.awake for engine in (a, b, c)] == [True, False, True]
    assert await use(b) == [7]
    assert [engine.awake for engine in (a, b, c)] == [False, True, True]
    assert starts.most == 2
    for engine in (a, b, c):
        await engine.aclose()


async def test_nobody_is_put_to_sleep_over_work() -> None:
    starts, memory = Starts(), ModelMemory(budget=10)
    a = await SleepingEngine.woken("a", 10, starts, memory)
    async with aclosing(a.generate([1], Sampling(max_tokens=1))) as steps:
        await anext(steps)
        with pytest.raises(OverloadedError) as caught:
            await SleepingEngine.woken("b", 10, starts, memory)
        assert (caught.value.code, answer_to(caught.value).status) == ("memory_busy", 503)
    assert (await SleepingEngine.woken("b", 10, starts, memory)).awake
    assert not a.awake


async def test_what_can_never_fit_is_reported_with_both_numbers() -> None:
    starts, memory = Starts(), ModelMemory(budget=10 * 2**20)
    a = await SleepingEngine.woken("a", 2**20, starts, memory)
    with pytest.raises(ModelError, match=r"20 MiB.*10 MiB") as caught:
        await SleepingEngine.woken("b", 20 * 2**20, starts, memory)
    assert caught.value.code == "model_memory"
    assert a.awake  # It did not have to go for nothing.


async def test_an_engine_that_does_not_start_takes_no_room() -> None:
    starts, memory = Starts(), ModelMemory(budget=10)
    starts.error = ModelError("no")
    with pytest.raises(ModelError):
        await SleepingEngine.woken("a", 10, starts, memory)
    starts.error = None
    assert (await SleepingEngine.woken("b", 10, starts, memory)).awake


async def test_many_who_ask_for_more_engines_than_fit_are_all_served() -> None:
    clock, starts = Clock(), Starts()
    memory = ModelMemory(budget=20, idle=1, later=clock.later)
    engines = [await SleepingEngine.woken(str(i), 10, starts, memory) for i in range(4)]

    async def ask(i: int) -> None:
        while True:
            try:
                assert await use(engines[i % 4]) == [7]
            except OverloadedError:
                await asyncio.sleep(0)
            else:
                return

    asking = [asyncio.create_task(ask(i)) for i in range(40)]
    for _ in range(10):
        await clock.strike()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*asking)
    assert starts.most <= 2
    for engine in engines:
        await engine.aclose()
    assert starts.running == 0


async def test_one_who_goes_away_does_not_stop_the_waking() -> None:
    clock, starts = Clock(), Starts()
    engine = await SleepingEngine.woken("a", 1, starts, ModelMemory(idle=60, later=clock.later))
    await clock.strike()
    starts.go.clear()
    leaver = asyncio.create_task(use(engine))
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.gather(leaver, return_exceptions=True)
    assert clock.pending == {}  # It is on its way, and not idle yet.
    starts.go.set()
    await engine.wake()
    assert (engine.awake, starts.count, len(clock.pending)) == (True, 2, 1)
    await engine.aclose()


async def test_a_model_is_awake_when_the_catalog_gives_it() -> None:
    clock, starts = Clock(), Starts()
    plain = await open_catalog(Config(model="a", models={"a": ModelEntry(engine=Scripted())})).get("a")

    async def load(name: str, entry: ModelEntry) -> Model:
        engine = await SleepingEngine.woken(name, 1, starts, ModelMemory(idle=60, later=clock.later))
        return replace(plain, engine=engine)

    catalog = Catalog({"a": ModelEntry()}, listed=["a"], load=load)
    await catalog.get("a")
    await clock.strike()
    assert dict(catalog.loaded) == {}
    await catalog.get("a")
    assert (list(catalog.loaded), starts.count) == (["a"], 2)
    await catalog.aclose()


async def test_a_closed_engine_stays_closed() -> None:
    engine = await SleepingEngine.woken("a", 1, Starts(), ModelMemory())
    await engine.aclose()
    with pytest.raises(EngineError, match="closed"):
        await use(engine)


async def reply_of(model: Model) -> str:
    question = Conversation((Message(role=Role.USER, text="What is the capital of France?"),))
    request = TurnRequest(conversation=question, temperature=0.0, max_tokens=20)
    (reply,) = await collect(run_turn(await prepare_turn(model, request)))
    return reply.messages[0].text


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


async def test_two_models_take_turns_in_memory_that_holds_one(smollm2_path: Path, tmp_path: Path) -> None:
    entry = ModelEntry(source=str(smollm2_path), format="chatml", context=256, slots=1, engine=LlamaCpp(threads=1))
    config = Config(
        model="a",
        models={"a": entry, "b": entry},
        engine=EngineConfig(memory_mib=250, idle_unload=600),
        store=ModelFilesConfig(folder=str(tmp_path)),
    )
    clock, before = Clock(), children()
    catalog = open_catalog(config, later=clock.later)
    assert children() == before  # Nothing runs until it is requested.
    a = await catalog.get("a")
    answer = await reply_of(a)
    assert "Paris" in answer
    b = await catalog.get("b")
    assert list(catalog.loaded) == ["b"]
    assert len(children() - before) == 1
    assert await reply_of(b) == answer
    assert await reply_of(a) == answer
    assert list(catalog.loaded) == ["a"]
    await clock.strike()
    assert (dict(catalog.loaded), children()) == ({}, before)
    assert await reply_of(a) == answer
    await catalog.aclose()
    assert children() == before


async def test_a_model_that_the_budget_cannot_hold_is_refused_before_it_is_loaded(
    smollm2_path: Path, tmp_path: Path
) -> None:
    config = Config(
        model="a",
        models={"a": ModelEntry(source=str(smollm2_path), format="chatml")},
        engine=EngineConfig(memory_mib=100),
        store=ModelFilesConfig(folder=str(tmp_path)),
    )
    with pytest.raises(ModelError, match="memory_mib") as caught:
        await open_catalog(config).get("a")
    assert (caught.value.code, answer_to(caught.value).status) == ("model_memory", 503)


async def test_a_retired_engine_leaves_the_memory_when_its_work_is_done() -> None:
    starts = Starts()
    engine = await SleepingEngine.woken("a", 1, starts, ModelMemory())
    async with aclosing(engine.generate([1], Sampling(max_tokens=1))) as steps:
        await anext(steps)
        await engine.retire()
        assert (engine.awake, starts.running) == (True, 1)
    await until(lambda: not starts.running)
    assert not engine.awake
    idle = await SleepingEngine.woken("b", 1, starts, ModelMemory())
    await idle.retire()
    assert (idle.awake, starts.running) == (False, 0)
    await engine.aclose()
    await idle.aclose()
