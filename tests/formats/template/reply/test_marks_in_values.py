"""Marks, blanks and closes where a template has none of them: what a call says stays whole, or is said to be broken."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import cycle
from typing import Any

import pytest

from antiphon.conversation import End, Incident, Message, MessageEnded
from antiphon.formats.replies import CompiledDescription, DescriptionParser, Region, ReplyDescription
from antiphon.formats.replies.description import CallForm, Pairs, Slot, Value
from antiphon.formats.replies.reader import LONGEST_QUOTE
from antiphon.tokens import Control, ControlScanner, Piece
from kit.reply_fragments import ANCHOR, DESCRIPTIONS, TOOL, compiled, controls, tags
from kit.reply_writer import Markup
from kit.reply_writer import reply as written

CALLED = [name for name, description in DESCRIPTIONS.items() if description.calls]
ARGUMENTS = {"a": "word", "b": 3, "c": {"a": "inner"}, "d": None, "e": ["one"]}


def owned_by(name: str, *, control: bool) -> int:
    return 2 ** len(tags(name)) - 1 if control else 0


def read(name: str, pieces: Sequence[Piece], *, control: bool = True) -> tuple[list[Message], list[str]]:
    """The messages, whole and piece by piece alike, and the codes of incidents."""
    found = []
    for cut in (pieces, [part for piece in pieces for part in ([piece] if isinstance(piece, Control) else piece)]):
        reader = DescriptionParser(compiled(name, owned_by(name, control=control)), prompt=[ANCHOR], tools=[TOOL])
        events = [event for piece in cut for event in reader.feed([piece])] + reader.close()
        messages = [event.message for event in events if isinstance(event, MessageEnded)]
        found.append((messages, [event.code for event in events if isinstance(event, Incident)]))
    assert found[0][0] == found[1][0]
    return found[0]


def scanned(name: str, text: str, *, control: bool = True) -> list[Piece]:
    scanner = ControlScanner(controls(name, owned_by(name, control=control)))
    return [*scanner.feed(text), *scanner.close()]


def said(name: str, calls: Sequence[tuple[str, Any]]) -> Iterator[str]:
    for part in written(DESCRIPTIONS[name], calls=calls):
        yield part.text if isinstance(part, Markup) else part


def calls_of(messages: Sequence[Message]) -> list[tuple[str | None, Any]]:
    return [(message.recipient, json.loads(message.text)) for message in messages if message.is_call]


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("name", CALLED)
def test_a_mark_of_the_format_within_a_string_of_a_call_is_text(name: str, control: bool) -> None:
    for tag, place in zip(tags(name), cycle(("say {} now", "{} it", "so {}")), strict=False):
        arguments = {**ARGUMENTS, "a": place.format(tag)}
        reply = "".join(said(name, [("f", arguments), ("f", {"a": "z"})]))
        messages, codes = read(name, scanned(name, reply, control=control), control=control)
        assert calls_of(messages) == [("functions.f", arguments), ("functions.f", {"a": "z"})], (reply, codes)


@pytest.mark.parametrize("name", CALLED)
def test_a_whole_mark_of_the_format_within_any_string_of_a_call_is_text(name: str) -> None:
    description = DESCRIPTIONS[name]
    for mark in sorted({text.strip() for text in description.literals} - {"", *description.ends}):
        for arguments in ({**ARGUMENTS, "a": f"say {mark} now"}, {**ARGUMENTS, "c": {"a": f"{mark} it"}}):
            reply = "".join(said(name, [("f", arguments), ("f", {"a": "z"})]))
            messages, codes = read(name, scanned(name, reply))
            assert calls_of(messages) == [("functions.f", arguments), ("functions.f", {"a": "z"})], (reply, codes)


@pytest.mark.parametrize("blanks", ["", " ", "\n\n"])
@pytest.mark.parametrize("name", CALLED)
def test_blanks_between_two_tags_say_nothing(name: str, blanks: str) -> None:
    reply = re.sub(r"(?<=>)\s*(?=<)", blanks, "".join(said(name, [("f", ARGUMENTS), ("f", {"a": "z"})])))
    for control in (True, False):
        messages, _ = read(name, scanned(name, reply, control=control), control=control)
        assert calls_of(messages) == [("functions.f", ARGUMENTS), ("functions.f", {"a": "z"})]


def test_one_file_knows_which_characters_stand_for_controls() -> None:
    folder = files("antiphon.formats.replies")
    sources = {one.name: one.read_text("utf-8") for one in folder.iterdir() if one.name.endswith(".py")}
    known = [name for name, text in sources.items() if re.search("(?i)ud800|udfff|0xd800", text)]
    assert known == ["source.py"]


XML, GLM, DSML, K3, GEMMA = (f"table: {name}" for name in ("XML parameters", "GLM", "DSML 4", "Kimi K3", "Gemma 4"))
NESTED = "invoke, nested"
PRE = "]<]minimax[>["
NESTED_CALL = f'{PRE}<tool_call>\n{PRE}<invoke name="f">'
R1 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
OPEN = "<tool_call>\n<function=f>\n"
CLOSE = "</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("name", "reply", "arguments"),
    [
        (XML, f"{OPEN}<parameter=a>\nx\n<parameter=b>\n3\n</parameter>\n{CLOSE}", [{"a": "x", "b": 3}]),
        (XML, f"{OPEN}<parameter=a>\nx\n{CLOSE}", [{"a": "x"}]),
        (XML, f"{OPEN}<parameter=a>\nx\n</tool_call>", [{"a": "x"}]),
        (XML, f"{OPEN}<parameter=a>\nx\n{CLOSE}\n{OPEN}<parameter=b>\n3\n</parameter>\n{CLOSE}",
         [{"a": "x"}, {"b": 3}]),
        (GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>x<arg_key>b</arg_key><arg_value>3</arg_value></tool_call>",
         [{"a": "x", "b": 3}]),
        (GLM, "<tool_call>f<arg_key>a</arg_key><arg_value>x</tool_call>\nSo.", [{"a": "x"}]),
        (NESTED, f"{NESTED_CALL}{PRE}<c>{PRE}<a>x{PRE}</c>{PRE}<b>3{PRE}</b>{PRE}</invoke>\n{PRE}</tool_call>",
         [{"c": {"a": "x"}, "b": 3}]),
        (NESTED, f"{NESTED_CALL}{PRE}<a>x{PRE}<b>3{PRE}</b>\n{PRE}<invoke name=\"f\">{PRE}</invoke>{PRE}</tool_call>",
         [{"a": "x", "b": 3}, {}]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("control", [True, False])
def test_a_value_without_its_close_ends_where_the_next_part_begins(
    name: str, reply: str, arguments: list[Any], control: bool
) -> None:
    messages, codes = read(name, scanned(name, reply, control=control), control=control)
    assert calls_of(messages) == [("functions.f", each) for each in arguments]
    assert "unclosed_argument" in codes


@pytest.mark.parametrize(
    "text",
    [
        "Close with </parameter>, </function> and then </tool_call>; open with <function=x>.",
        "Use <tool_call> … </tool_call>",
        "<parameter=path> is a tag",
        f"as in {OPEN}<parameter=b>\n1\n</parameter>\n{CLOSE} there",
    ],
)
@pytest.mark.parametrize("control", [True, False])
def test_a_text_about_the_format_is_a_text(text: str, control: bool) -> None:
    reply = f"{OPEN}<parameter=a>\n{text}\n</parameter>\n<parameter=b>\n3\n</parameter>\n{CLOSE}"
    messages, _ = read(XML, scanned(XML, reply, control=control), control=control)
    assert calls_of(messages) == [("functions.f", {"a": text, "b": 3})]


@pytest.mark.parametrize(
    ("name", "reply", "arguments"),
    [
        (XML, f"{OPEN}<parameter=a>\nx\n</parameter>\nno tag\n{CLOSE}", '{"a": "x"no tag\n}'),
        (XML, f"{OPEN}<parameter=a>\nx\n</parameter>\n<parameter=b>\n3<END>", '{"a": "x", "b": "3'),
        (XML, "<tool_call>\n<function=f<END>", "{"),
        (GLM, "<tool_call>f<arg_key>a</arg_key></tool_call>", "{<arg_key>a</arg_key>}"),
        (GEMMA, '<|tool_call>call:f{c:{a:<|"|>x<|"|>,e:[1}<tool_call|>', '{"c": {a:<|\\"|>x<|\\"|>,e:[1}}'),
        ("function tag", "<function=f\na: x</function>", "a: x"),
        ("deepseek-r1", f"{R1}f\na: x\n```<｜tool▁call▁end｜>", "a: x"),
    ],
)
def test_a_call_of_which_something_has_no_place_is_given_raw(name: str, reply: str, arguments: str) -> None:
    messages, codes = read(name, scanned(name, reply))
    assert [message.text for message in messages] == [arguments]
    assert "malformed_arguments" in codes


def test_a_string_that_ends_with_a_backslash_where_the_reply_does_is_all_of_the_call() -> None:
    messages, codes = read("pythonic", scanned("pythonic", "<|tool_call_start|>[f(a='x\\"))
    assert [(message.recipient, message.text, message.end) for message in messages] == [
        ("functions.f", '{"a": "x\\\\', End.NONE)
    ]
    assert not codes


@pytest.mark.parametrize(
    ("name", "reply", "arguments"),
    [
        (XML, "<tool_call>\n<function=f/>\n</tool_call>", {}),
        ("hermes", r'<tool_call>{"name": "f", "arguments": "{\"a\": \"a <think>\"}"}</tool_call>', {"a": "a <think>"}),
        (DSML, '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f"/>\n</｜DSML｜tool_calls>', {}),
        (XML, f"{OPEN}<parameter=d/>\n<parameter=b>\n3\n</parameter>\n{CLOSE}", {"d": "", "b": 3}),
        (K3, '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|><|open|>argument key="q&amp;a" type="string"'
         "<|sep|>x &amp; y<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", {"q&a": "x &amp; y"}),
        (GEMMA, '<|tool_call>call:f{c:{two words:<|"|>x<|"|>}}<tool_call|>', {"c": {"two words": "x"}}),
        (GEMMA, '<|tool_call>call:f{c:{a:<|"|>say <|"|> twice<|"|>}}<tool_call|>', {"c": {"a": 'say <|"|> twice'}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("control", [True, False])
def test_another_spelling_means_the_same(name: str, reply: str, arguments: Any, control: bool) -> None:
    messages, codes = read(name, scanned(name, reply, control=control), control=control)
    assert calls_of(messages) == [("functions.f", arguments)]
    assert not codes


@pytest.mark.parametrize("name", CALLED)
def test_a_control_that_marks_nothing_is_a_part_of_the_string_that_it_stands_in(name: str) -> None:
    reply = "".join(said(name, [("f", {"a": "so MARK it is"})])).partition("MARK")
    pieces = [*scanned(name, reply[0]), Control("<other>"), *scanned(name, reply[2])]
    assert calls_of(read(name, pieces)[0]) == [("functions.f", {"a": "so <other> it is"})]


THINKING = [
    name
    for name in CALLED
    if (known := compiled(name, owned_by(name, control=True))).thought_close and not any(f.bare for f in known.forms)
]


def thought_and_call(name: str) -> tuple[Region, str]:
    """The marks of thoughts, and a call without the reply's end."""
    description = DESCRIPTIONS[name]
    assert description.reasoning is not None
    return description.reasoning, "".join(said(name, [("f", {"a": "z"})])).removesuffix(description.ends[0])


@pytest.mark.parametrize("control", [True, False])
@pytest.mark.parametrize("name", THINKING)
def test_a_call_in_a_thought_that_ends_behind_it_is_part_of_the_thought(name: str, control: bool) -> None:
    region, call = thought_and_call(name)
    for quoted in (call, call[len(call) // 2 :], f"{call} or {call}"):
        reply = f"{region.open}I may {quoted} or not.{region.close}Yes."
        thought, answer = read(name, scanned(name, reply, control=control), control=control)[0]
        assert (thought.channel, answer.channel, answer.text) == ("analysis", "final", "Yes.")
        assert (thought.text[:5], thought.text[-7:]) == ("I may", "or not.")
        assert thought.text.count("z") == quoted.count("z")


@pytest.mark.parametrize("name", THINKING)
def test_a_call_in_a_thought_that_has_no_end_is_a_call(name: str) -> None:
    region, call = thought_and_call(name)
    for ends in ("", f"{region.open}More.", " " * LONGEST_QUOTE + region.close):
        messages, _ = read(name, scanned(name, f"{region.open}I must {call}{ends}"))
        assert calls_of(messages) == [("functions.f", {"a": "z"})]
    before, after = call.split("z", 1)
    pieces = [*scanned(name, f"{region.open}I must {before}"), Control("<other>"), *scanned(name, after)]
    assert calls_of(read(name, pieces)[0]) == [("functions.f", {"a": "<other>"})]


@pytest.mark.parametrize("open", ["```tool_code", "```python"])
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("{}\nf(a='x')\n```", ['{"a": "x"}']),
        ("Look:\n{}\nf(a='x')\n```\nSo.", ["Look:", '{"a": "x"}', "So."]),
        ("{}\nf(a='x')\ny = 3\n```", ['{"a": "x"}', "y = 3\n```"]),
        ("{}\nx = 3\nprint(x)\n```", None),
        ("{}\nprint(f(a='x'))\n```\nSo.", None),
        ("{}\n\n```\nSo.", None),
        ("```\nx = 3\n```\nSo.", None),
        ("Two ticks: ``{}\nf(a='x')\n```", ["Two ticks: ``", '{"a": "x"}']),
        ("```rust\nlet x = 3;\n```", None),
    ],
)
def test_a_fence_of_calls_round_what_is_no_call_is_text(open: str, reply: str, said: list[str] | None) -> None:
    form = CallForm(
        section=Region(open=f"{open}\n", close="\n```"),
        separator="\n", head=(Slot(reads="name", after="("),), close=")",
        pairs=Pairs(values=(Value(before="=", reads="literal"),), separator=", ", python=True),
    )  # fmt: skip
    text = reply.replace("{}\n", f"{open}\n", 1)
    for pieces in ([text], [*text]):
        reader = DescriptionParser(CompiledDescription(ReplyDescription(calls=(form,)), [], []), tools=[TOOL])
        events = [*reader.feed(pieces), *reader.close()]
        assert [event.message.text for event in events if isinstance(event, MessageEnded)] == (said or [text])
