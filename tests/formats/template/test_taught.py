"""A template that has no way to say tool calls: the prompt teaches one form, and says so."""

from __future__ import annotations

import json

import pytest

from antiphon.conversation import Channel, Conversation, End, Message, MessageEnded, Role, ToolChoice, ToolSpec
from antiphon.errors import UnsupportedError
from antiphon.formats.template import JinjaFormat, check_template, jinja_format
from antiphon.formats.template.taught import WARNING
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import Vocabulary, compile_grammar
from antiphon.tokens import ByteTokenizer, Control, Piece, spell

CONTROLS = [Control("<|s|>"), Control("<|e|>")]
SILENT = (
    "{%- for m in messages %}{{ '<|s|>' + m.role + '\n' + m.content + '<|e|>' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|s|>assistant\n' }}{%- endif %}"
)
_UNTAKEN = "{%- if m.role != ('user', 'assistant')[loop.index0 % 2] %}{{ raise_exception('in turn!') }}{%- endif %}"
STRICT = SILENT.replace("messages %}", "messages %}" + _UNTAKEN, 1)
TOOL = ToolSpec("weather", "Tells it.", {"type": "object", "properties": {"city": {"type": "string"}}})
USER = Message(role=Role.USER, text="In Łódź?")


def load(source: str = SILENT, *, teaches: bool = True) -> JinjaFormat:
    return jinja_format(source, CONTROLS, {"eos_token": "<|e|>"}, teaches=teaches)


def called(call_id: str, arguments: str) -> Message:
    return Message(
        role=Role.ASSISTANT,
        text=arguments,
        recipient="functions.weather",
        channel=Channel.COMMENTARY,
        end=End.CALL,
        content_type="json",
        call_id=call_id,
    )


def result(call_id: str, text: str) -> Message:
    return Message(role=Role.TOOL, text=text, name="functions.weather", call_id=call_id)


def prompt(format: JinjaFormat, *messages: Message, tools: tuple[ToolSpec, ...] = (TOOL,)) -> list[Piece]:
    return list(format.render(Conversation(messages, tools=tools)))


def test_the_prompt_offers_the_tools_and_says_how_one_is_called() -> None:
    system = Message(role=Role.SYSTEM, text="Be brief.")
    for messages in ((USER,), (system, USER)):
        text = spell(prompt(load(), *messages))
        first, _, rest = text.partition("<|e|>")
        assert first.startswith("<|s|>system\n" + ("Be brief.\n\n" if len(messages) > 1 else "# Tools"))
        assert json.dumps({"name": "weather", "description": "Tells it.", "parameters": TOOL.parameters}) in first
        assert "<tool_call>" in first
        assert rest == "<|s|>user\nIn Łódź?<|e|><|s|>assistant\n"


def test_without_tools_nothing_is_taught_and_tags_are_text() -> None:
    assert spell(prompt(load(), USER, tools=())) == "<|s|>user\nIn Łódź?<|e|><|s|>assistant\n"
    reply = 'I say <tool_call>\n{"name": "weather", "arguments": {}}\n</tool_call>'
    parser = load().parser()
    ended = [e.message for e in [*parser.feed([reply]), *parser.close()] if isinstance(e, MessageEnded)]
    assert [(message.recipient, message.text) for message in ended] == [(None, reply)]
    with pytest.raises(UnsupportedError):
        load(teaches=False).grammar(ReplyShape(tools=(TOOL,), tool_choice=ToolChoice("required")))


@pytest.mark.parametrize("source", [SILENT, STRICT], ids=["any role", "users and answers in turn"])
def test_a_turn_of_calls_is_read_back_from_the_next_prompt_and_admitted_by_the_grammar(source: str) -> None:
    format = load(source)
    thanks = Message(role=Role.USER, text="Thanks. <|e|>")
    calls = (called("a", '{"city": "Łódź"}'), called("b", '{"city":"a </tool_call> b"}'))
    said = Message(role=Role.ASSISTANT, text="I look.", channel=Channel.COMMENTARY)
    pieces = prompt(format, USER, said, *calls, result("a", "21"), result("b", "22"), thanks)
    before = prompt(format, USER)
    text = spell(pieces)
    assert text.startswith(spell(before))
    assert sum(isinstance(piece, Control) for piece in pieces) == 2 * (3 + (source is SILENT)) + 1
    reply, _, rest = text.removeprefix(spell(before)).partition("<|e|><|s|>user\n")
    assert rest.startswith(
        "<tool_response>\n21\n</tool_response>\n<tool_response>\n22\n</tool_response>\nThanks. <|e|>"
    )

    parser = format.parser(prompt=before, tools=[TOOL])
    ended = [e.message for e in [*parser.feed([reply]), *parser.close()] if isinstance(e, MessageEnded)]
    assert [(m.recipient, m.text) for m in ended] == [(None, "I look."), *((c.recipient, c.text) for c in calls)]

    tokenizer = ByteTokenizer(CONTROLS)
    vocabulary = Vocabulary(tokenizer, [tokenizer.controls[Control("<|e|>")]])
    matcher = compile_grammar(format.grammar(ReplyShape(tools=(TOOL,)), prompt=before), vocabulary).matcher()
    assert matcher.consume(list(reply.encode())) is None


def test_a_template_that_writes_tools_or_calls_is_left_as_it_is() -> None:
    writes_tools = "{% if tools %}{{ tools | tojson }}{% endif %}" + SILENT
    writes_calls = SILENT.replace("m.content", "m.content + (m.tool_calls | string if m.tool_calls else '')")
    for source in (writes_tools, writes_calls):
        assert not load(source).found.taught
    assert not load(teaches=False).found.taught
    assert spell(prompt(load(teaches=False), USER)) == "<|s|>user\nIn Łódź?<|e|><|s|>assistant\n"


def test_the_check_says_that_the_form_is_taught() -> None:
    found = check_template(load()).found
    assert found.taught
    assert WARNING in found.warnings
    assert WARNING not in check_template(load(teaches=False)).found.warnings
