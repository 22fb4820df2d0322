"""transformers' response templates: ours written as theirs and read again, and theirs read as they stand."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.conversation import MessageEnded, ToolSpec
from antiphon.errors import TemplateError
from antiphon.formats.template.reply import (
    CallForm,
    CompiledDescription,
    DescriptionParser,
    Members,
    Pairs,
    Region,
    ReplyDescription,
    Slot,
    Value,
)
from antiphon.formats.template.reply.patterns import NotLiteral, read_pattern
from antiphon.formats.template.reply.response_template import from_response_template, to_response_template
from antiphon.tokens import Control

END = "<|im_end|>"
THINK = Region(open="<think>\n", close="\n</think>\n\n")
WEATHER = ToolSpec(
    "weather", "", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
)
TAGGED = CallForm(
    open="<tool_call>\n<function=",
    head=(Slot(reads="name", after=">\n"),),
    pairs=Pairs(key="<parameter=", values=(Value(before=">\n", after="\n</parameter>\n"),)),
    close="</function>\n</tool_call>",
)
FORMS: dict[str, tuple[CallForm, str]] = {
    "an object": (
        CallForm(open="<tool_call>\n", close="\n</tool_call>", members=Members()),
        '<tool_call>\n{"name": "weather", "arguments": {"city": "02134", "days": 3}}\n</tool_call>',
    ),
    "a list with ids": (
        CallForm(section=Region(open="[TOOL_CALLS][", close="]"), members=Members(call_id="id")),
        '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "02134", "days": 3}, "id": "a1"}]',
    ),
    "a name in markup": (
        CallForm(open="<function=", head=(Slot(reads="name", after=">"),), close="</function>"),
        '<function=weather>{"city": "02134", "days": 3}</function>',
    ),
    "an id before the name": (
        CallForm(
            section=Region(open="<calls>", close="</calls>"),
            open="<call>",
            head=(Slot(reads="call_id", after="<name>"), Slot(reads="name", after="<args>")),
            close="</call>",
        ),
        '<calls><call>a1<name>weather<args>{"city": "02134", "days": 3}</call></calls>',
    ),
    "parameters": (
        TAGGED,
        "<tool_call>\n<function=weather>\n<parameter=city>\n02134\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
        "</function>\n</tool_call>",
    ),
    "bare keys": (
        CallForm(
            open="<|call>call:",
            head=(Slot(reads="name", after="{"),),
            pairs=Pairs(values=(Value(before=":", reads="literal"),), separator=",", quote='<|"|>'),
            close="}<call|>",
        ),
        '<|call>call:weather{city:<|"|>02134<|"|>,days:3}<call|>',
    ),
}


def described(form: CallForm) -> ReplyDescription:
    return ReplyDescription(anchor="<|im_start|>assistant\n", reasoning=THINK, calls=(form,), ends=(END,))


def read(description: ReplyDescription, reply: str) -> list[tuple[str | None, str, str | None]]:
    compiled = CompiledDescription(description, [Control(END)], [])
    reader = DescriptionParser(compiled, prompt=["<|im_start|>assistant\n<think>\n"], tools=[WEATHER])
    events = [*reader.feed([reply, Control(END)]), *reader.close()]
    return [(e.message.recipient, e.message.text, e.message.call_id) for e in events if isinstance(e, MessageEnded)]


@pytest.mark.parametrize("name", FORMS)
def test_what_was_written_as_a_response_template_reads_the_same(name: str) -> None:
    form, reply = FORMS[name]
    description = described(form)
    again = from_response_template(to_response_template(description))
    answer = f"hm\n</think>\n\nI look.\n{reply}"
    readings = read(description, answer)
    assert [recipient for recipient, _, _ in readings] == [None, None, "functions.weather"]
    assert readings[-1][1] == '{"city": "02134", "days": 3}'
    assert read(again, answer) == readings


QWEN3: dict[str, Any] = {
    "version": 1,
    "start_anchor": "<|im_start|>assistant\n",
    "defaults": {"role": "assistant"},
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>"},
        "tool_calls": {
            "open_pattern": r"<tool_call>\s*<function=(?P<name>[^>\n]+)>",
            "close_pattern": r"</function>\s*</tool_call>",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\n(?P<value>.*?)\n</parameter>"},
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
        },
        "content": {"close": END},
    },
}


def test_a_response_template_of_a_model_is_read_as_it_stands() -> None:
    reply = f"hm\n</think>\n\n{FORMS['parameters'][1]}"
    assert read(from_response_template(QWEN3), reply) == [
        (None, "hm", None),
        ("functions.weather", '{"city": "02134", "days": 3}', None),
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"version": 2}, "version"),
        ({"surprise": 1}, "version"),
        ({"start_anchor": 3}, "start_anchor"),
        ({"fields": {}}, "fields"),
        ({"fields": {"citations": {"open": "<c>"}}}, "fields.citations"),
        ({"fields": {"tool_calls": {"open_pattern": "<call>(?P<who>.+?):", "content": "json"}}}, "open_pattern"),
        ({"fields": {"tool_calls": {"open_pattern": "<call>(?P<name>.+?)(?=:)", "content": "json"}}}, "open_pattern"),
        ({"fields": {"tool_calls": {"open": "<call>", "content": "kv-lines"}}}, "content"),
        ({"start_anchor": ["<a>", "<b>"]}, "start_anchor"),
        ({"fields": {"tool_calls": {"open": "<c>", "content": "json", "transform": {"kind": "call"}}}}, "transform"),
        ({"fields": {"tool_calls": {"open": "<c>", "content": "json", "transform": "{content}"}}}, "transform"),
        ({"start_anchor_pattern": "<a>"}, "version"),
        ({"defaults": {"role": "model"}}, "defaults"),
        ({"fields": {"thinking": {"open": ["<think>", "<thought>"], "close": "</think>"}}}, "fields.thinking.open"),
        ({"fields": {"thinking": {"open": "<think>", "open_pattern": "<think>"}}}, "fields.thinking.open"),
        ({"fields": {"thinking": {"open": "<think>", "content": "json"}}}, "fields.thinking.content"),
        ({"fields": {"thinking": {"open": "<think>", "transform": "{content}"}}}, "fields.thinking.transform"),
        ({"fields": {"tool_calls": {"open": "<c>", "content": "json", "join": ""}}}, "fields.tool_calls.join"),
        (
            {"fields": {"tool_calls": {"open": "<c>", "content": "json", "content_args": {"strict": True}}}},
            "fields.tool_calls.content_args",
        ),
        (
            {
                "fields": {
                    "tool_calls": {"open": "<c>", "content": "xml-inline", "content_args": {"merge_duplicates": 1}}
                }
            },
            "fields.tool_calls.content_args",
        ),
    ],
)
def test_what_cannot_be_read_is_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(TemplateError) as refused:
        from_response_template(QWEN3 | change)
    assert refused.value.code == "bad_response_template"
    assert place in refused.value.message


@pytest.mark.parametrize(
    "form",
    [
        CallForm(members=Members()),
        CallForm(open="<c>", head=(Slot(reads="call_id", pattern="f.{name}:{index}", after=">"),)),
        CallForm(section=Region(open="<calls>\n", close="\n</calls>"), separator="\n", members=Members()),
    ],
)
def test_what_a_response_template_cannot_say_is_refused(form: CallForm) -> None:
    with pytest.raises(TemplateError, match="response template"):
        to_response_template(described(form))


@pytest.mark.parametrize("pattern", ["a|b", "a+", "[abc]", "(a)", "(?:ab)*", "(?:a", r"\d", "^a"])
def test_a_pattern_of_more_than_literals_is_no_literal(pattern: str) -> None:
    with pytest.raises(NotLiteral):
        read_pattern(pattern)
