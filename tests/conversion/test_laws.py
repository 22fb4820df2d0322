"""The laws of conversion, for any conversation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message
from antiphon.conversion import Conversion, SidecarWriter
from antiphon.conversion.compare import same
from antiphon.conversion.convert import source_named, target_named
from antiphon.errors import RenderError
from antiphon.formats.openchatml import write_bytes
from kit.openchatml import conversations

FORMS = ("openchatml", "harmony", "harmony-ids", "harmony-json", "chat", "responses")


def converted(transcript: bytes, form: str, *, cut: int = 1 << 20) -> tuple[bytes, Conversion]:
    conversion = Conversion(to=form, source="openchatml", sidecar_writer=SidecarWriter())
    chunks = (transcript[i : i + cut] for i in range(0, len(transcript), cut))
    return b"".join(conversion.run(chunks)), conversion


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, deadline=None)
@given(conversation=conversations())
def test_with_its_sidecar_every_way_there_and_back_is_whole(form: str, conversation: Conversation) -> None:
    transcript = write_bytes(conversation)
    try:
        output, conversion = converted(transcript, form)
    except RenderError:  # Harmony's text cannot say what spells a control
        return
    back = Conversion(to="openchatml", source=form, input_sidecar=conversion.sidecar(), lenient=True)
    assert b"".join(back.run([output])) == transcript


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, deadline=None)
@given(conversation=conversations())
def test_a_reader_gets_what_the_report_says_and_nothing_else(form: str, conversation: Conversation) -> None:
    target, read, output = target_named(form), list[Message](), ""
    try:
        written = [target.open(conversation)[0]]
        written += [part for message in conversation.messages for part in target.write(message)]
        written += target.close(conversation)
    except RenderError:
        return
    for part in written:
        read += part.read
        output += part.text
    source = source_named(form, lenient=True)
    actual = [*source.feed(output.encode("utf-8", "surrogateescape")), *source.close()]
    assert len(actual) == len(read)
    assert [pair for pair in zip(actual, read, strict=True) if not same(*pair)] == []


@settings(max_examples=25, deadline=None)
@given(conversation=conversations(), cut=st.integers(1, 40), form=st.sampled_from(FORMS))
def test_cutting_the_input_anywhere_gives_the_same_output(conversation: Conversation, cut: int, form: str) -> None:
    transcript = write_bytes(conversation)
    try:
        whole, _ = converted(transcript, form)
    except RenderError:
        return
    assert converted(transcript, form, cut=cut)[0] == whole
