"""Embeddings of several owners in one engine: who waits for how many steps of whom."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from antiphon.engines import ScriptedEngine
from antiphon.tenancy import Tenant
from kit.waiting import turns

ANN, BOB = Tenant(owner="ann"), Tenant(owner="bob")
MOST = 2048
SLOTS = 4


def encoder() -> tuple[ScriptedEngine, list[int]]:
    """An engine that embeds `SLOTS` inputs a step, and whose inputs it has begun: the first id of each."""
    begun: list[int] = []

    def vector(ids: Sequence[int]) -> tuple[float, ...]:
        begun.append(ids[0])
        return (1.0,)

    return ScriptedEngine([], slots=SLOTS, embedding=vector), begun


async def test_one_input_waits_for_the_step_that_runs_and_one_more_at_most() -> None:
    engine, begun = encoder()
    anns = [asyncio.create_task(engine.embed([[1]] * MOST, tenant=ANN)) for _ in range(8)]
    await turns(20)
    before = len(begun)
    assert 0 < before < MOST
    assert (await engine.embed([[2]], tenant=BOB)).vectors == ((1.0,),)
    assert begun.index(2) - before <= 2 * SLOTS
    await asyncio.gather(*anns)
    assert begun.count(1) == 8 * MOST


async def test_two_owners_with_many_inputs_go_step_by_step() -> None:
    engine, begun = encoder()
    await asyncio.gather(engine.embed([[1]] * 64, tenant=ANN), engine.embed([[2]] * 64, tenant=BOB))
    assert begun == ([1] * SLOTS + [2] * SLOTS) * (64 // SLOTS)


async def test_what_ends_in_an_error_or_is_given_up_leaves_its_turn_to_the_next() -> None:
    calls: list[int] = []

    def failing(ids: Sequence[int]) -> tuple[float, ...]:
        calls.append(ids[0])
        if ids[0] == 13:
            raise ValueError("no vector")
        return (1.0,)

    engine = ScriptedEngine([], slots=1, embedding=failing)
    bad = asyncio.create_task(engine.embed([[1], [13], [1]], tenant=ANN))
    given_up = asyncio.create_task(engine.embed([[3]] * 100, tenant=ANN))
    await turns(3)
    given_up.cancel()
    assert (await engine.embed([[2]] * 3, tenant=BOB)).tokens == 3
    assert isinstance((await asyncio.gather(bad, given_up, return_exceptions=True))[0], ValueError)
    assert calls.count(1) == 1, "nothing is made after an error"
    assert (await engine.embed([[4]], tenant=ANN)).tokens == 1
