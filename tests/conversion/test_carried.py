"""What stands beside the messages: tools, model and settings, from form to form and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.conversation import ToolSpec
from antiphon.conversion import Conversion, Loss, SidecarWriter
from antiphon.formats.openchatml import DocumentHeader, envelope_of, read, read_declaration
from antiphon.formats.openchatml.declarations import spell_tools

WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string"},
        "format": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    },
    "required": ["location"],
}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"location": "Tokyo"}'}}
CHAT: dict[str, Any] = {
    "model": "gpt-oss-120b",
    "temperature": 0.7,
    "top_p": 0.9,
    "seed": 7,
    "stop": ["\n\n"],
    "max_completion_tokens": 100,
    "reasoning_effort": "low",
    "tools": [
        {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": WEATHER}},
        {"type": "function", "function": {"name": "now"}},
    ],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Tokyo?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "20", "tool_call_id": "c1"},
        {"role": "assistant", "content": "20 °C."},
    ],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 10,
    "reasoning": {"effort": "high"},
    "tools": [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}],
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
}
TRANSCRIPT = """---
version: "2.2"
model: gpt-oss-120b
generation_settings: {temperature: 0.7, mirostat: 2}
---
<|start|>system<|message|>Be brief.<|end|>
<|start|>developer<|message|># Instructions

Ask first.

# Tools
## functions
namespace functions {
// Gets weather for a city.
type get_current_weather = (_: {
location: string,
format?: "celsius" | "fahrenheit", // default: celsius
}) => any;
} // namespace functions<|end|>
<|start|>user<|message|>What's the weather in Tokyo?<|end|>
"""


def convert(value: object, to: str, **more: Any) -> tuple[str, list[str], Conversion]:
    """The output and what is lost."""
    losses: list[Loss] = []
    conversion = Conversion(to=to, on_loss=losses.append, **more)
    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    output = b"".join(conversion.run(data[i : i + 50] for i in range(0, len(data), 50)))
    lost = [str(loss) for loss in losses if loss.kind == "semantic"]
    return output.decode(), lost, conversion


@pytest.mark.spec("OCM-11", "OCM-12", "OCM-40")
def test_chat_json_goes_into_the_header_and_a_developers_message_and_comes_back() -> None:
    transcript, losses, _ = convert(CHAT, "openchatml")
    assert losses == []
    conversation = read(transcript)
    header = envelope_of(conversation).header or DocumentHeader()
    assert (header.model, header.temperature()) == ("gpt-oss-120b", 0.7)
    assert header.generation_settings["max_tokens"] == 100
    assert [message.role.value for message in conversation.messages[:3]] == ["system", "developer", "user"]
    assert "type weather = (_: {" in conversation.messages[1].text
    back, losses, _ = convert(transcript, "chat")
    assert losses == []
    assert json.loads(back) == CHAT


def test_a_responses_request_comes_back_too() -> None:
    transcript, losses, _ = convert(RESPONSES, "openchatml")
    assert losses == []
    back, losses, _ = convert(transcript, "responses")
    assert losses == []
    assert json.loads(back) == RESPONSES


def test_between_chat_json_and_responses_nothing_of_both_is_lost() -> None:
    items, losses, _ = convert(CHAT, "responses")
    assert losses == []
    assert json.loads(items)["max_output_tokens"] == 100
    back, losses, _ = convert(items, "chat")
    assert losses == []
    assert json.loads(back) == CHAT


@pytest.mark.spec("OCM-40", "OCM-152")
def test_a_transcripts_declarations_become_tools_and_the_rest_of_the_message_stays() -> None:
    body, losses, _ = convert(TRANSCRIPT, "chat")
    assert losses == ["header.generation_settings.mirostat: 2"]
    chat = json.loads(body)
    assert chat["messages"][1] == {"role": "developer", "content": "# Instructions\n\nAsk first."}
    [tool] = chat["tools"]
    assert tool["function"]["name"] == "get_current_weather"
    assert tool["function"]["parameters"]["required"] == ["location"]
    assert (chat["model"], chat["temperature"]) == ("gpt-oss-120b", 0.7)


@pytest.mark.parametrize("form", ["chat", "responses", "harmony"])
def test_with_a_sidecar_the_transcript_is_the_same(form: str) -> None:
    output, _, conversion = convert(TRANSCRIPT, form, sidecar_writer=SidecarWriter())
    back, _, _ = convert(output, "openchatml", source=form, input_sidecar=conversion.sidecar())
    assert back == TRANSCRIPT


@pytest.mark.parametrize("form", ["openchatml", "responses", "harmony"])
def test_with_a_sidecar_chat_json_is_the_same(form: str) -> None:
    output, _, conversion = convert(CHAT, form, sidecar_writer=SidecarWriter())
    back, _, _ = convert(output, "chat", source=form, input_sidecar=conversion.sidecar())
    assert json.loads(back) == CHAT


def test_what_has_no_place_is_reported() -> None:
    odd = {**CHAT, "temperature": "hot", "n": 2, "logit_bias": {"1": 2}, "seed": None}
    _, losses, _ = convert(odd, "openchatml")
    assert sorted(losses) == ["logit_bias: {'1': 2}", "n: 2", "temperature: 'hot'"]
    _, losses, _ = convert(CHAT, "harmony")
    assert {"model: 'gpt-oss-120b'", "generation_settings.temperature: 0.7"} <= set(losses)


@pytest.mark.parametrize(("name", "arguments"), [("weather", "{}"), ("weather", '{"a": '), ("gone", "{}")])
def test_tools_are_left_out_where_a_call_is_not_what_they_take(name: str, arguments: str) -> None:
    call = {**CALL, "function": {"name": name, "arguments": arguments}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    transcript, losses, _ = convert({**CHAT, "messages": messages}, "openchatml")
    assert {"tools[0]: weather", "tools[1]: now"} <= set(losses)
    assert [message.text for message in read(transcript).messages] == ["q", arguments]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
types = st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "array"}, {}, True])
schemas = st.none() | st.builds(
    lambda properties, required, more: {"type": "object", "properties": properties, **required, **more},
    st.dictionaries(st.text(min_size=1, max_size=5), types, max_size=3),
    st.sampled_from([{}, {"required": ["a"]}]),
    st.dictionaries(st.sampled_from(["x", "title", "description", "additionalProperties"]), json_values, max_size=2),
)
tools = st.builds(
    ToolSpec, st.from_regex(r"[A-Za-z0-9_-]{1,9}", fullmatch=True), st.text(max_size=20), schemas,
    st.sampled_from([None, True, False]),
)  # fmt: skip


@given(st.lists(tools, min_size=1, max_size=3, unique_by=lambda tool: tool.name))
@pytest.mark.spec("OCM-40")
def test_any_functions_are_read_as_they_were_declared(declared: list[ToolSpec]) -> None:
    namespaces = read_declaration(spell_tools(declared)).namespaces
    assert [tool for namespace in namespaces for tool in namespace.tools] == declared


@pytest.mark.parametrize(
    ("schema", "lines"),
    [
        ({"a": {"type": "string"}}, []),
        ({"a": {"type": "integer"}}, ["tools[0].parameters.properties.a.type: 'integer' becomes 'number'"]),
        ({"a": {"type": "number", "minimum": 1}}, ["tools[0].parameters.properties.a.minimum: 1"]),
    ],
)
def test_of_tools_in_harmony_that_alone_is_lost_which_its_types_do_not_say(
    schema: dict[str, Any], lines: list[str]
) -> None:
    parameters = {"type": "object", "properties": schema}
    tool = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": parameters}}
    body = {"messages": [{"role": "user", "content": "q"}], "tools": [tool]}
    text, losses, _ = convert(body, "harmony")
    assert [loss for loss in losses if loss.startswith("tools")] == lines
    back = json.loads(convert(text, "chat")[0])
    assert (back["tools"] == [tool]) is (not lines)


def test_an_image_of_responses_is_a_part_of_chat_s_own_there() -> None:
    url = "data:image/png;base64,AAAA"
    parts = [{"type": "input_text", "text": "Hi"}, {"type": "input_image", "image_url": url, "detail": "auto"}]
    body = json.dumps({"input": [{"type": "message", "role": "user", "content": parts}]}).encode()
    written = json.loads(b"".join(Conversion(to="chat", source="responses").run([body])))
    assert written["messages"][0]["content"] == [
        {"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": url}},
    ]  # fmt: skip
