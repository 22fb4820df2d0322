"""A chat body read into a conversation and written back, without a server."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon import convert
from antiphon.api.chat.conversation import read_chat, read_turn_request, write_chat, write_messages
from antiphon.api.messages.call_ids import from_client, to_client
from antiphon.conversation import (
    Conversation,
    DeveloperContent,
    Message,
    ReasoningEffort,
    ResponseFormat,
    Role,
    ToolNamespace,
    ToolSpec,
)
from antiphon.errors import ParseError, RenderError, RequestError

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}, "strict": True}}
BODY: dict[str, Any] = {
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Warm?", "name": "Ada"},
        {"role": "assistant", "content": "I look.", "reasoning": "Ask the tool.", "tool_calls": [CALL]},
        {"role": "tool", "content": "21 °C", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Yes."},
    ],
    "tools": [WEATHER],
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}},
    "reasoning_effort": "high",
}


@pytest.mark.parametrize("spelling", [dict, json.dumps, lambda body: json.dumps(body).encode()])
def test_a_body_is_read_as_a_value_and_as_text(spelling: Any) -> None:
    conversation = read_chat(spelling(BODY))
    assert [message.channel for message in conversation.messages] == [
        None, None, "analysis", "commentary", "commentary", "commentary", "final",
    ]  # fmt: skip
    assert conversation.messages[4].recipient == "functions.weather"
    assert conversation.messages[5].name == "functions.weather"
    assert conversation.tools == (ToolSpec("weather", "", {"type": "object"}, strict=True),)
    assert conversation.response_format == ResponseFormat("json_schema", "a", schema={"type": "object"})
    assert conversation.settings.reasoning_effort is ReasoningEffort.HIGH


def test_what_was_read_is_written_as_it_was() -> None:
    assert write_chat(read_chat(BODY)) == BODY


@pytest.mark.parametrize("spelling", [list, json.dumps])
def test_the_messages_alone_are_a_body(spelling: Any) -> None:
    assert read_chat(spelling(BODY["messages"])).messages == read_chat(BODY).messages


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "nobody", "content": ""}]}, "messages[0].role"),
        ({"tools": [WEATHER, WEATHER]}, "tools[1].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_an_error_names_the_field_as_the_server_does(change: dict[str, Any], path: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_chat({**BODY, **change})
    assert caught.value.param == path


@pytest.mark.parametrize("text", ["", "{", "7", "[", b"\xff", '{"messages": "x"}'])
def test_what_is_no_body_is_a_request_error(text: str | bytes) -> None:
    with pytest.raises(RequestError):
        read_chat(text)


def test_what_chat_json_has_no_place_for_is_left_out() -> None:
    hi = Message(role=Role.USER, text="Hi")
    own = ToolSpec("search", namespace="browser")
    conversation = Conversation((hi,), (own,), (ToolNamespace("browser"),), response_format=ResponseFormat("regex"))
    assert write_chat(conversation) == {"messages": [{"role": "user", "content": "Hi"}]}


def test_a_call_without_an_id_and_its_answer_get_the_same_one() -> None:
    call = Message(role=Role.ASSISTANT, recipient="functions.f", channel="commentary", text="{}")
    result = Message(role=Role.TOOL, name="functions.f", text="1")
    calling, answering = write_messages([call, result])
    assert calling["tool_calls"][0]["id"] == answering["tool_call_id"] == "call_0"


def test_two_calls_that_wait_have_two_ids_whoever_gives_them() -> None:
    named, nameless = (Message(role=Role.ASSISTANT, recipient="functions.f", call_id=id) for id in ("call_0", None))
    [message] = write_messages([named, nameless])
    assert [call["id"] for call in message["tool_calls"]] == ["call_0", "call_1"]
    with pytest.raises(RenderError):
        write_messages([named, named])
    bundles = [{"role": "assistant", "content": None, "tool_calls": [CALL]}] * 2
    with pytest.raises(ParseError):
        convert(json.dumps({"messages": bundles}), "openchatml", form="chat")


@pytest.mark.parametrize(
    ("change", "path", "known"),
    [
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role", "assistant, developer, function"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort", "high, low"),
        ({"tool_choice": "never"}, "tool_choice", "auto, none, required"),
        ({"tools": [{"type": "robot", "function": {"name": "f"}}]}, "tools[0].type", "function"),
    ],
)
def test_an_error_about_a_value_lists_those_that_may_be(change: dict[str, Any], path: str, known: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_chat({"messages": [{"role": "user", "content": "x"}], **change})
    assert caught.value.param == path
    assert known in (caught.value.hint or "")


def test_calls_under_one_id_and_results_of_none_are_read_and_only_conversion_refuses_them() -> None:
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calling = {"role": "assistant", "tool_calls": [called]}
    result = {"role": "tool", "tool_call_id": "c", "content": "1"}
    refused: list[tuple[list[dict[str, Any]], str, list[str]]] = [
        (
            [{"role": "assistant", "tool_calls": [called, called]}, result, result],
            "messages[0].tool_calls[1].id",
            ["f", "f"],
        ),
        ([calling, calling], "messages[1].tool_calls[0].id", []),
        ([calling, result, result], "messages[2].tool_call_id", ["f", "f"]),
        ([result], "messages[0].tool_call_id", ["tool"]),
    ]
    for messages, path, names in refused:
        read = read_chat(messages).messages
        assert [m.name for m in read if m.role is Role.TOOL] == [f"functions.{name}" for name in names]
        with pytest.raises(ParseError) as caught:
            convert(json.dumps({"messages": messages}), to="openchatml", form="chat")
        assert path in str(caught.value)
    assert len(read_chat([calling, result, calling, result]).messages) == 4


def test_content_that_only_harmony_has_is_refused() -> None:
    with pytest.raises(RenderError):
        write_messages([Message(role=Role.DEVELOPER, parts=(DeveloperContent(instructions="x"),))])


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TURN = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "developer", "user"]), "content": TEXT}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT}, optional={"reasoning": TEXT.filter(bool)}),
)


@given(st.lists(TURN, min_size=1, max_size=6))
def test_texts_and_reasoning_come_back(messages: list[dict[str, Any]]) -> None:
    assert write_messages(read_chat(messages).messages) == messages


def test_a_chat_without_a_server_stores_nothing() -> None:
    assert read_chat({**BODY, "store": True}) == read_chat(BODY)
    assert read_turn_request({**BODY, "store": False}) == replace(read_turn_request(BODY), storable=False)
    with pytest.raises(RequestError) as caught:
        read_turn_request({**BODY, "store": True})
    assert caught.value.code == "unsupported_parameter"
    assert "store" in caught.value.message


def test_reasoning_alone_is_no_empty_answer() -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "reasoning": "hm"}]}
    conversation = read_chat(body)
    assert [(m.effective_channel, m.text) for m in conversation.messages] == [("final", "Hi"), ("analysis", "hm")]
    assert write_chat(conversation) == body
    nothing = read_chat({"messages": [{"role": "assistant", "content": None}]})
    assert [(m.effective_channel, m.text) for m in nothing.messages] == [("final", "")]


OURS = st.from_regex(r"call_[A-Za-z0-9]{16}", fullmatch=True)
THEIRS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256)


@given(st.one_of(OURS, THEIRS))
def test_an_id_comes_back_as_it_was_and_every_client_takes_it(id: str) -> None:
    sent = to_client(id)
    assert re.fullmatch(r"toolu_[A-Za-z0-9_-]{16,}", sent)
    assert from_client(sent) == id


@given(THEIRS)
def test_an_id_of_the_model_s_own_is_another_in_each_answer(id: str) -> None:
    assert re.fullmatch(r"call_[A-Za-z0-9]{16}", id) or to_client(id) != to_client(id)


@pytest.mark.parametrize(
    "id",
    ["toolu_1", "toolu_01A09q90qw90lq917835lq9", "call_1", "x", "toolu_0123456789abcdef_!", "toolu_0123456789abcdef_A"],
)
def test_an_id_of_another_server_stays_as_it_is(id: str) -> None:
    assert from_client(id) == id
