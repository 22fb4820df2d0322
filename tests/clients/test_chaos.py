"""A few kills of what `make chaos` does a hundred times."""

from __future__ import annotations

from clients.chaos import chaos


async def test_a_server_that_is_killed_again_and_again_loses_nothing_and_doubles_nothing() -> None:
    run = await chaos(kills=2, turns=50, seconds=200)
    assert not run.faults, run.table()
    kinds = {"session", "streamed_session", "chain", "streamed_chain", "conversation", "background", "idempotent"}
    assert {kind for kind in kinds if run.acknowledged[kind]} == kinds
