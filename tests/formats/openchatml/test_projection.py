"""The JSON projection: faithful both ways, and no state that the text cannot say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from antiphon.conversation import Conversation, End, Message, Role, visible_to_user
from antiphon.errors import ParseError
from antiphon.formats.openchatml import from_json, message_to_json, to_json, turn_to_json, write
from kit.openchatml import conversations

CALL = Message(
    role=Role.ASSISTANT, text='{"location":"SF"}', recipient="functions.lookup_weather", channel="commentary",
    content_type="json", constrained=True, call_id="abc123", end=End.CALL,
)  # fmt: skip


@given(conversations())
@pytest.mark.spec("OCM-106", "OCM-111")
def test_a_conversation_survives_its_projection(conversation: Conversation) -> None:
    assert from_json(to_json(conversation)) == conversation


@given(conversations())
@pytest.mark.spec("OCM-111")
def test_what_the_projection_says_the_text_says_too(conversation: Conversation) -> None:
    assert write(from_json(to_json(conversation))) == write(conversation)


@pytest.mark.spec("OCM-107", "OCM-110")
def test_a_frame_has_role_channel_content_and_intent() -> None:
    message = Message(role=Role.ASSISTANT, text="Plan", channel="commentary", intent="preamble")
    assert message_to_json(message) == {
        "role": "assistant", "channel": "commentary", "content": "Plan", "intent": "preamble",
    }  # fmt: skip


@pytest.mark.spec("OCM-108", "OCM-95")
def test_a_call_is_projected_from_its_header_and_its_raw_arguments() -> None:
    assert message_to_json(CALL) == {
        "role": "assistant",
        "channel": "commentary",
        "content": None,
        "tool_call": {
            "id": "abc123",
            "recipient": "functions.lookup_weather",
            "content_type": "json",
            "arguments": '{"location":"SF"}',
        },
        "ocm": {"constrain": True},
    }


@pytest.mark.spec("OCM-108")
def test_there_is_no_tool_call_unless_call_was_emitted() -> None:
    cut = Message(
        role=Role.ASSISTANT, text="{", recipient="functions.f", channel="commentary", call_id="1", end=End.NONE
    )
    assert "tool_call" not in message_to_json(cut)


@pytest.mark.spec("OCM-109", "OCM-112")
def test_reasoning_is_thinking_and_never_content() -> None:
    thought = Message(role=Role.ASSISTANT, text="secret", channel="analysis")
    assert message_to_json(thought) == {
        "role": "assistant", "channel": "analysis", "content": None, "thinking": "secret",
    }  # fmt: skip
    assert not visible_to_user(thought)


EXAMPLE = {
    "role": "assistant",
    "channel": "final",
    "content": "Visible reply",
    "tool_call": {
        "id": "abc123",
        "recipient": "functions.lookup_weather",
        "content_type": "json",
        "arguments": '{"location":"SF"}',
    },
    "thinking": "Private reasoning (analysis)",
    "intent": "preamble",
}
"""§10's own object."""


@pytest.mark.parametrize("value", [EXAMPLE, {"version": "2.2", "messages": [EXAMPLE]}], ids=["alone", "in messages"])
def test_the_object_of_the_specification_is_a_turn_of_three_frames(value: dict[str, Any]) -> None:
    assert write(from_json(value)).splitlines()[3:] == [
        "<|start|>assistant<|channel|>analysis<|message|>Private reasoning (analysis)<|end|>",
        "<|start|>assistant intent=preamble<|channel|>final<|message|>Visible reply<|end|>",
        "<|start|>assistant to=functions.lookup_weather call_id=abc123 content_type=json<|channel|>commentary"
        '<|message|>{"location":"SF"}<|call|>',
    ]


def test_thought_and_call_in_one_object_leave_the_call_its_channel() -> None:
    call = {"id": "1", "recipient": "python", "arguments": "print(1)"}
    turn = {"role": "assistant", "channel": "analysis", "thinking": "t", "tool_call": call}
    assert [message.channel for message in from_json(turn).messages] == ["analysis", "analysis"]


@pytest.mark.parametrize("change", [{"role": "user"}, {"ocm": {"name": "x"}}, {"mood": "good"}, {"thinking": 1}])
def test_an_object_of_several_frames_is_an_assistants_and_nothing_more(change: dict[str, Any]) -> None:
    with pytest.raises(ParseError):
        from_json({**EXAMPLE, **change})


def test_a_turn_as_one_object_says_that_it_loses_something() -> None:
    turn = turn_to_json([
        Message(role=Role.ASSISTANT, text="a", channel="analysis"),
        CALL,
        Message(role=Role.TOOL, text="{}", name="functions.lookup_weather", call_id="abc123"),
        Message(role=Role.ASSISTANT, text="b", channel="analysis"),
        Message(role=Role.ASSISTANT, text="Sunny.", channel="final"),
    ])  # fmt: skip
    assert turn["content"] == "Sunny."
    assert turn["thinking"] == "a\n\nb"
    assert turn["tool_call"]["id"] == "abc123"
    assert turn["ocm"] == {"lossy": True}


def frame(**keys: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "channel": "final", "content": "x", **keys}]}


@pytest.mark.spec("OCM-73", "OCM-74", "OCM-111")
@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        (frame(tool_calls=[]), "E-CALL-SCHEMA", "messages[0].tool_calls"),
        (frame(mood="good"), "E-PARSE-HEADER", "messages[0].mood"),
        (frame(role="bot"), "E-PARSE-HEADER", "messages[0].role"),
        (frame(content=1), "E-PARSE-HEADER", "messages[0].content"),
        (frame(content=None), "E-PARSE-HEADER", "messages[0]"),
        (frame(thinking="y"), "E-PARSE-HEADER", "messages[0]"),
        (frame(ocm=[]), "E-PARSE-HEADER", "messages[0].ocm"),
        (frame(ocm={"end": "stop"}), "E-PARSE-HEADER", "messages[0].ocm.end"),
        (frame(ocm={"end": "call"}), "E-PARSE-HEADER", "messages[0].ocm.end"),
        (frame(ocm={"constrain": "yes"}), "E-PARSE-HEADER", "messages[0].ocm.constrain"),
        (frame(ocm={"channel": "final"}), "E-PARSE-HEADER", "messages[0].ocm.channel"),
        (frame(channel="analysis", ocm={"channel": None}), "E-PARSE-HEADER", "messages[0].ocm.channel"),
        (frame(content=None, thinking="t"), "E-PARSE-HEADER", "messages[0].thinking"),
        (
            {"messages": [{**message_to_json(CALL), "ocm": {"call_id": "2"}}]},
            "E-PARSE-HEADER",
            "messages[0].ocm.call_id",
        ),
        (frame(tool_call={"id": "1"}), "E-PARSE-HEADER", "messages[0].content"),
        (frame(content=None, tool_call={"id": "1"}), "E-CALL-SCHEMA", "messages[0].tool_call.arguments"),
        (frame(channel="odd"), "E-PARSE-HEADER", "messages[0]"),
        (frame(intent="joke"), "E-PARSE-HEADER", "messages[0]"),
        (frame(intent=""), "E-PARSE-HEADER", "messages[0]"),
        (frame(role="assistant", ocm={"to": "functions.f"}), "E-PARSE-HEADER", "messages[0]"),
        ({"messages": [message_to_json(CALL), message_to_json(CALL)]}, "E-PARSE-HEADER", "messages[1]"),
        (frame(content="\ud800"), "E-PARSE-HEADER", "messages[0]"),
        (frame(content="\udcff\udfff"), "E-PARSE-HEADER", "messages[0]"),
        (frame(ocm={"name": "\ud800"}), "E-PARSE-HEADER", "messages[0]"),
        ({"messages": {}}, "E-PARSE-HEADER", "messages"),
        ([], "E-PARSE-HEADER", "$"),
        (None, "E-PARSE-HEADER", "$"),
        ("{}", "E-PARSE-HEADER", "$"),
        ({"messages": [None]}, "E-PARSE-HEADER", "messages[0]"),
        ({"messages": ["x"]}, "E-PARSE-HEADER", "messages[0]"),
        ({"version": "3.0", "messages": []}, "E-PARSE-HEADER", "header"),
        ({"version": 2, "messages": []}, "E-PARSE-HEADER", "header"),
        ({"messages": [], "more": 1}, "E-PARSE-HEADER", "more"),
    ],
)
def test_what_the_text_cannot_say_is_refused_at_its_path(value: Any, code: str, path: str) -> None:
    with pytest.raises(ParseError) as raised:
        from_json(value)
    assert raised.value.code == code
    assert raised.value.position is not None
    assert raised.value.position.path == path
