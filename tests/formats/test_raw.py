"""Without a format a prompt is its text, and a reply is one message with all its text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, End, Incident, Message, MessageEnded, ParserEvent, Role
from antiphon.errors import ParseError
from antiphon.formats.raw import RawFormat, RawParser
from antiphon.tokens import ByteTokenizer, Control, Piece, SampledText, encode_pieces

STOP, OTHER = Control("<|stop|>"), Control("<|other|>")
CLS, SEP = Control("[CLS]"), Control("[SEP]")


def read(parser: RawParser, *pieces: Sequence[Piece]) -> list[ParserEvent]:
    return [event for some in pieces for event in parser.feed(some)] + parser.close()


def finished(events: list[ParserEvent]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageEnded)]


def test_a_prompt_is_its_text_and_control_spellings_in_it_are_text() -> None:
    tokenizer = ByteTokenizer([STOP])
    conversation = Conversation((Message(role=Role.USER, text="a<|stop|>"),))
    pieces = list(RawFormat([STOP], stops=[STOP]).render(conversation))
    assert encode_pieces(pieces, tokenizer) == list(b"a<|stop|>")


def test_ids_of_a_caller_s_own_stay_what_they_are() -> None:
    tokenizer = ByteTokenizer([STOP])
    sent = SampledText("a<|stop|>", (97, tokenizer.controls[STOP]), tokenizer.name)
    conversation = Conversation((Message(role=Role.USER, text=sent),))
    assert encode_pieces(RawFormat().render(conversation), tokenizer) == [97, tokenizer.controls[STOP]]


def test_begin_and_end_frame_the_text() -> None:
    conversation = Conversation((Message(role=Role.USER, text="x"),))
    assert list(RawFormat(begin=[CLS], end=[SEP]).render(conversation)) == [CLS, "x", SEP]


def test_other_controls_are_left_out_or_spelled() -> None:
    reply: list[Piece] = ["a", OTHER, "b", STOP]
    left_out = read(RawFormat(stops=[STOP]).parser(), reply)
    assert [(m.text, m.end) for m in finished(left_out)] == [("ab", End.END)]
    assert Incident("unexpected_control", 1, "<|other|>") in left_out
    spelled = read(RawFormat(stops=[STOP], spelled=True).parser(), reply)
    assert [m.text for m in finished(spelled)] == ["a<|other|>b"]
    with pytest.raises(ParseError, match="unexpected control"):
        read(RawFormat(stops=[STOP]).parser(strict=True), reply)


def test_nothing_is_one_empty_message_and_what_follows_the_end_is_an_incident() -> None:
    assert [(m.text, m.end) for m in finished(read(RawFormat().parser()))] == [("", End.NONE)]
    late = read(RawFormat(stops=[STOP]).parser(), [STOP, "late"])
    assert Incident("after_end", 1, "late") in late
    assert [m.text for m in finished(late)] == [""]


PIECES = st.lists(st.one_of(st.text("ab\n", min_size=1, max_size=3), st.sampled_from([STOP, OTHER])), max_size=6)


@given(PIECES, st.integers(0, 20), st.booleans())
def test_cutting_the_reply_anywhere_gives_the_same_message(reply: list[Piece], at: int, spelled: bool) -> None:
    letters: list[Piece] = [part for piece in reply for part in (piece if isinstance(piece, str) else [piece])]
    format = RawFormat(stops=[STOP], spelled=spelled)
    assert finished(read(format.parser(), letters[:at], letters[at:])) == finished(read(format.parser(), reply))
