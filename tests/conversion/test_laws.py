"""The laws of conversion, for any conversation."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message
from antiphon.conversion import Conversion, SidecarWriter
from antiphon.conversion.convert import source_named, target_named
from antiphon.conversion.sidecar import same
from antiphon.errors import RenderError
from antiphon.formats.openchatml import read, write_bytes
from kit.openchatml import conversations

FORMS = ("openchatml", "harmony", "harmony-ids", "harmony-json", "chat", "responses")


def converted(transcript: bytes, form: str, *, cut: int = 1 << 20) -> tuple[bytes, Conversion]:
    conversion = Conversion(to=form, source="openchatml", sidecar_writer=SidecarWriter())
    chunks = (transcript[i : i + cut] for i in range(0, len(transcript), cut))
    return b"".join(conversion.run(chunks)), conversion


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10, deadline=None)
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
@settings(max_examples=10, deadline=None)
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


def way(transcript: str, form: str) -> tuple[Conversation, list[str]]:
    """There and back, without a sidecar; what either way loses."""
    losses: list[str] = []
    there = Conversion(to=form, source="openchatml", on_loss=lambda loss: losses.append(str(loss)))
    back = Conversion(to="openchatml", source=form, on_loss=lambda loss: losses.append(str(loss)))
    return read(b"".join(back.run([b"".join(there.run([transcript.encode()]))]))), losses


ASKED = 'version: "2.2"\n<|start|>user<|message|>Go<|end|>\n'


@pytest.mark.parametrize("form", FORMS)
def test_a_transcript_that_ends_in_reasoning_gets_no_answer_that_nobody_said(form: str) -> None:
    back, _ = way(ASKED + "<|start|>assistant<|channel|>analysis<|message|>hm<|end|>\n", form)
    assert [m.text for m in back.messages] == ["Go", "hm"]


@pytest.mark.parametrize("form", ["harmony", "harmony-ids"])
@pytest.mark.parametrize("typed", ["<|constrain|>json", " content_type=markdown", "<|constrain|>yaml"])
def test_a_type_that_no_header_of_harmony_has_is_reported_and_with_its_sidecar_whole(form: str, typed: str) -> None:
    transcript = f"{ASKED}<|start|>assistant<|channel|>final{typed}<|message|>[1]<|return|>\n"
    back, losses = way(transcript, form)
    assert (back.messages[1].text, back.messages[1].content_type) == ("[1]", None)
    assert any("content_type" in loss for loss in losses)
    output, conversion = converted(transcript.encode(), form)
    again = Conversion(to="openchatml", source=form, input_sidecar=conversion.sidecar())
    assert b"".join(again.run([output])) == transcript.encode()


@pytest.mark.parametrize("form", ["chat", "responses"])
@pytest.mark.parametrize(
    ("head", "body"), [("to=python call_id=c", "print(1)"), ("to=functions.f call_id=c content_type=text", "{broken")]
)
def test_arguments_that_are_no_json_do_not_promise_it(form: str, head: str, body: str) -> None:
    call = f"<|start|>assistant {head}<|channel|>commentary<|message|>{body}<|call|>\n"
    back, losses = way(ASKED + call, form)
    assert (back.messages[1].text, back.messages[1].constrained) == (body, False)
    assert any("constrained" in loss for loss in losses)


def test_a_sidecar_that_was_changed_cannot_make_an_invalid_transcript() -> None:
    output, conversion = converted(ASKED.encode(), "chat")
    sidecar = conversion.sidecar()
    assert sidecar is not None
    about = {**sidecar.about, "envelope": {**sidecar.about["envelope"], "text": "no: header\n", "tail": "stray"}}
    back = Conversion(to="openchatml", source="chat", input_sidecar=msgspec.structs.replace(sidecar, about=about))
    with pytest.raises(RenderError, match="version"):
        list(back.run([output]))


@pytest.mark.parametrize("form", FORMS)
def test_the_best_reading_of_a_misspelt_role_is_that_role_and_stays_hidden(form: str) -> None:
    warnings: list[str] = []
    there = Conversion(to=form, source="openchatml", lenient=True, on_warning=warnings.append)
    output = b"".join(there.run([b'version: "2.2"\n<|start|>asistant<|channel|>finl<|message|>Hello<|end|>\n']))
    back = read(b"".join(Conversion(to="openchatml", source=form).run([output])))
    assert [(m.role, m.effective_channel, m.text) for m in back.messages] == [("assistant", "analysis", "Hello")]
    assert "messages[0].role: 'tool' becomes 'assistant'" in warnings


def test_what_cannot_be_fixed_is_an_error_in_the_lenient_reading_too() -> None:
    conversion = Conversion(to="openchatml", source="openchatml", lenient=True)
    with pytest.raises(RenderError) as raised:
        list(conversion.run([b'version: "2.2"\n<|start|>moderator<|message|>x<|end|>\n']))
    assert raised.value.code == "E-PARSE-HEADER"


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "", "no JSON", '{"a": NaN}'])
def test_broken_arguments_of_chat_json_promise_nothing_and_are_reported(arguments: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    losses: list[str] = []
    conversion = Conversion(to="openchatml", source="chat", on_loss=lambda loss: losses.append(loss.path))
    (made,) = read(b"".join(conversion.run([json.dumps(body).encode()]))).messages
    assert (made.text, made.content_type, made.constrained) == (arguments, None, False)
    assert "messages[0].constrained" in losses
