"""An engine in a replica of its own: the contract of all engines over its messages, batches, errors and hanging up.

Ray itself is left out: between the two ends stands a channel in this process, which carries the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from antiphon.engines import SAMPLING, Engine, EngineEnd, EngineInfo, Sampling, ScriptedEngine, Step
from antiphon.errors import ContextError, EngineLostError, Position, UnsupportedError
from antiphon.ray.engine import EngineHost, RayEngine, batches, decode, encode
from antiphon.tenancy import Tenant
from kit.api import ids, scripted
from kit.breaking import Breaking
from kit.engine_contract import EmbeddingContract, EngineContract, steps_of
from kit.waiting import until

PI = [3, 1, 4, 15, 9, 2, 6, 5, 35, 8]


class Here:
    """A channel to one host in this process."""

    def __init__(self, engine: Engine, *, gather: float = 0.0) -> None:
        self._host = EngineHost(engine, gather=gather)
        self.prompts: list[tuple[str, list[int], str | None]] = []
        self.messages = 0

    async def generate(
        self, domain: str, prompt: list[int], call: bytes, *, session: str | None
    ) -> AsyncGenerator[bytes, None]:
        self.prompts.append((domain, prompt, session))
        async with aclosing(self._host.generate(prompt, call)) as messages:
            async for message in messages:
                self.messages += 1
                yield message

    async def ask(self, method: str, *arguments: bytes) -> bytes:
        answer: bytes = await getattr(self._host, method)(*arguments)
        return answer


async def over(engine: Engine, *, gather: float = 0.0) -> RayEngine:
    return await RayEngine.connect(Here(engine, gather=gather))


class TestOverScripted(EngineContract):
    @pytest.fixture
    async def subject(self) -> Engine:
        return await over(ScriptedEngine(PI, end_ids=frozenset({8}), context=32))

    @pytest.fixture
    def prompt(self) -> Sequence[int]:
        return [1, 2, 3]


class TestOverScriptedInBatches(TestOverScripted):
    @pytest.fixture
    async def subject(self) -> Engine:
        return await over(ScriptedEngine(PI, end_ids=frozenset({8}), context=32), gather=0.005)


class TestEmbeddings(EmbeddingContract):
    @pytest.fixture
    async def encoder(self) -> Engine:
        return await over(ScriptedEngine([8], embedding=lambda input: (0.6, 0.8) if input[0] % 2 else (0.8, 0.6)))

    @pytest.fixture
    def inputs(self) -> Sequence[Sequence[int]]:
        return [[1, 2, 3], [2, 3], [3]]


async def test_it_says_what_the_engine_elsewhere_can_do() -> None:
    engine = ScriptedEngine(PI, end_ids=frozenset({8}), context=32, honours=SAMPLING - {"min_p"})
    assert (await over(engine)).info == engine.info


async def test_pairs_are_ranked_there_or_refused_as_there() -> None:
    engine = await over(ScriptedEngine([8], scoring=lambda query, text: len(text) / 10))
    assert (await engine.rank("a", ["bb", "cccc"])).scores == (0.2, 0.4)
    with pytest.raises(UnsupportedError):
        await (await over(Breaking([], ValueError()))).rank("a", ["b"])


async def test_the_first_step_goes_at_once_and_those_that_follow_go_together() -> None:
    channel = Here(ScriptedEngine(PI, end_ids=frozenset({8}), context=32), gather=60.0)
    steps = await steps_of(await RayEngine.connect(channel), [1], Sampling(max_tokens=32))
    assert [id for step in steps for id in step.ids] == PI
    assert channel.messages <= 3


async def test_the_channel_learns_what_a_prompt_may_share_a_cache_with_and_its_session() -> None:
    channel = Here(ScriptedEngine(PI))
    engine, ann = await RayEngine.connect(channel), Tenant(owner="ann", affinity="s")
    async with aclosing(engine.generate((1, 2), Sampling(max_tokens=1), tenant=ann)) as steps:
        assert [step async for step in steps]
    assert channel.prompts == [(ann.domain(), [1, 2], "s")]


@pytest.mark.parametrize("gather", [0.0, 60.0])
async def test_who_goes_away_stops_the_engine_there(gather: float) -> None:
    engine = scripted(ids("a" * 4000), delay=0.001)
    steps = (await over(engine, gather=gather)).generate([1], Sampling(max_tokens=4000))
    async with aclosing(steps):
        await anext(steps)
        assert engine.running == 1
    await until(lambda: engine.running == 0)


async def test_its_errors_arrive_as_they_were_after_what_came_before() -> None:
    error = ContextError("Too long.", position=Position(path="prompt"))
    error.tokens, error.limit = 9, 8
    engine, came = await over(Breaking(PI[:3], error)), list[int]()

    async def read() -> None:
        async with aclosing(engine.generate([1], Sampling(max_tokens=9))) as steps:
            async for step in steps:
                came.extend(step.ids)

    with pytest.raises(ContextError) as raised:
        await read()
    assert came == PI[:3]
    assert vars(raised.value) == vars(error)


async def test_a_stream_that_ends_without_its_end_is_a_lost_engine() -> None:
    class Cut(Here):
        async def generate(
            self, domain: str, prompt: list[int], call: bytes, *, session: str | None
        ) -> AsyncGenerator[bytes, None]:
            async with aclosing(super().generate(domain, prompt, call, session=session)) as messages:
                yield await anext(messages)

    engine = await RayEngine.connect(Cut(ScriptedEngine(PI)))
    with pytest.raises(EngineLostError):
        await steps_of(engine, [1], Sampling(max_tokens=9))


async def test_steps_come_out_as_they_went_in_however_they_were_gathered() -> None:
    async def steps() -> AsyncGenerator[Step, None]:
        for id in range(50):
            if id % 7 == 0:
                await asyncio.sleep(0)
            yield Step((id,), end=EngineEnd.STOP if id == 49 else None)

    for gather in (0.0, 0.001, 1.0):
        async with aclosing(batches(steps(), gather)) as gathered:
            came = [step for batch in [batch async for batch in gathered] for step in batch]
        assert [step.ids[0] for step in came] == list(range(50))
        assert came[-1].end is EngineEnd.STOP


def test_what_describes_an_engine_is_read_back_as_it_was() -> None:
    info = EngineInfo(name="x", context=9, slots=2, honours=frozenset({"seed"}), end_ids=frozenset({1, 2}), logprobs=3)
    assert decode(encode(info), EngineInfo) == info
