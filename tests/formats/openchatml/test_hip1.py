"""HIP-1, its eight points, and the way from Harmony through OpenChatML and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, End, Message, Role
from antiphon.formats import HistoryPolicy
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import from_harmony, openchatml, read, to_harmony, write
from antiphon.formats.openchatml.report import HARD_STOPS
from antiphon.tokens import Control, Piece, spell


def assistant_message(text: str, channel: str | None = "final", **fields: object) -> Message:
    return Message(role=Role.ASSISTANT, text=text, channel=channel, **fields)  # type: ignore[arg-type]  # its fields


CALL = assistant_message(
    '{"city":"Tokyo"}', "commentary", recipient="functions.get", content_type="json", constrained=True, end=End.CALL
)
RESULT = Message(role=Role.TOOL, text='{"ok":true}', name="functions.get", recipient="assistant", channel="commentary")
HARMONY = Conversation(
    (
        Message(role=Role.SYSTEM, text="You are ChatGPT."),
        Message(role=Role.USER, text="Weather in <|end|> Tokyo?"),
        assistant_message("Call it.", "analysis"),
        assistant_message("I will look.", "commentary"),
        CALL,
        RESULT,
        assistant_message("20 °C.", end=End.RETURN),
    ),
    verbatim=True,
)


def harmony_pieces(conversation: Conversation) -> list[Piece]:
    return list(Harmony().render(conversation, reply_as=None, history=HistoryPolicy.KEEP_ALL))


def back(conversation: Conversation) -> Conversation:
    """Harmony → OpenChatML text → Harmony."""
    text = write(from_harmony(conversation).conversation)
    returned = to_harmony(read(text)).conversation
    return Conversation(returned.messages, verbatim=True)


@pytest.mark.spec("OCM-07", "OCM-116", "OCM-125", "OCM-169")
def test_harmony_through_openchatml_gives_the_same_pieces() -> None:
    assert harmony_pieces(back(HARMONY)) == harmony_pieces(HARMONY)


@pytest.mark.spec("OCM-117", "OCM-27")
def test_the_format_speaks_harmonys_controls_without_needing_its_encoding() -> None:
    seven = [Control(f"<|{n}|>") for n in ("start", "channel", "message", "call", "constrain", "return", "end")]
    assert openchatml(seven).controls == (
        *map(
            Control, ("<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|constrain|>", "<|return|>", "<|end|>")
        ),
    )


@pytest.mark.spec("OCM-118", "OCM-54")
def test_harmony_always_gets_a_channel_for_assistant_and_tool_and_for_nobody_else() -> None:
    conversation = Conversation(
        (
            Message(role=Role.USER, text="q", channel="final"),
            assistant_message("{}", None, recipient="functions.f", call_id="1", end=End.CALL),
            Message(role=Role.TOOL, text="r", name="functions.f", call_id="1"),
            assistant_message("a", None),
        )
    )
    translated = to_harmony(conversation).conversation.messages
    assert [m.channel for m in translated] == [None, "commentary", "commentary", "final"]


@pytest.mark.spec("OCM-120", "OCM-122", "OCM-123", "OCM-124", "OCM-04")
def test_calls_and_replies_are_written_canonically_whatever_form_was_read() -> None:
    text = write(from_harmony(HARMONY).conversation)
    assert "<|start|>assistant to=functions.get call_id=call_0<|channel|>commentary<|constrain|>json<|message|>" in text
    assert "<|start|>tool to=assistant call_id=call_0 name=functions.get<|channel|>commentary<|message|>" in text


@pytest.mark.spec("OCM-125")
def test_json_arguments_say_that_they_are_json() -> None:
    plain = assistant_message("{}", "commentary", recipient="functions.f", call_id="1", end=End.CALL)
    [call] = to_harmony(Conversation((plain,))).conversation.messages
    assert (call.constrained, call.content_type) == (True, "json")


@pytest.mark.spec("OCM-126", "OCM-96")
@pytest.mark.parametrize("channel", ["analysis", "commentary"])
@pytest.mark.parametrize("tool", ["python", "browser.search"])
def test_built_ins_are_called_from_analysis_and_commentary(channel: str, tool: str) -> None:
    call = assistant_message("{}", channel, recipient=tool, content_type="json", constrained=True, end=End.CALL)
    conversation = Conversation((call,), verbatim=True)
    assert harmony_pieces(back(conversation)) == harmony_pieces(conversation)


@pytest.mark.spec("OCM-127", "OCM-57")
def test_a_plan_on_commentary_is_a_preamble_and_other_commentary_does_not_become_one() -> None:
    plan = from_harmony(HARMONY).conversation.messages[3]
    assert plan.is_preamble
    note = assistant_message("internal", "commentary", intent="status")
    translated = to_harmony(Conversation((note,)))
    assert translated.conversation.messages[0].channel == "analysis"
    assert {loss.path for loss in translated.losses} == {"messages[0].intent", "messages[0].channel"}


@pytest.mark.spec("OCM-119", "OCM-128", "OCM-129", "OCM-84")
def test_a_prompt_resumes_a_call_with_its_reasoning_and_drops_that_of_a_closed_turn() -> None:
    messages = from_harmony(HARMONY).conversation.messages
    pending = spell(list(openchatml([]).render(Conversation(messages[:6]))))
    assert "Call it." in pending
    assert "Call it." not in spell(list(openchatml([]).render(Conversation(messages))))


@pytest.mark.spec("OCM-130", "OCM-170", "OCM-116")
def test_return_and_call_end_inference() -> None:
    assert tuple(openchatml([]).stops) == HARD_STOPS
    text = write(from_harmony(HARMONY).conversation)
    assert text.count("<|call|>") == 1
    assert text.rstrip().endswith("<|return|>")


def test_call_ids_by_position_are_dropped_again_and_others_are_a_loss() -> None:
    translated = from_harmony(HARMONY)
    assert [m.call_id for m in translated.conversation.messages[4:6]] == ["call_0", "call_0"]
    assert {loss.kind for loss in translated.losses} == {"derivable"}
    again = to_harmony(translated.conversation)
    assert [m.call_id for m in again.conversation.messages] == [None] * 7
    assert {loss.kind for loss in again.losses} == {"derivable"}
    own = to_harmony(read(write(translated.conversation)))
    assert [loss.path for loss in own.losses if loss.kind == "semantic"] == [
        "messages[4].call_id", "messages[5].call_id",
    ]  # fmt: skip


def test_the_headers_keys_that_harmony_lacks_are_a_loss() -> None:
    conversation = read("version: 2.2\nmodel: m\ngeneration_settings: {temperature: 1, reasoning_effort: low}\nx: 1\n")
    assert {loss.path for loss in to_harmony(conversation).losses} == {
        "header.model", "header.x", "header.generation_settings.temperature",
    }  # fmt: skip


_spoken = st.one_of(
    st.builds(assistant_message, st.text(max_size=9), st.sampled_from(["analysis", "commentary", "final"])),
    st.builds(lambda text: Message(role=Role.USER, text=text), st.text(max_size=9)),
    st.just(CALL),
    st.sampled_from(["analysis", "final"]).map(
        lambda c: assistant_message("1", c, recipient="functions.x", end=End.CALL)
    ),
    st.just(
        assistant_message("{}", "commentary", recipient="mine.x", content_type="json", constrained=True, end=End.CALL)
    ),
)


@given(st.lists(_spoken, max_size=6))
@pytest.mark.spec("OCM-07", "OCM-169")
def test_any_harmony_conversation_comes_back_with_the_same_pieces(messages: list[Message]) -> None:
    conversation = Conversation(tuple(messages), verbatim=True)
    assert harmony_pieces(back(conversation)) == harmony_pieces(conversation)
