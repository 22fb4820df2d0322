"""Calls in other forms and texts that look like them, on every wire: streamed and whole, they are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.api import CALL, ids, post_in_process
from kit.calls_on_wires import FUNCTIONS, LOOK_ALIKES, QUESTION, SPELLINGS, WIRES, Says, is_read

ROWS = [*SPELLINGS, *((text, "[]") for text in LOOK_ALIKES)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
async def test_calls_are_calls_and_texts_are_texts(wire: str, stream: bool) -> None:
    """Each third row, to one of the wires in one way; `make check-calls` tries all on all."""
    says = Says()
    rows = ROWS[2 * list(WIRES).index(wire) + stream :: 6 * len(WIRES)]
    assert [text for text, calls in rows if not await is_read(says, wire, text, calls, stream=stream)] == []


@pytest.mark.parametrize("renamed", [False, True], ids=["as it was given", "under another id"])
async def test_a_call_in_another_form_keeps_its_ids_in_the_next_prompt_or_is_written_in_the_trained_form(
    renamed: bool,
) -> None:
    says = Says()
    said = 'I look.\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```'
    says.told(said)
    got = await post_in_process(says.app, "/v1/chat/completions", messages=QUESTION, tools=FUNCTIONS)
    message = got.json["choices"][0]["message"]
    assert got.headers["x-antiphon-incidents"] == "call_in_other_form"
    if renamed:
        message["tool_calls"][0]["id"] = "call_renamed"
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    says.told("It is sunny.")
    await post_in_process(says.app, "/v1/chat/completions", messages=[*QUESTION, message, result], tools=FUNCTIONS)
    first, prompt = (list(request[0]) for request in says.engine.requests)
    assert contains(prompt, ids(CALL, '\n{"name": "get_weather"')) is renamed
    assert contains(prompt, ids("```json")) is not renamed
    assert (prompt[: len(first)] == first and contains(prompt, ids(said))) is not renamed


async def test_a_call_that_was_just_answered_and_is_made_again_is_named_in_the_header() -> None:
    says = Says()
    asked = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    named = []
    for reply in (
        '{"name": "get_weather", "arguments": {"city": "Paris"}}',
        '{"name": "get_weather", "arguments": {"city": "Rome"}}',
        '{"name": "get_time", "arguments": {}}',
        "It is sunny.",
    ):
        says.told(reply)
        got = await post_in_process(says.app, "/v1/chat/completions", messages=history, tools=FUNCTIONS)
        named.append("call_repeated" in got.headers.get("x-antiphon-incidents", ""))
    later = [*history, {"role": "assistant", "content": "Sunny."}, *QUESTION]
    says.told('{"name": "get_weather", "arguments": {"city": "Paris"}}')
    got = await post_in_process(says.app, "/v1/chat/completions", messages=later, tools=FUNCTIONS)
    named.append("call_repeated" in got.headers.get("x-antiphon-incidents", ""))
    assert named == [True, False, False, False, False]


def contains(ids: Sequence[int], part: Sequence[int]) -> bool:
    return any(list(ids[i : i + len(part)]) == list(part) for i in range(len(ids) - len(part) + 1))
