"""A forced call from sampling to answer, with the real engine and the small model."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

from antiphon.catalog.loading import open_catalog
from antiphon.config import load_config
from antiphon.conversation import Conversation, Message, Role, ToolChoice, TurnEnded
from antiphon.generation import TurnRequest, prepare_turn
from antiphon.generation.rounds import Rounds
from antiphon.tools import FunctionTool, Router, ToolEnded


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_forced_call_runs_from_sampling_to_an_answer(smollm2_path: Path, tmp_path: Path) -> None:
    config = {"ANTIPHON_HOME": str(tmp_path), "ANTIPHON_ENGINE_THREADS": "1", "ANTIPHON_ENGINE_SLOTS": "1"}
    flags = {"model": str(smollm2_path), "format": "chatml"}
    async with aclosing(open_catalog(load_config(config, flags).config)) as catalog:
        assert catalog.default is not None
        model = await catalog.get(catalog.default)
        tool = FunctionTool(add)
        question = Conversation((Message(role=Role.USER, text="What is 12 plus 30?"),), tools=(tool.spec,))
        request = TurnRequest(
            conversation=question,
            tool_choice=ToolChoice("required"),
            parallel_tool_calls=False,
            max_tokens=48,
            temperature=0,
        )
        rounds = Rounds(await prepare_turn(model, request), Router([tool]))
        async with aclosing(rounds.steps()) as steps:
            heard = [event async for step in steps for event in step.events]
    results = [event.result for event in heard if isinstance(event, ToolEnded)]
    assert results
    assert all(result.ok for result in results), "the grammar enforced the schema of the arguments"
    assert isinstance(heard[-1], TurnEnded)
    assert any(message.role is Role.TOOL for message in rounds.request.conversation.messages)
    assert rounds.request.conversation.messages[-1].role is Role.ASSISTANT
