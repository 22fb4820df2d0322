"""The prompt of a growing conversation is, at every step, the prompt of the whole conversation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, End, Message, Role, ToolSpec
from antiphon.errors import UnsupportedError
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Harmony, RunningPrompt
from antiphon.tokens import ByteTokenizer, encode_pieces

HARMONY = Harmony()
BYTES = ByteTokenizer(HARMONY.controls)
TOOLS = (ToolSpec("f", "F.", {"type": "object", "properties": {"a": {"type": "string"}}}),)


def user() -> Message:
    return Message(role=Role.USER, text="go on")


def reply(channel: str | None, end: End = End.END) -> Message:
    return Message(role=Role.ASSISTANT, channel=channel, text="x", end=end)


def call(id: str | None) -> Message:
    return Message(role=Role.ASSISTANT, recipient="functions.f", text="{}", call_id=id, end=End.CALL)


def result(id: str | None) -> Message:
    return Message(role=Role.TOOL, name="functions.f", text="1", call_id=id)


KINDS = [
    user(),
    Message(role=Role.SYSTEM, text="be brief"),
    Message(role=Role.DEVELOPER, text="be kind"),
    reply("analysis"),
    reply("final"),
    reply(None),
    *(reply(channel, End.NONE) for channel in ("final", "analysis", "commentary")),
    reply("commentary"),
    replace(call("1"), channel="analysis"),
    *(make(id) for make in (call, result) for id in ("1", "2", None)),
]


def whole(conversation: Conversation, history: HistoryPolicy) -> list[int]:
    return encode_pieces(HARMONY.render(conversation, history=history), BYTES)


@given(
    st.lists(st.lists(st.sampled_from(KINDS), max_size=3), max_size=6),
    st.sampled_from([HistoryPolicy.GUIDE, HistoryPolicy.KEEP_ALL, HistoryPolicy.DROP_ALL]),
    st.booleans(),
    st.booleans(),
)
def test_each_step_gives_the_prompt_of_the_whole_conversation(
    steps: list[list[Message]], history: HistoryPolicy, tools: bool, verbatim: bool
) -> None:
    conversation = Conversation(tools=TOOLS if tools else (), verbatim=verbatim)
    running = RunningPrompt(HARMONY, BYTES, conversation, history=history)
    assert running.ids == whole(conversation, history)
    for messages in steps:
        conversation = conversation.add(*messages)
        assert running.append(*messages) == whole(conversation, history)


@pytest.mark.parametrize("channel", ["final", "commentary"])
def test_a_message_that_is_last_only_because_reasoning_was_dropped_is_not_gone_on_with(channel: str) -> None:
    conversation = Conversation((user(), reply(channel, End.NONE), reply("analysis")))
    prompt = list(HARMONY.render(conversation, history=HistoryPolicy.DROP_ALL))
    assert prompt[-2:] == list(HARMONY.render(Conversation((user(),))))[-2:]
    assert RunningPrompt(HARMONY, BYTES, conversation, history=HistoryPolicy.DROP_ALL).ids == encode_pieces(
        prompt, BYTES
    )


def test_following_a_conversation_that_went_another_way_starts_anew() -> None:
    first, second = Conversation((user(), reply("final"))), Conversation((user(), reply("commentary"), user()))
    running = RunningPrompt(HARMONY, BYTES, first)
    assert running.follow(first.add(user())) == whole(first.add(user()), HistoryPolicy.GUIDE)
    assert running.follow(second) == whole(second, HistoryPolicy.GUIDE)


def test_a_policy_that_may_bring_back_old_reasoning_is_refused() -> None:
    with pytest.raises(UnsupportedError):
        RunningPrompt(HARMONY, BYTES, Conversation(), history=HistoryPolicy.REFERENCE)
