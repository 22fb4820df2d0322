"""What leaves is valid for the strict reader, or refused; `tests/fuzz/openchatml_exits.py` is the long run."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from antiphon.conversation import Conversation, End, Message, Role, visible_to_user
from antiphon.errors import RenderError
from antiphon.formats.openchatml import (
    DocumentHeader,
    Fixer,
    TranscriptEnvelope,
    TranscriptParser,
    Trivia,
    Writer,
    canonical_call,
    fix,
    from_json,
    openchatml,
    read,
    to_json,
    write,
)
from fuzz.openchatml_exits import fuzz

CALL = Message(role=Role.ASSISTANT, text="{}", recipient="functions.f", channel="commentary", content_type="json",
               constrained=True, call_id="c", end=End.CALL)  # fmt: skip
REPLY = Message(role=Role.TOOL, text="1", name="functions.f", call_id="c", recipient="assistant", channel="commentary")


def test_every_exit_gives_a_valid_transcript_or_a_typed_error() -> None:
    assert fuzz(1, count=1000) == (1000, None)


def headed(*messages: Message, version: str = "2.2", **fields: Any) -> Conversation:
    return Conversation(messages, extra={"openchatml": TranscriptEnvelope(DocumentHeader(version, fields))})


def fields_of(conversation: Conversation) -> Any:
    return conversation.extra["openchatml"].header.fields


@pytest.mark.spec("OCM-08", "OCM-25")
@pytest.mark.parametrize("value", [
    "m", "", " ", None, True, 1, -0.5, 1e300, "null", "no", "1.5", "2024-01-01", "a: b", "- a", "# c", "*a",
    "é\n\u2028", "---", "<|start|>", [], {}, [[], {}], {"a": [1, {"b": None}]}, {1: "x", "x": True},
    ["a"] * 60, "long " * 100,
])  # fmt: skip
def test_a_header_of_any_values_reads_as_the_same_values(value: Any) -> None:
    for fields in ({"model": value}, {"x": value, "y": {"z": value}}):
        written = headed(**fields)
        assert fields_of(read(write(written))) == fields
        assert fields_of(from_json(to_json(written))) == fields


@pytest.mark.spec("OCM-08")
@pytest.mark.parametrize(
    ("spelled", "value"),
    [
        ("no", "no"), ("On", "On"), ("12:30:45", "12:30:45"), ("1_000", "1_000"), ("2024-01-01", "2024-01-01"),
        ("0b11", "0b11"), ("-0x1f", "-0x1f"), ("<<", "<<"), ("TRUE", True), ("~", None), ("012", 12), ("08", 8),
        ("+7", 7), ("0o17", 15), ("0x1F", 31), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-2E+05", -200_000.0),
        ("-.INF", float("-inf")), ("a\u2028b", "a\u2028b"), ("a\x85b\ue000", "a\x85b\ue000"), ('"a\\Lb"', "a\u2028b"),
    ],
)  # fmt: skip
def test_the_header_is_of_yaml_1_2_whatever_1_1_would_read(spelled: str, value: Any) -> None:
    conversation = read(f'version: "2.2"\nx: {spelled}\n')
    assert fields_of(conversation) == {"x": value}
    assert type(fields_of(conversation)["x"]) is type(value)
    assert fields_of(read(write(headed(x=value)))) == {"x": value}


@pytest.mark.parametrize(
    "text", ["no", "012", "1e3", ".5", "0o7", "12:30", "1_0", "2024-01-01", "=", "<<", "~", "0x1f"]
)
def test_a_text_that_yaml_of_any_version_reads_otherwise_is_quoted(text: str) -> None:
    assert f"'{text}'" in write(headed(x=text)).replace('"', "'")


def test_a_date_in_a_header_is_its_text() -> None:
    assert fields_of(read(write(headed(day=date(2024, 1, 2))))) == {"day": "2024-01-02"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"x": b"bytes"}, "no bytes"),
        ({"x": {1: "a", "1": "b"}}, "stands twice"),
        ({"x": "y" * 70_000}, "too long"),
        ({"x": "\ud800"}, "cannot be written"),
        ({"version": "2.2"}, "stands twice"),
    ],
)
def test_a_header_that_no_reader_takes_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(RenderError, match=problem) as raised:
        write(Conversation(extra={"openchatml": TranscriptEnvelope(DocumentHeader("2.2", fields))}))
    assert raised.value.code == "E-PARSE-HEADER"


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 1


def test_a_header_may_be_nested_as_deep_as_readers_take() -> None:
    for value in (nested(14), [nested(13)] * 9):
        assert fields_of(read(write(headed(x=value)))) == {"x": value}
    with pytest.raises(RenderError, match="nested deeper"):
        write(headed(x=nested(16)))


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Message(role=Role.ASSISTANT, channel="finl"), "E-PARSE-HEADER"),
        (Message(role=Role.ASSISTANT, intent="loud"), "E-PARSE-HEADER"),
        (Message(role=Role.ASSISTANT, end=End.CALL), "E-PARSE-HEADER"),
        (Message(role=Role.ASSISTANT, text="{", content_type="json", constrained=True), "E-BODY-CONSTRAINT-VIOLATION"),
        (Message(role=Role.TOOL, name="functions.f", call_id="c"), "E-CALL-SCHEMA"),
        (Message(role=Role.USER, name="x" * 5000), "E-PARSE-HEADER"),
        (CALL, "E-PARSE-HEADER"),
    ],
)
def test_a_frame_that_a_strict_reader_refuses_is_not_written(message: Message, code: str) -> None:
    writer = Writer()
    writer.write(CALL)
    writer.write(REPLY)
    if message.role is Role.TOOL:
        writer, message = Writer(), message
    with pytest.raises(RenderError) as raised:
        writer.write(message)
    assert raised.value.code == code
    assert str(raised.value.position).startswith("messages[")


def test_what_can_be_fixed_is_fixed_and_each_change_is_said() -> None:
    odd = Message(role=Role.TOOL, name="asistant", channel="finl", text="Hi", end=End.NONE)
    broken = Message(role=Role.ASSISTANT, recipient="f", text='{"a": ', content_type="json", constrained=True)
    fixed, fixes = fix(headed(odd, broken, CALL, CALL, REPLY, REPLY))
    assert [(m.role, m.name, m.recipient, m.channel, m.constrained, m.call_id, m.end) for m in fixed.messages] == [
        ("assistant", None, None, "analysis", False, None, "end"),
        ("assistant", None, "functions.f", "commentary", False, "call_0", "call"),
        ("assistant", None, "functions.f", "commentary", True, "c", "call"),
        ("assistant", None, "functions.f", "commentary", True, "c_2", "call"),
        ("tool", "functions.f", "assistant", "commentary", False, "c", "end"),
        ("tool", "functions.f", "assistant", "commentary", False, "c_2", "end"),
    ]
    assert [m.text for m in read(write(fixed)).messages] == ["Hi", '{"a": ', "{}", "{}", "1", "1"]
    assert str(fixes[0]) == "messages[0].role: 'tool' becomes 'assistant'"
    assert {fix.path for fix in fixes} >= {"messages[1].constrained", "messages[3].call_id", "messages[5].call_id"}
    assert fix(fixed) == (fixed, ())


def test_a_call_that_was_cut_is_not_made_a_call() -> None:
    cut = Message(role=Role.ASSISTANT, recipient="functions.f", text='{"a": ', content_type="json", constrained=True,
                  end=End.NONE)  # fmt: skip
    with pytest.raises(RenderError, match="has no end"):
        write(fix(headed(cut))[0])


def test_reasoning_is_not_made_visible_where_its_channel_is_excluded() -> None:
    thought = Message(role=Role.ASSISTANT, channel="analysis", text="hm")
    for conversation in (headed(thought, version="1.0"), headed(thought, capabilities={"channels": ["final"]})):
        with pytest.raises(RenderError):
            write(fix(conversation)[0])


@pytest.mark.parametrize("excluded", [{"channels": ["analysis"]}, {"tokens": ["<|start|>", "<|message|>", "<|end|>"]}])
def test_an_answer_does_without_what_the_header_excludes(excluded: dict[str, list[str]]) -> None:
    answer = Message(role=Role.ASSISTANT, channel="final", text="x", end=End.RETURN)
    fixed, fixes = fix(headed(answer, capabilities=excluded))
    assert read(write(fixed)).messages[0].text == "x"
    assert "messages[0].channel: 'final' becomes None" in map(str, fixes)


def test_a_spelling_that_is_none_is_not_written() -> None:
    for trivia in (Trivia(before="stray"), Trivia(head="user<|end|>"), Trivia(body="x<"), Trivia(body="x\udc80")):
        message = Message(role=Role.USER, text=trivia.body or "x", extra={"openchatml": trivia})
        assert [m.text for m in read(write(headed(message))).messages] == [message.text]


def test_a_tools_reply_has_its_name_as_role_where_the_role_tool_is_excluded() -> None:
    roles = {"roles": ["user", "assistant", "functions.*"]}
    written = write(headed(CALL, REPLY, capabilities=roles))
    assert "<|start|>functions.f to=assistant call_id=c<|channel|>commentary<|message|>" in written
    assert read(written).messages[1] == REPLY


def test_a_valid_transcript_is_not_changed() -> None:
    conversation = read(write(headed(CALL, REPLY)))
    assert fix(conversation) == (conversation, ())
    fixer = Fixer(None)
    assert fixer.message(CALL) is CALL


@pytest.mark.spec("OCM-82", "OCM-125")
def test_a_models_call_says_that_its_arguments_are_json() -> None:
    bare = Message(role=Role.ASSISTANT, recipient="functions.f", text='{"a": 1}')
    made = canonical_call(bare)
    assert (made.channel, made.content_type, made.constrained) == ("commentary", "json", True)
    assert canonical_call(Message(role=Role.ASSISTANT, recipient="functions.f")).text == "{}"
    code = Message(role=Role.ASSISTANT, recipient="python", channel="analysis", text="print(1)")
    assert canonical_call(code) == code


def test_without_a_reply_to_read_a_parser_reads_a_whole_transcript() -> None:
    text = write(headed(Message(role=Role.USER, text="<|end|>"), CALL, REPLY))
    parser = openchatml([]).parser(reply_as=None)
    assert isinstance(parser, TranscriptParser)
    events = parser.feed([text[:50], text[50:]]) + parser.close()
    assert [event.message for event in events if hasattr(event, "message")][1::2] == list(read(text).messages)


TYPES = ["JSON", "Json", "application/json", "text/json", "application/vnd.x+json", "application/json;charset=utf-8"]


@pytest.mark.spec("OCM-70", "OCM-135")
@pytest.mark.parametrize("name", [*TYPES, "YAML", "yml", "text/x-yaml", "TOML", "application/xml", "image/svg+xml"])
def test_a_type_is_known_by_any_of_its_names(name: str) -> None:
    broken = Message(role=Role.ASSISTANT, text="{", content_type=name, constrained=True, end=End.RETURN)
    if name.startswith("image/"):
        assert read(write(headed(broken))).messages == (broken,)
        return
    with pytest.raises(RenderError) as raised:
        write(headed(broken))
    assert raised.value.code == "E-BODY-CONSTRAINT-VIOLATION"
    with pytest.raises(RenderError):
        write(headed(replace(CALL, text="[1", content_type=name)))


@pytest.mark.parametrize("header", [{}, {"capabilities": {"channels": ["final"]}}, {"version": "1.0"}])
@pytest.mark.parametrize(
    "message",
    [
        Message(role=Role.USER, text="x", channel="notes"),
        Message(role=Role.USER, text="x", channel="analysis"),
        Message(role=Role.ASSISTANT, text="x", channel="finl"),
        Message(role=Role.ASSISTANT, text="x", channel="Comentary", intent="preambel"),
        Message(role=Role.ASSISTANT, text="x", channel="final", intent="debug"),
        Message(role=Role.ASSISTANT, text="{}", recipient=""),
        Message(role=Role.TOOL, text="x", name="asistant"),
        Message(role=Role.TOOL, text="x", name="usr", channel="final"),
    ],
)
def test_what_was_hidden_stays_hidden_when_it_is_fixed(message: Message, header: dict[str, Any]) -> None:
    fixed, _ = fix(headed(message, **header))
    assert not visible_to_user(message)
    assert not visible_to_user(fixed.messages[0])
    assert fixed.messages[0].text == message.text
    assert fix(fixed) == (fixed, ())


def test_a_text_that_takes_a_literal_block_is_not_changed_where_there_is_none() -> None:
    with pytest.raises(RenderError):
        write(fix(headed(Message(role=Role.USER, text="a <"), version="1.0"))[0])
