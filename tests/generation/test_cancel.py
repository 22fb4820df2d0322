"""Turns that are cancelled from elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.conversation import Conversation, FinishReason, Message, MessageEnded, Role, TurnEnded
from antiphon.engines import ScriptedEngine
from antiphon.generation import RoundEvent, Rounds, TurnRequest, prepare_turn
from antiphon.generation.rounds import CancellableRounds
from antiphon.tools import Router
from kit.api import END, ids, model, scripted
from kit.waiting import PATIENCE, until

REQUEST = TurnRequest(conversation=Conversation((Message(role=Role.USER, text="x"),)))


async def begun(engine: ScriptedEngine) -> CancellableRounds:
    return CancellableRounds(Rounds(await prepare_turn(model(engine), REQUEST), Router(())))


async def events(rounds: CancellableRounds) -> list[RoundEvent]:
    return [event async for step in rounds.steps() for event in step.events]


async def test_a_turn_that_is_cancelled_ends_now_and_its_engine_with_it() -> None:
    engine = scripted(ids("never", END), delay=2 * PATIENCE)
    rounds = await begun(engine)
    turn = asyncio.create_task(events(rounds))
    await until(lambda: engine.running)
    rounds.cancel()
    rounds.cancel()
    (ended,) = await turn
    assert isinstance(ended, TurnEnded)
    assert (ended.reason, engine.running) == (FinishReason.CANCELLED, 0)


async def test_what_is_cancelled_before_it_begins_does_not_begin() -> None:
    engine = scripted(ids("never", END))
    rounds = await begun(engine)
    rounds.cancel()
    assert [type(event) for event in await events(rounds)] == [TurnEnded]
    assert not engine.requests


async def test_what_is_not_cancelled_is_as_it_was() -> None:
    rounds = await begun(scripted(ids("Hi.", END)))
    *_, message, ended = await events(rounds)
    assert isinstance(message, MessageEnded)
    assert isinstance(ended, TurnEnded)
    assert (message.message.text, ended.reason) == ("Hi.", FinishReason.STOP_EOS)
    assert not rounds.cancel_call("x", "too late")


async def test_a_tool_or_engine_that_runs_out_of_time_by_itself_is_not_cancelled() -> None:
    rounds = await begun(scripted(lambda prompt, sampling, choice: TimeoutError("its own")))
    with pytest.raises(TimeoutError, match="its own"):
        await events(rounds)
