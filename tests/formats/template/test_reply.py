"""Replies are read by their tags, however they are cut."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from antiphon.conversation import (
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    ResponseFormat,
    TextDelta,
    ToolSpec,
)
from antiphon.errors import ParseError
from antiphon.formats.replies import PLAIN, CompiledDescription, DescriptionParser, Region, ReplyDescription
from antiphon.formats.replies.describe import family_named
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN, REPLIES
from antiphon.tokens import Control, Piece

END = Control("<|im_end|>")
LLAMA = REPLIES["llama3_1"]
MISTRAL = ReplyDescription(calls=family_named("Mistral").calls)
DEEPSEEK = ReplyDescription(reasoning=QWEN.reasoning, calls=family_named("DeepSeek V3").calls)
INTERNLM = REPLIES["internlm2"]
IN_TAGS = ReplyDescription(content=Region(open="<say>", close="</say>"), calls=QWEN.calls, ends=("</say>",))
"""Answers whose close is the reply's end, unless a call follows."""
TOOLS = ("functions.f", "functions.g")

Read = tuple[str, str | None, str, End]


def reader(
    description: ReplyDescription,
    *,
    controls: Sequence[Control] = (END,),
    stops: Sequence[Control | str] = (END,),
    strict: bool = False,
) -> DescriptionParser:
    return DescriptionParser(CompiledDescription(description, controls, stops), tools=TOOLS, strict=strict)


def read(description: ReplyDescription, *pieces: Piece, strict: bool = False) -> list[ParserEvent]:
    parser = reader(description, strict=strict)
    events = [event for piece in pieces for event in parser.feed([piece])]
    return [*events, *parser.close()]


def messages(events: list[ParserEvent]) -> list[Read]:
    ended = [event.message for event in events if isinstance(event, MessageEnded)]
    return [(m.effective_channel, m.recipient, m.text, m.end) for m in ended]


def set_aside(events: list[ParserEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Incident))


def final(text: str, end: End = End.END) -> Read:
    return ("final", None, text, end)


def call(name: str, arguments: str, end: End = End.CALL) -> Read:
    return ("commentary", f"functions.{name}", arguments, end)


def thought(text: str, end: End = End.END) -> Read:
    return ("analysis", None, text, end)


READINGS: list[tuple[ReplyDescription, str, list[Read]]] = [
    (PLAIN, "Hello  <think> \n", [final("Hello  <think> \n")]),
    (QWEN, "<think>\nhm\n</think>\n\nYes.", [thought("hm"), final("Yes.")]),
    (QWEN, "<think>\n\n</think>\n\nYes.", [final("Yes.")]),
    (
        QWEN,
        'Wait.\n<tool_call>\n{"name": "f", "arguments": {"a": "</tool_call>", "b": [1, {"c": "}"}]}}\n</tool_call>\n'
        '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
        [final("Wait."), call("f", '{"a": "</tool_call>", "b": [1, {"c": "}"}]}'), call("g", "{}")],
    ),
    (QWEN, '<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>', [call("f", '{"a": 1}')]),
    (QWEN, '<tool_call>{"id": null, "name": "f", "arguments": {}}</tool_call>', [call("f", "{}")]),
    (QWEN, '{"a": "<think> \\"</tool_call>", "b": [1,\n "<tool_call>"]}',
     [final('{"a": "<think> \\"</tool_call>", "b": [1,\n "<tool_call>"]}')]),
    (QWEN, '<think>hm</think>\n{"a  <tool_call>{"', [thought("hm"), final('{"a  <tool_call>{"')]),
    (QWEN, '"Let me see. <tool_call>{"name": "f"}</tool_call>', [final('"Let me see.'), call("f", "{}")]),
    (QWEN, '["Let me see. <tool_call>{"name": "f"}</tool_call>', [final('["Let me see.'), call("f", "{}")]),
    (QWEN, '"Let me see.\n<tool_call>{"name": "f"}</tool_call>', [final('"Let me see.'), call("f", "{}")]),
    (QWEN, '["a"] is <tool_call>{"name": "f"}</tool_call>', [final('["a"] is'), call("f", "{}")]),
    (LLAMA, '{"x": "<function=f>{}"}', [final('{"x": "<function=f>{}"}')]),
    (QWEN, '<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>', [call("f", '{"a": 1}')]),
    (QWEN, '<tool_call>{"name": "f"}</tool_call>', [call("f", "{}")]),
    (LLAMA, '{"name": "f", "parameters": {"a": 1}}', [call("f", '{"a": 1}')]),
    (LLAMA, '{"name": "f", "parameters": {}}; {"name": "g", "parameters": {"x": null}}',
     [call("f", "{}"), call("g", '{"x": null}')]),
    (LLAMA, '<|python_tag|>{"name": "f", "parameters": {"a": 1}}', [call("f", '{"a": 1}')]),
    (LLAMA, '<function=f>{"a": 1}</function>', [call("f", '{"a": 1}')]),
    (LLAMA, '{"name": "Bob", "age": 3}', [final('{"name": "Bob", "age": 3}')]),
    (LLAMA, '{"a": [1]} and more', [final('{"a": [1]} and more')]),
    (LLAMA, "Plain { text }", [final("Plain { text }")]),
    (MISTRAL, 'So: [TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
     [final("So:"), call("f", '{"a": 1}'), call("g", "{}")]),
    (MISTRAL, '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g{"b": [2]}', [call("f", '{"a": 1}'), call("g", '{"b": [2]}')]),
    (DEEPSEEK, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": 1}\n```'
     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     [call("f", '{"a": 1}'), call("g", "{}")]),
    (INTERNLM, 'Hm.<|action_start|><|plugin|>\n{"name": "f", "parameters": {"a": 1}}<|action_end|>',
     [final("Hm."), call("f", '{"a": 1}')]),
    (IN_TAGS, '<say>Hm.\n</say><tool_call>\n{"name": "f"}\n</tool_call>', [final("Hm."), call("f", "{}")]),
    (IN_TAGS, '<say>Hm.</say>\n\n<tool_call>{"name": "f"}</tool_call>', [final("Hm."), call("f", "{}")]),
]  # fmt: skip


@pytest.mark.parametrize(("description", "reply", "expected"), READINGS)
def test_a_reply_is_read_as_its_messages(description: ReplyDescription, reply: str, expected: list[Read]) -> None:
    events = read(description, reply, END)
    assert messages(events) == expected
    assert set_aside(events) == ""


@pytest.mark.parametrize(("description", "reply", "expected"), READINGS)
def test_cutting_a_reply_anywhere_gives_the_same_messages(
    description: ReplyDescription, reply: str, expected: list[Read]
) -> None:
    for cut in range(1, len(reply), max(1, len(reply) // 25)):
        assert messages(read(description, reply[:cut], reply[cut:], END)) == expected, cut
    assert messages(read(description, *reply, END)) == expected


PARTS = [
    *(
        '{"name": "f", ',
        '"arguments": ',
        '{"a": "b"}',
        "}",
        '"',
        "\\",
        "[",
        "]",
        ",",
        " ",
        "\n",
        "```json",
        "words",
        "<",
    ),
    *("function", '"k": "words"'),
]
FRAGMENTS = st.sampled_from(
    sorted(QWEN.literals | LLAMA.literals | MISTRAL.literals | DEEPSEEK.literals) + PARTS,
)


@settings(max_examples=42, deadline=None)
@given(st.lists(FRAGMENTS, max_size=12), st.data(), st.sampled_from([PLAIN, QWEN, LLAMA, MISTRAL, DEEPSEEK, INTERNLM]))
def test_no_reply_raises_and_no_cut_matters(
    fragments: list[str], data: st.DataObject, description: ReplyDescription
) -> None:
    reply = "".join(fragments)
    whole = read(description, reply)
    cut = data.draw(st.integers(0, len(reply)))
    parts = read(description, reply[:cut], reply[cut:])
    assert messages(parts) == messages(whole)
    assert "".join(set_aside(parts).split()) == "".join(set_aside(whole).split())


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAGMENTS, max_size=12))
def test_no_word_of_a_reply_is_lost(fragments: list[str]) -> None:
    """Tags and blanks beside them are the format's; every other word is in a message or in an incident."""
    reply = "".join(fragments)
    events = read(QWEN, reply)
    recovered = "".join(f"{recipient} {text}" for _, recipient, text, _ in messages(events)) + set_aside(events)
    assert recovered.count("words") == reply.count("words")


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_a_reply_without_tags_is_one_final_message_with_all_its_text(text: str) -> None:
    assert messages(read(PLAIN, *text, END)) == [final(text)]


@pytest.mark.parametrize("begun", ['"Say', '["Say', '{"Say'])
def test_a_string_of_the_json_that_was_requested_quotes_a_call(begun: str) -> None:
    reply = f'{begun} <function=f>{{}}</function>"'
    parser = DescriptionParser(
        CompiledDescription(LLAMA, (END,), (END,)), tools=TOOLS, response_format=ResponseFormat("json_object")
    )
    assert messages([*parser.feed([reply, END]), *parser.close()]) == [final(reply)]


@pytest.mark.parametrize(("description", "reply", "expected"), READINGS)
def test_the_deltas_are_the_text(description: ReplyDescription, reply: str, expected: list[Read]) -> None:
    texts: list[str] = []
    for event in read(description, *reply, END):
        match event:
            case MessageStarted(message):
                assert message.text == ""
                texts.append("")
            case TextDelta(text):
                texts[-1] += text
            case _:
                pass
    assert texts == [text for _, _, text, _ in expected]


@pytest.mark.parametrize("id", ["null", "7", "{}", "true"])
def test_an_id_that_is_no_text_is_none(id: str) -> None:
    events = read(QWEN, f'<tool_call>{{"id": {id}, "name": "f", "arguments": {{}}}}</tool_call>')
    (started,) = [event.message for event in events if isinstance(event, MessageStarted)]
    assert started.call_id is None


def test_half_a_pair_of_surrogates_that_a_call_escapes_is_no_control_and_no_character() -> None:
    call = r'{"id": "\ud8001", "name": "f", "arguments": "{\"a\": \"\ud800\"}"}'
    (message,) = (e.message for e in read(QWEN, f"<tool_call>{call}</tool_call>") if isinstance(e, MessageEnded))
    assert (message.call_id, message.text) == ("\ufffd1", '{"a": "\ufffd"}')


def test_arguments_stream_as_soon_as_the_name_is_known() -> None:
    parser = reader(QWEN)
    events = parser.feed(['<tool_call>{"name": "f", "arguments": {"a": "bc'])
    assert [type(event) for event in events] == [MessageStarted, TextDelta]
    assert isinstance(events[1], TextDelta)
    assert events[1].text == '{"a": "bc'


def test_a_prompt_that_opened_the_tag_makes_the_reply_begin_in_reasoning() -> None:
    format = template_format("qwq", [END])
    prompt: list[Piece] = ["user\nx", END, "\nassistant\n<think>\n"]
    parser = format.parser(prompt=prompt)
    events = [*parser.feed(["hm</think>\n\nYes", END]), *parser.close()]
    assert messages(events) == [thought("hm"), final("Yes")]


def test_a_users_tag_in_the_prompt_opens_nothing() -> None:
    parser = template_format("qwq", [END]).parser(prompt=["user\nwhat is <think>?", END, "\nassistant\n"])
    assert messages([*parser.feed(["It is a tag", END]), *parser.close()]) == [final("It is a tag")]


def test_a_tag_that_the_vocabulary_has_as_a_control_is_text_when_it_is_spelled_out() -> None:
    """P-09: `</think>` written inside the thinking ends nothing."""
    think = [Control("<think>"), Control("</think>")]
    parser = reader(QWEN, controls=[END, *think])
    events = [*parser.feed([think[0], "a literal </think> here", think[1], "Yes", END]), *parser.close()]
    assert messages(events) == [thought("a literal </think> here"), final("Yes")]


def test_a_control_that_the_format_does_not_know_is_an_incident_and_never_text() -> None:
    events = read(PLAIN, "a", Control("<|x|>"), "b", END)
    assert messages(events) == [final("ab")]
    assert Incident("unexpected_control", 1, "<|x|>") in events


def test_what_comes_after_the_end_is_an_incident() -> None:
    parser = reader(PLAIN)
    assert messages(parser.feed(["a", END, "tail"])) == [final("a")]
    assert parser.ended == "<|im_end|>"
    assert parser.close() == []


@pytest.mark.spec("LMD-18")
def test_a_stop_word_ends_the_reply_wherever_it_is_cut() -> None:
    for cut in range(len("Hi### Human")):
        parser = reader(PLAIN, stops=["###"])
        text = "Hi### Human"
        events = [*parser.feed([text[:cut]]), *parser.feed([text[cut:]]), *parser.close()]
        assert messages(events) == [final("Hi")]
        assert parser.ended == "###"


def test_a_call_that_was_cut_off_is_not_a_call() -> None:
    assert messages(read(QWEN, '<tool_call>{"name": "f", "arguments": {"a": 1')) == [call("f", '{"a": 1', End.NONE)]


HERMES = '<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>'
BEHIND = HERMES % '{"b": 2}'
BROKEN = [
    """{"a": ["x", 'y']}""", """{'a': "x"}""", """{"a": 'it's }'}""", """{"a": 'x\\'}', "b": 1}""", "{a: 1}",
    '{"a": ["x"), "b": 1}', '{"a": ["x", "b": 1}', '{"a": `x`}', '{"a": "x" /* no */}', '{"a": "x"; "b": (1, 2)}',
    '{"a": "x\ny"}', '{"a": "x" "y"}', '{"a" "x"}', '["a"]', "None", "5",
]  # fmt: skip


@pytest.mark.parametrize("arguments", BROKEN)
def test_arguments_that_are_no_object_are_one_call_as_they_stand_and_the_next_one_begins(arguments: str) -> None:
    events = read(QWEN, f"{HERMES % arguments}\n{BEHIND}", END)
    assert messages(events) == [call("f", arguments), call("f", '{"b": 2}')]
    assert [event.code for event in events if isinstance(event, Incident)] == ["malformed_arguments"]
    for text in (HERMES % arguments, f"{HERMES % arguments}\n{BEHIND}"):
        assert messages(read(QWEN, *text, END)) == messages(read(QWEN, text, END))
    with pytest.raises(ParseError, match="malformed arguments"):
        read(QWEN, HERMES % arguments, END, strict=True)


@pytest.mark.parametrize(
    "arguments", ['{"a": ["x", {"b": "y"', '{"a": "x}}', "{'a': 'x", '{"a": "x</tool', '{"', '"x\\n', "'"]
)
def test_arguments_that_do_not_end_run_to_what_closes_the_call(arguments: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}</tool_call>{BEHIND}'
    events = read(QWEN, text, END)
    assert messages(events) == [call("f", arguments), call("f", '{"b": 2}')]
    assert [event.code for event in events if isinstance(event, Incident)] == ["malformed_arguments"]
    assert messages(read(QWEN, *text, END)) == messages(events)


def test_arguments_that_nothing_closes_run_to_the_end_of_the_reply() -> None:
    assert messages(read(QWEN, f"{HERMES[:-13] % '[1'} and so on", END)) == [call("f", "[1} and so on")]


@pytest.mark.parametrize("behind", ["so be it", "}", '"x": 1}', '"x" 5', "'}"])
def test_what_stands_behind_a_call_is_set_aside_up_to_its_close(behind: str) -> None:
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": 1}}}} {behind}</tool_call> Yes.'
    events = read(QWEN, text, END)
    assert messages(events) == [call("f", '{"a": 1}'), final("Yes.")]
    assert set_aside(events).strip() == behind.strip()
    assert messages(read(QWEN, *text, END)) == messages(events)


def test_what_stands_behind_a_call_that_nothing_closes_is_the_answer() -> None:
    text = '<tool_call>{"name": "f", "arguments": {"a": 1}} Yes.'
    assert messages(read(QWEN, text, END)) == [call("f", '{"a": 1}'), final("Yes.")]


def test_what_is_no_call_is_said_as_it_stands() -> None:
    events = read(QWEN, "So: <tool_call>nonsense</tool_call> Yes", END)
    assert "".join(text for _, _, text, _ in messages(events)) == "So: <tool_call>nonsense</tool_call> Yes"
    assert set_aside(events) == "<tool_call>"


def test_strictness_raises_with_the_position() -> None:
    with pytest.raises(ParseError, match=re.escape("unexpected tag: '</think>' (at offset 4).")) as raised:
        read(QWEN, "Hm. </think>", strict=True)
    assert raised.value.code == "unexpected_tag"


def test_an_empty_reply_is_one_empty_message() -> None:
    assert messages(read(QWEN, END)) == [final("")]
    assert isinstance(read(QWEN, END)[0], MessageStarted)


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    """A hundred thousand single characters in a call's arguments: quadratic reading would take minutes."""
    parser = reader(QWEN)
    parser.feed(['<tool_call>{"name": "f", "arguments": {"a": "'])
    for _ in range(100_000):
        parser.feed(["x"])
    ended = [e for e in parser.feed(['"}}</tool_call>', END]) if isinstance(e, MessageEnded)]
    assert isinstance(ended[0].message, Message)
    assert len(ended[0].message.text) == 100_000 + len('{"a": ""}')


PYTHONIC = family_named("LFM2").calls[0]
UNMARKED = ReplyDescription(calls=(replace(PYTHONIC, section=Region(open="[", close="]")),))


@pytest.mark.parametrize(
    "text",
    [
        "  I look.",
        "\n\n[1] is a source",
        "[f] is a tool",
        "[link](x=1)",
        "[f(1)] is said",
        "[",
        " [f(",
        "[f(a",
        "[]",
        "{}",
    ],
)
@pytest.mark.parametrize("description", [UNMARKED, LLAMA], ids=["a list", "an object"])
def test_what_begins_as_an_unmarked_call_and_is_none_is_said_to_the_last_blank(
    description: ReplyDescription, text: str
) -> None:
    for pieces in ([text], list(text)):
        assert messages(read(description, *pieces)) == [("final", None, text, End.NONE)]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("'it's \"it\"'", 'it\'s "it"'),
        ("'f('x')'", "f('x')"),
        ("'d = {'a': 'b'}\n'", "d = {'a': 'b'}\n"),
        ("'a, 'b', c'", "a, 'b', c"),
        ("'x', b='y'", "x"),
        (r"'it\'s\n'", "it's\n"),
    ],
)
def test_quotes_that_nothing_escapes_are_of_the_string(written: str, said: str) -> None:
    reply = f"[f(a={written})]"
    for pieces in ([reply], list(reply)):
        ((_, recipient, text, end),) = messages(read(UNMARKED, *pieces, END))
        assert (recipient, json.loads(text)["a"], end) == ("functions.f", said, End.CALL)


def test_an_opening_that_is_written_twice_opens_one_call() -> None:
    for family, reply in (
        ("Gemma 4", "<|tool_call><|tool_call>call:f{a:1}<tool_call|>"),
        ("FunctionGemma", "<start_function_call><start_function_call>call:f{a:1}<end_function_call>"),
    ):
        (call,) = messages(read(ReplyDescription(calls=family_named(family).calls), reply, END))
        assert call == ("commentary", "functions.f", '{"a": 1}', End.CALL)


def test_an_opening_that_is_written_twice_is_the_one_whose_whole_opening_follows() -> None:
    forms = (*family_named("DeepSeek R1").calls, *family_named("DeepSeek V3").calls)
    begin = "<｜tool▁call▁begin｜>"
    reply = f"<｜tool▁calls▁begin｜>{begin}{begin}function<｜tool▁sep｜>f\n```json\n{{}}\n```<｜tool▁call▁end｜>"
    assert messages(read(ReplyDescription(calls=forms), reply, END)) == [("commentary", "functions.f", "{}", End.CALL)]


def test_an_empty_tag_is_what_its_schema_has_for_nothing() -> None:
    description = ReplyDescription(calls=family_named("MiniMax M3").calls)
    kinds = {"list": "array", "thing": "object", "count": "integer", "text": "string"}
    properties: dict[str, Any] = {key: {"type": [kind, "null"]} for key, kind in kinds.items()}
    tool = ToolSpec("f", parameters={"type": "object", "properties": properties})
    mark = "]<]minimax[>["
    inside = "".join(f"{mark}<{key}>{mark}</{key}>" for key in kinds)
    parser = DescriptionParser(CompiledDescription(description, [Control(mark)], ()), tools=[tool])
    text = f'{mark}<tool_call>\n{mark}<invoke name="f">{inside}{mark}</invoke>\n{mark}</tool_call>'
    pieces = [piece for part in text.split(mark) for piece in (Control(mark), part)][1:]
    events = [*parser.feed([piece for piece in pieces if piece]), *parser.close()]
    ((_, _, arguments, end),) = messages(events)
    assert (json.loads(arguments), end) == ({"list": [], "thing": {}, "count": None, "text": ""}, End.CALL)
