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


def test_a_call_behind_an_answer_is_a_message_of_its_own() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "assistant", "content": "Yes."}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    output, losses, _ = convert({"messages": messages}, "chat")
    assert (json.loads(output)["messages"], losses) == (messages, [])


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
    assert losses == ["messages[0].content[0].image_url: {'url': 'data:image/png;base64,AA=='}"]


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
    with pytest.raises(ParseError, match="this is no sidecar") as refused:
        read_sidecar(data)
    assert refused.value.code == "bad_sidecar"


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


def called(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}


ASKED = {"role": "user", "content": "q"}
CALLED = {"role": "assistant", "tool_calls": [called("c")]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
TEXT = {"type": "text", "text": "t"}
PART = {"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}
SIGNED = {"google": {"thought_signature": "s"}}


@pytest.mark.parametrize("to", ["openchatml", "chat", "responses", "harmony-json"])
@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([ASKED, {"role": "assistant", "content": "a", "refusal": "no"}], "messages[1].refusal: 'no'"),
        ([{"role": "assistant", "refusal": "no"}], "messages[0].refusal: 'no' becomes {'content': 'no'}"),
        (
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}],
            "messages[0].content[0].refusal: 'no' becomes {'text': 'no'}",
        ),
        ([{"role": "user", "content": [PART]}], "messages[0].content[0].cache_control: {'type': 'ephemeral'}"),
        (
            [{"role": "assistant", "tool_calls": [called("c", extra_content=SIGNED)]}],
            "messages[0].tool_calls[0].extra_content: {'google': {'thought_signature': 's'}}",
        ),
        ([{**CALLED, "name": "Bob"}], "messages[0].name: 'Bob'"),
        ([CALLED, {**RESULT, "name": "g"}], "messages[1].name: 'g' becomes 'f'"),
        (
            [CALLED, {"role": "assistant", "tool_calls": [called("d")]}],
            "messages[1]: a message of its own becomes part of messages[0]",
        ),
        ([{**ASKED, "tool_call_id": "c"}], "messages[0].tool_call_id: 'c'"),
        ([{**CALLED, "reasoning": "a", "reasoning_content": "b"}], "messages[0].reasoning_content: 'b' becomes 'a'"),
        ([{**CALLED, "content": [TEXT, TEXT]}], f"messages[0].content: {str([TEXT, TEXT])[:57]}… becomes 'tt'"),
    ],
)
def test_what_no_field_took_is_a_line_with_its_path(messages: list[dict[str, Any]], line: str, to: str) -> None:
    assert line in convert({"messages": messages}, to, source="chat")[1]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "a", "refusal": None, "annotations": [], "audio": None, "tool_calls": []},
        {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": [called("c")]},
        {"role": "assistant", "reasoning_content": "a", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "function_call": {"name": "f", "arguments": {"a": 1}}},
        {"role": "user", "content": []},
    ],
)
def test_what_says_nothing_and_what_another_name_says_is_no_loss(message: dict[str, Any]) -> None:
    losses = convert({"messages": [message]}, "openchatml", source="chat")[1]
    assert [loss for loss in losses if "derivable" not in loss] == []


@pytest.mark.parametrize(
    ("item", "line"),
    [
        ({"role": "user", "content": [{"type": "input_text", "text": "q", "x": 1}]}, "input[0].content[0].x: 1"),
        ({"type": "web_search_call", "id": "w", "status": "completed"}, "input[0]: web_search_call"),
        (
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}]},
            "input[0].summary: [{'type': 'summary_text', 'text': 's'}] becomes {'content': 's'}",
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
            "input[0].type: 'custom_tool_call' becomes 'function_call'",
        ),
        (
            {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": "{}"},
            "input[0].name: 'f' becomes 'n.f'",
        ),
        (
            {"type": "code_interpreter_call", "id": "i", "code": "1", "container_id": "k", "outputs": []},
            "input[0].container_id: 'k'",
        ),
    ],
)
def test_what_no_field_took_of_an_item_is_a_line_too(item: dict[str, Any], line: str) -> None:
    assert line in convert({"input": [item]}, "chat")[1]


@pytest.mark.parametrize("value", [["low"], {"a": 1}, 3, "sideways"])
def test_an_effort_that_is_none_is_reported(value: Any) -> None:
    assert f"reasoning_effort: {value!r}" in convert({"messages": [ASKED], "reasoning_effort": value}, "chat")[1]
    header = f'version: "2.2"\ngeneration_settings: {{reasoning_effort: {json.dumps(value)}}}\n'
    transcript = f"{header}<|start|>user<|message|>q<|end|>"
    assert convert(transcript.encode(), "chat")[1] == [f"header.generation_settings.reasoning_effort: {value!r}"]


@pytest.mark.parametrize("body", [{"messages": [ASKED]}, {"input": "q"}])
@pytest.mark.parametrize("tools", ["x", 3, {"a": 1}])
def test_tools_that_are_no_list_are_a_fault_of_the_input(body: dict[str, Any], tools: Any) -> None:
    with pytest.raises(ParseError, match="tools is not a list"):
        convert({**body, "tools": tools}, "chat")


def test_of_our_own_profile_nothing_is_lost_and_another_one_is() -> None:
    transcript = convert({"messages": [ASKED, CALLED, RESULT]}, "openchatml", source="chat")[0]
    (line,) = convert(transcript.encode(), "chat")[1]
    assert line.startswith("header.profiles: ")
    assert line.endswith("(derivable)")
    other = transcript.replace("builtins_in: [analysis, commentary]", "builtins_in: [final]")
    assert convert(other.encode(), "chat")[1][0].endswith("…")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"messages": [{"role": "user", "content": "a", "content": "b"}]}', "messages[0].content: 'a' becomes 'b'"),
        ('{"model": "x", "model": "y", "messages": []}', "model: 'x' becomes 'y'"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "x", "x": {"url": 1, "url": 2}}]}]}',
            "messages[0].content[0].x.url: 1 becomes 2",
        ),
        (
            '{"messages": [], "tools": [{"type": "function", "function": '
            '{"name": "f", "parameters": {"a": 1, "a": 2}}}]}',
            "tools[0].function.parameters.a: 1 becomes 2",
        ),
        ('{"input": [{"role": "user", "content": "a", "content": "b"}]}', "input[0].content: 'a' becomes 'b'"),
        (
            '{"messages": [{"role": "system", "content": [{"type": "system_content", "tools": {"t": {"name": "t", '
            '"tools": [{"name": "f", "description": "", "parameters": {"p": {"a": 1, "a": 2}}}]}}}]}]}',
            "messages[0].content[0].tools.t.tools[0].parameters.p.a: 1 becomes 2",
        ),
        (
            '{"conversations": [{"from": "human", "value": "a", "value": "b"}]}',
            "conversations[0].value: 'a' becomes 'b'",
        ),
    ],
)
def test_of_a_key_that_is_there_twice_the_first_value_is_lost(text: str, line: str) -> None:
    to = "harmony-json" if "system_content" in text else "chat"
    assert line in convert(text.encode(), to, source=None)[1]
