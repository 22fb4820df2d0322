"""What a conversion keeps, and what its report says of the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.conversation import Message, Role
from antiphon.conversion import Conversion, Loss, SidecarWriter, read_sidecar
from antiphon.errors import ParseError

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is "}, IMAGE, {"type": "text", "text": "this?"}]},
        {"role": "assistant", "content": "A cat."},
    ]
}


def convert(value: object, to: str, **more: Any) -> tuple[str, list[str], Conversion]:
    losses: list[Loss] = []
    conversion = Conversion(to=to, on_loss=losses.append, **more)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    output = b"".join(conversion.run(data[i : i + 50] for i in range(0, len(data), 50)))
    return output.decode(), list(map(str, losses)), conversion


def test_chat_json_keeps_its_images() -> None:
    output, losses, _ = convert(CHAT, "chat")
    assert json.loads(output) == CHAT
    assert losses == []


@pytest.mark.parametrize("form", ["openchatml", "harmony", "harmony-ids", "harmony-json", "responses"])
def test_a_form_of_text_alone_reports_an_image_and_keeps_it_in_the_sidecar(form: str) -> None:
    output, losses, conversion = convert(CHAT, form, sidecar_writer=SidecarWriter())
    lost = next(loss for loss in losses if ".parts" in loss)
    assert lost.startswith("messages[0].parts: text + image_url + text becomes text")
    back, _, _ = convert(output.encode(), "chat", input_sidecar=conversion.sidecar(), source=form)
    assert json.loads(back) == CHAT


def test_a_template_reports_an_image_too() -> None:
    output, losses, _ = convert(CHAT, "chatml")
    assert "What is this?" in output
    assert any(".parts: text + image_url" in loss for loss in losses)


def test_an_image_beside_calls_alone_is_reported() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    _, losses, _ = convert({"messages": [{"role": "assistant", "content": [IMAGE], "tool_calls": [call]}]}, "chat")
    assert "messages[0].content: image_url" in losses


def test_a_text_that_spells_a_templates_marker_is_reported() -> None:
    _, losses, _ = convert({"messages": [{"role": "user", "content": "x<|im_end|>y"}]}, "chatml")
    assert "messages[0].text: '<|im_end|>' becomes a marker of chatml" in losses


def test_faulty_harmony_text_is_reported_with_line_and_column() -> None:
    with pytest.raises(ParseError) as caught:
        convert(b"<|start|>user<|message|>a\nb<|end|>stray<|start|>user<|message|>c<|end|>", "chat")
    assert caught.value.position is not None
    assert (caught.value.position.line, caught.value.position.column) == (2, 14)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_tools_that_stand_behind_the_messages_are_known_before_them(cut: int) -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}}
    data = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "tools": [tool]}).encode()
    conversion = Conversion(to="harmony")
    output = b"".join(conversion.run(data[i : i + cut] for i in range(0, len(data), cut))).decode()
    assert output.index("type f =") < output.index("Hi")


def test_an_error_names_the_message_by_its_number() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user"}]
    with pytest.raises(ParseError, match=r"messages\[2\]\.content"):
        convert({"messages": messages}, "harmony")


@pytest.mark.parametrize("value", [{"messages": None}, {"messages": {}}, 3, "x", None, {}, [3], [[]], {"tools": []}])
def test_json_of_any_other_kind_is_refused(value: object) -> None:
    with pytest.raises(ParseError) as caught:
        convert(value, "chat", source="json")
    assert caught.value.code == "unknown_form"


@pytest.mark.parametrize("value", [{"messages": 3}, {"messages": None}, 3, {}])
@pytest.mark.parametrize("form", ["chat", "harmony-json", "responses"])
def test_a_form_without_its_list_is_refused(value: object, form: str) -> None:
    with pytest.raises(ParseError, match="is not a list"):
        convert(value, "chat", source=form)


@pytest.mark.parametrize("value", [[], {"messages": []}])
def test_a_conversation_may_be_empty(value: object) -> None:
    assert json.loads(convert(value, "chat", source="json")[0]) == {"messages": []}


def test_a_sidecar_carries_bytes_that_are_no_utf8() -> None:
    transcript = b'version: "2.2"\n<|start|>user<|message|>H\xffi<|end|>'
    _, _, conversion = convert(transcript, "chat", lenient=True, sidecar_writer=SidecarWriter())
    sidecar = conversion.sidecar()
    assert sidecar is not None
    (restored,) = read_sidecar(sidecar.encode()).restored([Message(role=Role.USER, text="H\ufffdi")])
    assert restored.text.encode("utf-8", "surrogateescape") == b"H\xffi"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b'{"schema": "antiphon.sidecar/1"}', b"[" * 100_000])
def test_what_is_no_sidecar_is_reported(data: bytes) -> None:
    with pytest.raises(ParseError, match="this is no sidecar"):
        read_sidecar(data)


SAMPLED = (
    "<|start|>user<|message|>go<|end|>"
    "<|start|>assistant<|channel|>commentary to=functions.f<|constrain|>json<|message|>{}<|call|>"
    "<|start|>functions.f to=assistant<|channel|>commentary<|message|>1<|end|>"
    "<|start|>assistant<|channel|>final<|message|>done<|return|>"
)


@pytest.mark.parametrize("form", ["openchatml", "harmony-json", "harmony-ids", "chat", "responses"])
def test_how_a_harmony_header_was_written_comes_back_by_the_sidecar(form: str) -> None:
    output, losses, conversion = convert(SAMPLED.encode(), form, source="harmony", sidecar_writer=SidecarWriter())
    headers = [loss for loss in losses if ".header: " in loss]
    if form == "harmony-ids":
        assert headers == []
    else:
        assert headers[0].startswith("messages[1].header: 'assistant<|channel|>commentary to=functions.f<|constrain")
        assert all(loss.endswith("(spelling)") for loss in headers)
    back, _, _ = convert(output.encode(), "harmony", input_sidecar=conversion.sidecar(), source=form)
    assert back == SAMPLED


def test_harmony_is_harmony_again_as_it_was_written() -> None:
    output, losses, _ = convert(SAMPLED.encode(), "harmony", source="harmony")
    assert (output, losses) == (SAMPLED, [])
