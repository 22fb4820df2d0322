"""transformers' response templates: read as they stand."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.conversation import MessageEnded, ToolSpec
from antiphon.errors import TemplateError
from antiphon.formats.replies import CompiledDescription, DescriptionParser, ReplyDescription
from antiphon.formats.replies.response_template import NotLiteral, from_response_template, read_pattern
from antiphon.tokens import Control

END = "<|im_end|>"
WEATHER = ToolSpec(
    "weather", "", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
)
NAME = r"[\w.:/-]+"
FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "an object": (
        {
            "open": "<tool_call>", "close": "</tool_call>", "repeats": True, "content": "json",
            "transform": {"function": {"name": "{content.name}", "arguments": "{content.arguments}"}},
        },
        '<tool_call>\n{"name": "weather", "arguments": {"city": "02134", "days": 3}}\n</tool_call>',
    ),
    "a list with ids": (
        {
            "open": "[TOOL_CALLS]", "close": [END], "content": "json", "transform_each": True,
            "transform": {"function": {"name": "{name}", "arguments": "{arguments}"}, "id": "{id}"},
        },
        '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "02134", "days": 3}, "id": "a1"}]',
    ),
    "a name in markup": (
        {
            "open_pattern": f"<function=(?P<name>{NAME})>", "close_pattern": "</function>", "repeats": True,
            "content": "json", "transform": FUNCTION,
        },
        '<function=weather>{"city": "02134", "days": 3}</function>',
    ),
    "an id before the name": (
        {
            "open_pattern": f"(?:<calls>)?<call>(?P<call_id>{NAME})<name>(?P<name>{NAME})<args>", "repeats": True,
            "close_pattern": "</call>(?:</calls>)?", "content": "json", "transform": FUNCTION | {"id": "{call_id}"},
        },
        '<calls><call>a1<name>weather<args>{"city": "02134", "days": 3}</call></calls>',
    ),
    "bare keys": (
        {
            "open_pattern": rf"<\|call>call:(?P<name>{NAME})", "close_pattern": r"<call\|>", "repeats": True,
            "content": "json", "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
            "transform": FUNCTION,
        },
        '<|call>call:weather{city:<|"|>02134<|"|>,days:3}<call|>',
    ),
}  # fmt: skip
PARAMETERS = (
    "<tool_call>\n<function=weather>\n<parameter=city>\n02134\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
    "</function>\n</tool_call>"
)


def read(description: ReplyDescription, reply: str) -> list[tuple[str | None, str, str | None]]:
    compiled = CompiledDescription(description, [Control(END)], [])
    reader = DescriptionParser(compiled, prompt=["<|im_start|>assistant\n<think>\n"], tools=[WEATHER])
    events = [*reader.feed([reply, Control(END)]), *reader.close()]
    return [(e.message.recipient, e.message.text, e.message.call_id) for e in events if isinstance(e, MessageEnded)]


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
    reply = f"hm\n</think>\n\n{PARAMETERS}"
    assert read(from_response_template(QWEN3), reply) == [
        (None, "hm", None),
        ("functions.weather", '{"city": "02134", "days": 3}', None),
    ]


@pytest.mark.parametrize("name", FIELDS)
def test_each_way_to_say_a_call_is_read(name: str) -> None:
    field, reply = FIELDS[name]
    template = QWEN3 | {"fields": QWEN3["fields"] | {"tool_calls": field}}
    readings = read(from_response_template(template), f"hm\n</think>\n\nI look.\n{reply}")
    assert [recipient for recipient, _, _ in readings] == [None, None, "functions.weather"]
    assert readings[-1][1] == '{"city": "02134", "days": 3}'


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


@pytest.mark.parametrize("pattern", ["a|b", "a+", "[abc]", "(a)", "(?:ab)*", "(?:a", r"\d", "^a"])
def test_a_pattern_of_more_than_literals_is_no_literal(pattern: str) -> None:
    with pytest.raises(NotLiteral):
        read_pattern(pattern)
