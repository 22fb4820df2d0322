"""OpenChatML as a model's format: prompts that users cannot break, replies that cannot break the reader."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import (
    Conversation,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    OpaquePart,
    ParserEvent,
    ReasoningEffort,
    Role,
    Settings,
    TextDelta,
    ToolSpec,
    visible_to_user,
)
from antiphon.errors import ParseError, RenderError
from antiphon.formats import Format, HistoryPolicy, Parser
from antiphon.formats.format import CutParser
from antiphon.formats.openchatml import OpenChatML, Reader, openchatml, read
from antiphon.formats.openchatml.spelling import CONTROLS, STRUCTURE
from antiphon.tokens import ByteTokenizer, Control, Piece, PieceDecoder, encode_pieces, spell, well_formed
from kit.openchatml import SPELLINGS, TRICKY, conversations, texts

SPELLED = openchatml([Control("<|im_end|>")])
SPOKEN = openchatml(CONTROLS)
FORMATS = pytest.mark.parametrize("format", [SPELLED, SPOKEN], ids=["spelled", "in controls"])
QUESTION = Conversation((Message(role=Role.USER, text="What is 2 + 2?"),))


def events(parser: Parser, *chunks: Piece) -> list[ParserEvent]:
    found: list[ParserEvent] = []
    for chunk in chunks:
        found += parser.feed([chunk])
    return found + parser.close()


def ended_messages(found: list[ParserEvent]) -> list[tuple[str | None, str, str]]:
    return [(e.message.channel, e.message.text, e.message.end.value) for e in found if isinstance(e, MessageEnded)]


def incidents(found: list[ParserEvent]) -> list[tuple[str, str]]:
    return [(e.code, e.text) for e in found if isinstance(e, Incident)]


def reply(*chunks: Piece, format: OpenChatML = SPELLED) -> list[ParserEvent]:
    return events(format.parser(), *chunks)


# -- prompts


@pytest.mark.spec("OCM-08", "OCM-09")
def test_a_prompt_is_a_transcript_up_to_the_reply() -> None:
    assert spell(list(SPELLED.render(QUESTION))) == (
        '---\nversion: "2.2"\n---\n<|start|>user<|message|>What is 2 + 2?<|end|>\n<|start|>assistant'
    )
    format: Format = SPOKEN
    assert list(format.render(QUESTION))[1:] == [
        *(Control("<|start|>"), "user", Control("<|message|>"), "What is 2 + 2?", Control("<|end|>")),
        *(Control("<|start|>"), "assistant"),
    ]


@pytest.mark.spec("OCM-163", "OCM-27", "OCM-38")
def test_controls_are_spelled_out_when_the_vocabulary_lacks_one_of_them() -> None:
    assert openchatml(STRUCTURE).controls == STRUCTURE
    assert openchatml(CONTROLS).controls == CONTROLS
    lacking = openchatml([*STRUCTURE[:-1], Control("<|im_end|>"), Control("<|im_start|>")])
    assert lacking.controls == ()
    assert lacking.stops == ("<|return|>", "<|call|>", Control("<|im_end|>"))


@pytest.mark.spec("OCM-116", "OCM-130", "OCM-33", "OCM-31")
def test_return_and_call_are_the_hard_stops() -> None:
    assert SPOKEN.stops == (Control("<|return|>"), Control("<|call|>"))
    for stop in ("<|return|>", "<|call|>"):
        parser = SPELLED.parser()
        parser.feed([f"<|channel|>final<|message|>4{stop}"])
        assert parser.ended == stop


@FORMATS
@given(text=texts)
@pytest.mark.spec("OCM-115", "OCM-37")
def test_what_a_user_types_cannot_open_or_close_a_frame(format: OpenChatML, text: str) -> None:
    plain = list(format.render(QUESTION))
    rendered = (
        list(format.render(Conversation((Message(role=Role.USER, text=text, name=text or None),)), reply_as=None))
        if (text.isascii())
        else list(format.render(Conversation((Message(role=Role.USER, text=text),)), reply_as=None))
    )
    if format.controls:
        assert sum(isinstance(p, Control) for p in rendered) == sum(isinstance(p, Control) for p in plain) - 1
    else:
        assert [m.text for m in read(spell(rendered)).messages] == [text]


@given(conversations())
def test_a_spelled_prompt_is_a_valid_transcript_of_what_it_shows(conversation: Conversation) -> None:
    prompt = spell(list(SPELLED.render(conversation, reply_as=None, history=HistoryPolicy.KEEP_ALL)))
    shown = read(prompt).messages
    own = shown[len(shown) - len(conversation.messages) :]
    assert [m.text for m in own] == [m.text for m in conversation.messages]


@given(conversations())
@pytest.mark.spec("OCM-27", "OCM-163")
def test_a_transcript_in_control_tokens_reads_as_the_same_messages(conversation: Conversation) -> None:
    tokenizer, decoded = ByteTokenizer(CONTROLS), Reader()
    pieces = SPOKEN.render(conversation, reply_as=None, history=HistoryPolicy.KEEP_ALL)
    decoder = PieceDecoder(tokenizer)
    read_back = []
    for id in encode_pieces(pieces, tokenizer):
        read_back += decoded.feed_pieces(decoder.feed([id]))
    read_back += decoded.close()
    own = [message for message in read_back if isinstance(message, Message)][-len(conversation.messages) or None :]
    as_shown = [End.END if message.end is End.RETURN else message.end for message in conversation.messages]
    if conversation.messages:
        assert [(m.text, m.recipient, m.call_id, m.end) for m in own] == [
            (well_formed(m.text), m.recipient, m.call_id, end)
            for m, end in zip(conversation.messages, as_shown, strict=True)
        ]


@pytest.mark.spec("OCM-79", "OCM-80", "OCM-128", "OCM-129")
def test_a_prompt_drops_reasoning_before_the_last_answer_and_keeps_that_of_an_open_call() -> None:
    def think(text: str) -> Message:
        return Message(role=Role.ASSISTANT, text=text, channel="analysis")

    answer = Message(role=Role.ASSISTANT, text="a", channel="final", end=End.RETURN)
    call = Message(
        role=Role.ASSISTANT, text="{}", channel="commentary", recipient="functions.f", call_id="1", end=End.CALL
    )
    user = Message(role=Role.USER, text="q")
    closed = Conversation((user, think("old"), answer, user))
    pending = Conversation((user, think("old"), answer, user, think("why"), call))
    assert "old" not in spell(list(SPELLED.render(closed)))
    assert "old" in spell(list(SPELLED.render(closed, history=HistoryPolicy.KEEP_ALL)))
    resumed = spell(list(SPELLED.render(pending)))
    assert "why" in resumed
    assert "old" not in resumed
    assert "<|call|>" in resumed
    assert "why" not in spell(list(SPELLED.render(pending, history=HistoryPolicy.DROP_ALL)))


def test_a_dropped_call_takes_its_reply_with_it() -> None:
    call = Message(role=Role.ASSISTANT, text="1+1", channel="analysis", recipient="python", call_id="1", end=End.CALL)
    result = Message(role=Role.TOOL, text="two", name="python", call_id="1", channel="commentary")
    answer = Message(role=Role.ASSISTANT, text="a", channel="final")
    assert "two" not in spell(list(SPELLED.render(Conversation((call, result, answer)))))


@pytest.mark.spec("OCM-33")
def test_a_prompt_writes_earlier_answers_with_end_and_keeps_calls() -> None:
    answer = Message(role=Role.ASSISTANT, text="a", channel="final", end=End.RETURN)
    assert "a<|end|>" in spell(list(SPELLED.render(QUESTION.add(answer))))


@FORMATS
def test_an_answer_left_open_is_continued(format: OpenChatML) -> None:
    prompt = list(
        format.render(QUESTION.add(Message(role=Role.ASSISTANT, text="It is", channel="final", end=End.NONE)))
    )
    assert spell(prompt).endswith("<|start|>assistant<|channel|>final<|message|>It is")
    found = events(format.parser(prompt=prompt), " 4", Control("<|return|>") if format.controls else "<|return|>")
    assert ended_messages(found) == [("final", " 4", "return")]


@FORMATS
def test_a_direct_opening_begins_the_answer_itself(format: OpenChatML) -> None:
    direct = replace(format, opening="final")
    prompt = list(direct.render(QUESTION))
    assert spell(prompt).endswith("<|start|>assistant<|channel|>final<|message|>")
    assert ended_messages(events(direct.parser(prompt=prompt), "4")) == [("final", "4", "none")]


@pytest.mark.spec("OCM-13", "OCM-14", "OCM-39", "OCM-40")
def test_settings_tools_and_answer_form_are_said_in_frames_of_their_own() -> None:
    conversation = replace(
        QUESTION,
        settings=Settings(identity="You are helpful.", reasoning_effort=ReasoningEffort.HIGH),
        tools=(ToolSpec("get_weather", "Weather.", {"type": "object"}),),
    )
    prompt = spell(list(SPELLED.render(conversation)))
    assert "reasoning_effort: high" in prompt
    system, developer, _ = read(prompt[: prompt.rindex("<|start|>")]).messages
    assert (system.role, developer.role) == (Role.SYSTEM, Role.DEVELOPER)
    assert system.text.startswith(
        "You are helpful.\n\nReasoning: high\n\n# Valid channels: analysis, commentary, final."
    )
    assert '"functions.get_weather"' in developer.text


def test_a_media_part_is_refused() -> None:
    with pytest.raises(RenderError, match="image"):
        list(SPELLED.render(Conversation((Message(role=Role.USER, parts=(OpaquePart("image", {}),)),))))


# -- replies

WHOLE = "<|channel|>analysis<|message|>Easy.<|end|>\n<|start|>assistant<|channel|>final<|message|>4 <<|end|><|return|>"


@pytest.mark.spec("OCM-42", "OCM-50", "OCM-119")
def test_a_reply_is_read_into_messages() -> None:
    found = reply(WHOLE)
    assert ended_messages(found) == [("analysis", "Easy.", "end"), ("final", "4 <|end|>", "return")]
    assert incidents(found) == []
    assert [e.message.channel for e in found if isinstance(e, MessageStarted)] == ["analysis", "final"]
    assert "".join(e.text for e in found if isinstance(e, TextDelta)) == "Easy.4 <|end|>"


@pytest.mark.parametrize("cut", range(1, len(WHOLE)))
def test_cutting_the_reply_anywhere_gives_the_same_messages(cut: int) -> None:
    assert ended_messages(reply(WHOLE[:cut], WHOLE[cut:])) == ended_messages(reply(WHOLE))


@pytest.mark.spec("OCM-82", "OCM-120", "OCM-121", "OCM-64")
@pytest.mark.parametrize(
    "head",
    [
        " to=functions.f call_id=x1<|channel|>commentary<|constrain|>json",
        " call_id=x1<|channel|>commentary to=functions.f <|constrain|>json",
    ],
)
def test_a_call_is_read_from_both_places_of_to(head: str) -> None:
    found = reply(f'{head}<|message|>{{"a": 1}}<|call|>')
    call = next(e.message for e in found if isinstance(e, MessageEnded))
    assert (call.recipient, call.call_id, call.text, call.end) == ("functions.f", "x1", '{"a": 1}', End.CALL)
    assert call.is_call
    assert incidents(found) == []


@pytest.mark.spec("OCM-70", "OCM-135")
def test_a_body_that_breaks_its_constraint_is_an_incident_and_still_a_message() -> None:
    found = reply(" to=functions.f call_id=1<|channel|>commentary<|constrain|>json<|message|>{nope<|call|>")
    assert ended_messages(found) == [("commentary", "{nope", "call")]
    assert [code for code, _ in incidents(found)] == ["E-BODY-CONSTRAINT-VIOLATION"]


@pytest.mark.spec("OCM-105", "OCM-139", "OCM-05")
def test_a_reply_that_breaks_off_is_an_incomplete_message() -> None:
    found = reply("<|channel|>final<|message|>It is")
    assert ended_messages(found) == [("final", "It is", "none")]
    assert [code for code, _ in incidents(found)] == ["E-STREAM-TRUNCATED"]


@pytest.mark.spec("OCM-54")
def test_unmarked_text_is_the_answer() -> None:
    assert ended_messages(reply(" Hello there", ", friend")) == [(None, " Hello there, friend", "none")]
    assert ended_messages(reply("<|channel|>final Hello<|return|>")) == [("final", " Hello", "return")]


def test_line_breaks_in_a_head_are_no_text() -> None:
    found = reply("\n<|start|>assistant\n<|channel|>final\n<|message|>Hi<|return|>")
    assert ended_messages(found) == [("final", "Hi", "return")]
    assert ended_messages(reply("\nHello<|return|>")) == [(None, "\nHello", "return")]


def test_the_models_own_end_token_ends_the_turn() -> None:
    parser = SPELLED.parser()
    found = parser.feed(["<|channel|>final<|message|>4", Control("<|im_end|>"), "more"]) + parser.close()
    assert ended_messages(found) == [("final", "4", "return")]
    assert parser.ended == "<|im_end|>"
    assert incidents(found) == [("E-PARSE-HEADER", "more")]


def test_a_reply_that_is_cut_within_a_control_has_nothing_of_it() -> None:
    parser = SPELLED.parser()
    assert isinstance(parser, CutParser)
    found = parser.feed(["<|channel|>final<|message|>4<|en"]) + parser.cut()
    assert ended_messages(found) == [("final", "4", "none")]
    assert incidents(found) == [("E-STREAM-TRUNCATED", "<|en"), ("E-STREAM-TRUNCATED", "")]


def test_a_frame_of_somebody_else_ends_the_turn() -> None:
    parser = SPELLED.parser()
    found = parser.feed(["<|message|>4<|end|>\n<|start|>user<|message|>And 3 + 3?<|end|>"]) + parser.close()
    assert ended_messages(found) == [(None, "4", "end")]
    assert parser.ended == "<|start|>"
    assert "And 3 + 3?" in incidents(found)[0][1]


@pytest.mark.spec("OCM-78", "OCM-168")
def test_reasoning_that_follows_an_unclosed_answer_does_not_become_part_of_it() -> None:
    found = reply("<|channel|>final<|message|>4<|start|>assistant<|channel|>analysis<|message|>secret<|end|>")
    shown = [e.message.text for e in found if isinstance(e, MessageEnded) and visible_to_user(e.message)]
    assert shown == ["4"]


def test_a_strict_parser_raises_what_the_default_repairs() -> None:
    with pytest.raises(ParseError, match="has a body but no"):
        SPELLED.parser(strict=True).feed([" Hello"])


_noise = st.lists(
    st.one_of(
        st.sampled_from([*TRICKY, " to=functions.f", "analysis", "final", " json", "assistant", "user", "{}"]),
        st.text("ÄÖÜ", min_size=1, max_size=4),
        st.sampled_from([Control("<|im_end|>"), *CONTROLS]),
    ),
    max_size=12,
)


@FORMATS
@given(noise=_noise)
def test_no_reply_makes_the_parser_raise_or_lose_text(format: OpenChatML, noise: list[Piece]) -> None:
    found = reply(*noise, format=format)
    messages = [e.message for e in found if isinstance(e, MessageEnded)]
    output = "".join([*map(str, messages), *(text for _, text in incidents(found))])
    wrote = "".join(piece for piece in noise if isinstance(piece, str))
    assert all(output.count(c) >= wrote.count(c) for c in "ÄÖÜ")


@given(
    text=st.lists(
        st.sampled_from([*SPELLINGS, "assistant", " to=", "functions.f", "final", " ", "H", "\n", "<"]), max_size=10
    ).map("".join),
    cut=st.integers(0, 60),
)
def test_cutting_noise_anywhere_gives_the_same_messages(text: str, cut: int) -> None:
    assert ended_messages(reply(text[:cut], text[cut:])) == ended_messages(reply(text))


@given(conversations())
@pytest.mark.spec("OCM-06")
def test_what_is_rendered_as_a_reply_is_read_without_an_incident(conversation: Conversation) -> None:
    for message in conversation.messages:
        if message.role is not Role.ASSISTANT:
            continue
        prompt = spell(list(SPELLED.render(Conversation((replace(message, end=End.END),)), reply_as=None)))
        spelled = prompt[prompt.index("<|start|>assistant") + len("<|start|>assistant") :]
        found = reply(spelled)
        assert incidents(found) == []
        assert [replace(e.message, end=message.end) for e in found if isinstance(e, MessageEnded)] == [message]
