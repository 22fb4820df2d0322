"""The one JSON form of a message: whole, and able to read what was written before it was the only one."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.transcript import read_transcript, transcript_json
from antiphon.conversation import (
    Conversation,
    End,
    Message,
    OpaquePart,
    Role,
    SystemContent,
    TextPart,
    ToolsPart,
    ToolSpec,
)
from antiphon.conversation.json import (
    FIELDS,
    FullMessageJson,
    MessageJson,
    full_message_json,
    message_fields,
    message_json,
    message_of,
)
from antiphon.conversion import read_sidecar
from antiphon.conversion.json_text import Spool
from antiphon.errors import FormatError, ParseError
from antiphon.formats.openchatml import Trivia
from antiphon.store import pack, unpack
from antiphon.tokens import SampledText

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OPTIONAL = st.none() | TEXT
WEATHER = ToolSpec("weather", "Of a city.", {"type": "object"}, strict=True, namespace="sky")
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(Role),
    text=TEXT,
    name=OPTIONAL,
    recipient=OPTIONAL,
    channel=OPTIONAL,
    content_type=OPTIONAL,
    constrained=st.booleans(),
    call_id=OPTIONAL,
    intent=OPTIONAL,
    end=st.sampled_from(End),
    parts=st.lists(
        st.builds(TextPart, TEXT) | st.builds(OpaquePart, TEXT, st.none() | TEXT) | st.just(ToolsPart.of([WEATHER]))
    ).map(tuple),
)
CALL = Message(
    role=Role.ASSISTANT,
    text="{}",
    recipient="functions.f",
    channel="commentary",
    content_type="json",
    constrained=True,
    call_id="c1",
    intent="status",
    end=End.CALL,
)
PICTURE = Message(
    role=Role.USER, text="ab", name="Ada", parts=(TextPart("a"), OpaquePart("image", {"url": "x"}), TextPart("b"))
)


def test_every_field_of_a_message_is_written_or_is_known_not_to_be() -> None:
    assert {field.name for field in fields(Message)} - set(FIELDS) == {"parts", "extra"}


@given(MESSAGES)
def test_a_message_comes_back_from_the_full_form(message: Message) -> None:
    data = msgspec.json.encode(full_message_json(message))
    assert message_of(msgspec.json.decode(data, type=FullMessageJson)) == message
    assert unpack(pack(message)) == message


@given(MESSAGES.map(lambda message: replace(message, parts=())))
def test_a_message_comes_back_from_the_form_without_parts(message: Message) -> None:
    assert message_of(msgspec.json.decode(msgspec.json.encode(message_json(message)), type=MessageJson)) == message
    assert read_transcript(transcript_json(Conversation((message,)))).messages == (message,)


HEADER = ("assistant", "<|channel|>", "commentary to=functions.f")


def test_the_header_that_a_message_was_read_from_comes_back() -> None:
    call = replace(CALL, header=HEADER)
    assert message_of(msgspec.json.decode(msgspec.json.encode(message_json(call)), type=MessageJson)).header == HEADER
    assert read_transcript(transcript_json(Conversation((call,)))).messages[0].header == HEADER
    assert unpack(pack(call)).header == HEADER


def test_the_ids_that_a_header_was_sampled_as_come_back_from_a_store() -> None:
    text = SampledText("commentary to=functions.f", (7, 8), "v")
    stored = unpack(pack(replace(CALL, header=(*HEADER[:2], text))))
    assert stored.header == HEADER
    assert [piece.ids for piece in stored.header if isinstance(piece, SampledText)] == [(7, 8)]
    assert not isinstance(stored.text, SampledText)


def test_text_and_end_are_always_reported_and_defaults_are_not() -> None:
    bare = Message(role=Role.USER)
    assert msgspec.json.encode(message_json(bare)) == b'{"role":"user","text":"","end":"end"}'
    assert message_fields(bare) == {"role": Role.USER}


def test_content_that_is_made_for_a_prompt_is_not_written_down() -> None:
    with pytest.raises(FormatError):
        full_message_json(Message(role=Role.SYSTEM, parts=(SystemContent(identity="M"),)))


@given(st.lists(MESSAGES | st.just(Message(role=Role.USER, text="\udcff", parts=(TextPart("\udcff"),)))))
def test_a_spool_gives_back_what_it_took_lone_surrogates_too(messages: list[Message]) -> None:
    spool = Spool()
    for message in messages:
        spool.add(message)
    assert list(spool.take()) == messages


STORED = {
    b"\x8b\xa4role\xa9assistant\xa4text\xa2{}\xa9recipient\xabfunctions.f\xa7channel\xaacommentary\xaccontent_type"
    b"\xa4json\xabconstrained\xc3\xa7call_id\xa2c1\xa6intent\xa6status\xa3end\xa4call\xa3ids\x92\x07\x08"
    b"\xaavocabulary\xa5o200k": CALL,
    b"\x84\xa4role\xa4user\xa4text\xa2ab\xa4name\xa3Ada\xa5parts\x93\x82\xa4kind\xa4text\xa4text\xa1a\x82\xa4kind"
    b"\xacopaque:image\xa4data\x81\xa3url\xa1x\x82\xa4kind\xa4text\xa4text\xa1b": PICTURE,
    b"\x81\xa4role\xa9assistant": Message(role=Role.ASSISTANT),
}
"""Bytes of a session store, written when the store had a form of its own."""


@pytest.mark.parametrize("stored", STORED)
def test_what_an_older_version_stored_is_read(stored: bytes) -> None:
    assert unpack(stored) == STORED[stored]


def test_sampled_ids_that_an_older_version_stored_are_read() -> None:
    text = unpack(next(iter(STORED))).text
    assert isinstance(text, SampledText)
    assert (text.ids, text.vocabulary) == ((7, 8), "o200k")


SIDECAR = (
    b'{"schema":"antiphon.sidecar/1","digest":"sha256:0","about":{},"items":['
    b'{"at":0,"count":1,"messages":[{"role":"user","text":"Hi","name":"Ada","spelling":{"head":"user  name=Ada"}}]},'
    b'{"at":1,"count":0,"messages":[{"role":"system","parts":[{"type":"system_content","model_identity":"M"}]},'
    b'{"role":"user","text":"a","parts":[{"type":"text","text":"a"},{"type":"opaque","kind":"image","data":7}]},'
    b'{"role":"assistant","text":"{}","recipient":"functions.f","channel":"commentary","content_type":"json",'
    b'"constrained":true,"call_id":"c1","intent":"status","end":"call"}]}]}\n'
)
"""A sidecar as it was written when it had a form of its own."""


def test_the_sidecar_of_an_older_version_is_read() -> None:
    spoken, system, picture, call = read_sidecar(SIDECAR).restored([Message(role=Role.USER)])
    assert (spoken.text, spoken.name, spoken.extra) == ("Hi", "Ada", {"openchatml": Trivia(head="user  name=Ada")})
    assert isinstance(system.parts[0], SystemContent)
    assert system.parts[0].identity == "M"
    assert picture.parts == (TextPart("a"), OpaquePart("image", 7))
    assert call == CALL


@pytest.mark.parametrize("change", [{"unknown": 1}, {"role": "nobody"}, {"text": 7}, {"spelling": {"unknown": "x"}}])
def test_a_sidecar_that_is_none_is_reported(change: dict[str, object]) -> None:
    value = json.loads(SIDECAR)
    value["items"][0]["messages"][0] |= change
    with pytest.raises(ParseError, match="this is no sidecar") as refused:
        read_sidecar(json.dumps(value).encode()).restored([Message(role=Role.USER)])
    assert refused.value.code == "bad_sidecar"


def test_the_transcript_of_an_older_version_is_read() -> None:
    transcript = (
        '{"messages": [{"role": "assistant", "recipient": "functions.f", "channel": "commentary",'
        ' "content_type": "json", "constrained": true, "call_id": "c1", "intent": "status", "text": "{}",'
        ' "end": "call"}, {"role": "user"}]}'
    )
    assert read_transcript(transcript).messages == (CALL, Message(role=Role.USER))
