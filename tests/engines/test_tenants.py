"""What one owner can learn of another's prompts from the embedded engine: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import msgspec
import pytest_asyncio

from antiphon.engines import EngineEnd, Sampling, Step
from antiphon.engines.llama_cpp import LlamaCppEngine, LlamaCppSettings
from antiphon.tenancy import Tenant
from kit.llama_server import FRANCE
from kit.waiting import until_found

ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")
LONG = FRANCE * 2
ONE = Sampling(max_tokens=1, temperature=0)


@pytest_asyncio.fixture
async def engine(settings: LlamaCppSettings) -> AsyncIterator[LlamaCppEngine]:
    """An engine of its own: that several owners have asked is not forgotten."""
    engine = await LlamaCppEngine.start(replace(settings, slots=2))
    yield engine
    await engine.aclose()


async def run(
    engine: LlamaCppEngine, prompt: Sequence[int], tenant: Tenant, *, n: int = 1, sampling: Sampling = ONE
) -> list[Step]:
    async with aclosing(engine.generate(prompt, sampling, tenant=tenant, n=n)) as steps:
        return [step async for step in steps]


async def cached(engine: LlamaCppEngine, prompt: Sequence[int], tenant: Tenant, *, n: int = 1) -> int:
    """How many of the prompt's ids the engine says it had."""
    return max(step.cached_tokens or 0 for step in await run(engine, prompt, tenant, n=n))


async def test_a_prompt_is_found_by_its_own_owner_and_by_no_other_whosever_session_it_names(
    engine: LlamaCppEngine,
) -> None:
    assert await cached(engine, LONG, ANN) == 0
    assert await cached(engine, LONG, ANN) == len(LONG) - 1
    assert await cached(engine, LONG, BOB) == 0
    assert await cached(engine, LONG, BOB) == len(LONG) - 1
    assert await cached(engine, LONG, ANN) == len(LONG) - 1
    cleo, dave = (Tenant(owner=owner, affinity="cleo/1") for owner in ("cleo", "dave"))
    assert [await cached(engine, LONG, tenant) for tenant in (cleo, dave, cleo)] == [0, 0, len(LONG) - 1]


async def test_not_by_way_of_the_store_of_prompts_nor_of_several_choices(engine: LlamaCppEngine) -> None:
    for i in range(3):  # More than there are slots: the server keeps what it drops.
        await cached(engine, [*LONG, i], ANN)
    for n in (2, 1):
        for i in range(2):
            assert await cached(engine, [*LONG, i, i], msgspec.structs.replace(BOB, salt=f"{n}{i}"), n=n) == 0


async def test_not_while_both_ask_at_once(engine: LlamaCppEngine) -> None:
    """Each asks for what the other has just sent; an owner's own are never further back than its slots."""
    await cached(engine, FRANCE, ANN)

    async def pry(tenant: Tenant, offset: int) -> list[int]:
        return [await cached(engine, [*FRANCE, *[40 + (i + offset) % 2] * 20], tenant) for i in range(4)]

    ann, bob = await asyncio.gather(pry(msgspec.structs.replace(ANN, salt="a"), 0), pry(BOB, 1))
    # Of the two prompts that each sends in turns, the beginning is its own.
    assert ann[0] == bob[0] == 0
    fresh = msgspec.structs.replace(BOB, salt="nobody")
    assert await cached(engine, [*FRANCE, *[40] * 20], fresh) == 0


async def test_choices_of_several_owners_are_numbered_and_seeded_as_always(engine: LlamaCppEngine) -> None:
    sampling = Sampling(max_tokens=8, temperature=1.0, seed=7, ignore_eos=True)
    before = await run(engine, FRANCE, ANN, n=2, sampling=sampling)
    await cached(engine, FRANCE, BOB)
    after = await run(engine, FRANCE, ANN, n=2, sampling=sampling)
    for steps in (before, after):
        assert sorted(step.choice for step in steps if step.end is EngineEnd.LENGTH_OUTPUT) == [0, 1]
        assert [len([id for step in steps if step.choice == i for id in step.ids]) for i in (0, 1)] == [8, 8]


async def test_several_choices_that_are_given_up_free_their_slots(engine: LlamaCppEngine) -> None:
    await cached(engine, FRANCE, ANN)
    await cached(engine, FRANCE, BOB)
    endless = Sampling(max_tokens=230, ignore_eos=True)
    async with aclosing(engine.generate(FRANCE, endless, tenant=BOB, n=2)) as steps:
        await anext(steps)

    async def idle() -> bool | None:
        return await engine.busy_slots() == 0 or None

    await until_found(idle)
    assert await cached(engine, LONG, ANN) in (0, len(FRANCE), len(FRANCE) - 1)


async def test_owners_share_what_the_operator_lets_them_share(settings: LlamaCppSettings) -> None:
    engine = await LlamaCppEngine.start(replace(settings, slots=2, share_cache=True))
    try:
        await cached(engine, LONG, ANN)
        assert await cached(engine, LONG, BOB) == len(LONG) - 1
        assert await cached(engine, LONG, msgspec.structs.replace(BOB, salt="mine")) == 0
    finally:
        await engine.aclose()


async def test_in_a_full_engine_the_next_slot_is_an_owner_s_who_has_none(engine: LlamaCppEngine) -> None:
    await cached(engine, FRANCE, BOB)
    started: list[str] = []

    async def ask(name: str, tenant: Tenant) -> None:
        async with aclosing(engine.generate(FRANCE, Sampling(max_tokens=12, ignore_eos=True), tenant=tenant)) as steps:
            async for step in steps:
                if step.ids and name not in started:
                    started.append(name)

    tasks = [asyncio.create_task(ask(f"ann {i}", ANN)) for i in range(8)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(ask("bob", BOB)))
    await asyncio.gather(*tasks)
    # The first of ann's wait for the room to be empty, since they are of another owner than the first; two run then.
    assert started.index("bob") <= 4
