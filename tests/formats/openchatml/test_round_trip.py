"""The laws: what is written reads as it was; what was read is written as it was; cutting changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message, Role
from antiphon.errors import ParseError
from antiphon.formats.openchatml import Finding, Reader, fix, iter_read, read, repair, write, write_bytes
from antiphon.formats.openchatml.spelling import (
    TOKEN,
    VALUE,
    decode_value,
    encode_value,
    escape,
    spell_body,
    spell_literal,
    unescape,
)  # fmt: skip
from kit.openchatml import SPELLINGS, TRICKY, conversations, texts, transcripts, values


@pytest.mark.spec("OCM-37", "OCM-71")
@given(texts)
def test_escaping_is_a_bijection_and_leaves_no_control(text: str) -> None:
    escaped = escape(text)
    assert unescape(escaped) == text
    assert all(escaped[found.start() - 1] == "<" for found in TOKEN.finditer(escaped))


@pytest.mark.spec("OCM-37")
@given(texts)
def test_what_is_unescaped_escapes_to_itself_when_it_had_no_control(text: str) -> None:
    if all(found.start() and text[found.start() - 1] == "<" for found in TOKEN.finditer(text)):
        assert escape(unescape(text)) == text


@pytest.mark.parametrize("k", [2, 3, 4, 7])
@pytest.mark.parametrize("name", [s[1:] for s in SPELLINGS])
@pytest.mark.spec("OCM-37", "OCM-145")
def test_a_run_of_k_reads_as_k_minus_one_for_each_of_the_nine(k: int, name: str) -> None:
    assert unescape("<" * k + name) == "<" * (k - 1) + name


@given(texts)
@pytest.mark.spec("OCM-35", "OCM-36", "OCM-61", "OCM-150")
def test_any_text_is_read_back_from_a_body(text: str) -> None:
    frame = f"<|start|>user<|message|>{spell_body(text)}<|end|>"
    assert [m.text for m in read(frame, fragment=True).messages] == [text]


@given(texts)
@pytest.mark.spec("OCM-35", "OCM-36")
def test_any_text_is_read_back_from_literal_blocks(text: str) -> None:
    frame = f"<|start|>user<|message|>{spell_literal(text)}<|end|>"
    assert [m.text for m in read(frame, fragment=True).messages] == [text]


@given(values)
@pytest.mark.spec("OCM-115", "OCM-146")
def test_any_value_is_read_back_from_a_head_and_cannot_end_it(value: str) -> None:
    encoded = encode_value(value)
    assert VALUE.fullmatch(encoded)
    assert decode_value(encoded) == value


@given(conversations())
@pytest.mark.spec("OCM-08", "OCM-58", "OCM-59", "OCM-60")
def test_a_conversation_that_was_written_reads_as_itself(conversation: Conversation) -> None:
    assert read(write(conversation)) == conversation


@given(transcripts())
@pytest.mark.spec("OCM-25", "OCM-146", "OCM-149")
def test_a_transcript_that_was_read_is_written_byte_for_byte(transcript: str) -> None:
    assert write(read(transcript)) == transcript
    data = transcript.encode("utf-8", "surrogateescape")
    assert write_bytes(read(data)) == data


@given(transcripts(), st.data())
@pytest.mark.spec("OCM-38", "OCM-163")
def test_cutting_a_transcript_anywhere_gives_the_same_messages(transcript: str, data: st.DataObject) -> None:
    whole = read(transcript)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(transcript)), max_size=8)))
    pieces = [transcript[a:b] for a, b in zip([0, *cuts], [*cuts, len(transcript)], strict=True)]
    assert read(pieces) == whole
    assert write(read(pieces)) == transcript


@given(transcripts())
@pytest.mark.spec("OCM-38")
def test_a_transcript_read_byte_by_byte_gives_the_same_messages(transcript: str) -> None:
    data = transcript.encode("utf-8", "surrogateescape")
    assert read(data[i : i + 1] for i in range(len(data))) == read(data)


_garbage = st.lists(
    st.one_of(
        st.sampled_from([*TRICKY, "user", "assistant to=", " call_id=a", "version: 2.2\n", "json"]), st.text(max_size=3)
    ),
    max_size=20,
).map("".join)


@given(_garbage, st.data())
def test_cutting_garbage_anywhere_gives_the_same_messages(text: str, data: st.DataObject) -> None:
    whole, findings = repair(text)
    cut = data.draw(st.integers(0, len(text)))
    again, same = repair([text[:cut], text[cut:]])
    assert again == whole
    assert [(f.code, f.position) for f in same] == [(f.code, f.position) for f in findings]


@given(st.one_of(_garbage, transcripts(), st.tuples(transcripts(), _garbage).map("".join)), st.data())
def test_the_strict_reader_raises_the_first_finding_however_the_text_is_cut(text: str, data: st.DataObject) -> None:
    _, findings = repair(text, fragment=False)
    first = next((f for f in findings if not f.warning), None)
    cut = data.draw(st.integers(0, len(text)))
    if first is None:
        read([text[:cut], text[cut:]])
        return
    with pytest.raises(ParseError) as raised:
        read([text[:cut], text[cut:]])
    assert (raised.value.code, raised.value.position) == (first.code, first.position)


@given(_garbage)
def test_no_text_is_lost_whatever_comes(text: str) -> None:
    reader = Reader(strict=False, fragment=True)
    output = "".join([*(item.text for item in iter_read(text, reader)), reader.header_text])
    assert all(c in output for c in text if c.isalpha() and c not in "abcdefghijklmnopqrstuvwxyz")


@given(_garbage)
def test_what_was_repaired_is_written_as_a_valid_transcript(text: str) -> None:
    conversation, _ = repair(text)
    fixed, _ = fix(conversation)
    assert [m.text for m in read(write(fixed), fragment=True).messages] == [m.text for m in conversation.messages]


def test_a_changed_message_is_written_anew_and_its_neighbours_as_they_were() -> None:
    conversation = read(
        "<|start|>user\tname=a<|message|>x<|end|>\n\n<|start|>user\tname=b<|message|>y<|end|>", fragment=True
    )
    first, second = conversation.messages
    changed = Conversation(
        (Message(role=Role.USER, text="z", name="c", extra=first.extra), second), extra=conversation.extra
    )
    assert write(changed) == "<|start|>user name=c<|message|>z<|end|>\n\n<|start|>user\tname=b<|message|>y<|end|>"


def test_findings_are_values_with_a_place() -> None:
    _, findings = repair("version: 2.2\n<|start|>user<|message|>a<|channel|>b<|end|>")
    hint, at = "As text it is written <<|channel|>.", findings[0].position
    wrong = "<|channel|> stands in a body"
    assert findings[0] == Finding("E-PARSE-HEADER", wrong, at, hint, rule="control-in-body")
    assert str(findings[0].position) == "2:26"
