"""However an engine cuts its steps, a reply is the same: its events, its messages, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Event, Message, Role, TextDelta, ToolSpec
from antiphon.engines import EngineEnd, ScriptedEngine, Step
from antiphon.generation import TurnRequest, plan_turn
from antiphon.generation.reader import ChoiceReader
from kit.family_server import SOURCES, family

ARGUMENTS: dict[str, Any] = {
    "city": 'Köln "am" Rhein {]',
    "days": 3,
    "exact": True,
    "note": None,
    "by": {"tags": ["a", "\\"]},
}
MESSAGE: dict[str, Any] = {
    "role": "assistant",
    "reasoning_content": "Perhaps rain, 雨.",
    "content": 'I look it up, "so" {quickly}.',
    "tool_calls": [{"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": ARGUMENTS}}],
}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
ASKED = Conversation((Message(role=Role.USER, text="And tomorrow?"),), tools=(ToolSpec("weather"),))


def said(name: str) -> list[int]:
    chosen = family(name)
    try:
        return chosen.ids(chosen.says(MESSAGE, [TOOL]) + "after")
    except Exception:  # noqa: BLE001 - a template that takes no such message
        return chosen.ids('{"a": "b"} and more, 雨')


def read(name: str, steps: Sequence[Step], request: TurnRequest) -> tuple[list[Event], list[Message], list[int]]:
    """The events, with each text in one piece, the messages, and the ids that count."""
    chosen = family(name)
    model = chosen.model("m", ScriptedEngine([], end_ids=chosen.end_ids), grammar=False)
    reader = ChoiceReader(plan_turn(model, request))
    events: list[Event] = []
    for event in [*(event for step in steps for event in reader.read(step)), *reader.close()]:
        last = events[-1] if events else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            events[-1] = TextDelta(last.text + event.text)
        else:
            events.append(event)
    return events, reader.messages, reader.sampled


@pytest.mark.parametrize("name", sorted(SOURCES))
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_steps_of_any_size_are_read_as_single_ids(name: str, data: st.DataObject) -> None:
    ids = said(name)
    size = family(name).tokenizer.size
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.integers(0, len(ids) - 1))
        ids[place : place + data.draw(st.integers(0, 3))] = data.draw(st.lists(st.integers(0, size), max_size=3))
    request = TurnRequest(
        conversation=ASKED,
        stop=data.draw(st.sampled_from([(), (), ("look",)])),
        stop_token_ids=data.draw(st.sampled_from([frozenset(), frozenset({min(ids[len(ids) // 2], size - 1)})])),
        ignore_eos=data.draw(st.booleans()),
        parallel_tool_calls=data.draw(st.booleans()),
        return_token_ids=True,
        call_key="k",
    )
    end = data.draw(st.sampled_from([EngineEnd.STOP, EngineEnd.LENGTH_OUTPUT]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(ids)), max_size=6)))
    parts = [Step(tuple(ids[a:b])) for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True)]
    single = [Step((id,)) for id in ids]
    expected = read(name, [*single[:-1], msgspec.structs.replace(single[-1], end=end)], request)
    assert read(name, [*parts[:-1], msgspec.structs.replace(parts[-1], end=end)], request) == expected
