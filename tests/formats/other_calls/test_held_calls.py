"""Once a call in another form has begun, the engine's grammar goes on with it to a whole call; other text is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from antiphon.conversation import Conversation, Message, ResponseFormat, Role, ToolChoice, ToolSpec
from antiphon.engines import ScriptedEngine
from antiphon.formats.template import template_format
from antiphon.formats.template.format import HERMES
from antiphon.generation import Model, Plan, TurnRequest, collect, prepare_turn, run_turn
from antiphon.generation.compile import ReplyCompiler
from antiphon.grammar import ReplyShape
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary, compile_grammar
from kit.api import CALL, CHATML, END, TOKENIZER, UNCALL, ids
from kit.other_calls import TIME, TOOLS, WEATHER, look_alikes, spellings

VOCABULARY = Vocabulary(TOKENIZER, {TOKENIZER.controls[END]})
HI = Conversation((Message(role=Role.USER, text="hi"),))
CALLED = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


@cache
def held(*, strict: bool = False) -> CompiledGrammar:
    tools = [ToolSpec(tool.name, tool.description, tool.parameters, strict=strict) for tool in TOOLS]
    shape = ReplyShape(tools=tuple(tools), other_calls=not strict, held=True)
    return compile_grammar(CHATML.grammar(shape), VOCABULARY)


def allows(grammar: CompiledGrammar, reply: Sequence[int]) -> bool:
    return grammar.matcher().consume(reply) is None


@pytest.mark.parametrize(
    "begun",
    [
        '{"name": "get_weather", "arguments": ',
        'I look.\n```json\n{\n  "name": "get_weather",\n  "arguments": ',
        '[{"tool" :"get_weather" , "args" :',
        '{"tool_calls": [{"type": "function", "function": {"name": "get_weather", "parameters": ',
        f"[{CALLED}, " + '{"function": "get_weather", "input": ',
    ],
)
def test_a_begun_call_gets_arguments_that_fit_and_is_closed(begun: str) -> None:
    for whole in ('{"city": "Paris"}}', '{\n    "city": "Paris",\n    "unit": "celsius"\n  }\n}'):
        assert allows(held(), ids(begun, whole, " and so on", END)), whole
    for other in ('{"town": "Paris"}}', '{"city": 7}}', "7", '"x"', "null", '{"city": "Paris"}]', "{}"):
        assert not allows(held(), ids(begun, other)), other
    for cut in ("", '{"city": "Par', '{"city": "Paris"}'):
        assert not allows(held(), ids(begun, cut, END)), cut


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "arguments": 7}', '{"name": "get_weathers", "arguments": 7}', '"name": "get_weather"', '"',
        '"n',
        "",
        '{"name": "get_weather", "description": "x", "parameters": []}', '{"name"', 'say "name", "get_weather", "args"',
        '{"arguments": 7, "name": "get_weather"}', "it's \"quoted\" and \"name\": odd", '"""', '"name": "name": "x"',
    ],
)  # fmt: skip
def test_text_that_begins_no_call_is_free(text: str) -> None:
    assert allows(held(), ids(text, END))
    assert allows(held(), ids(text + " ", CALL, f"\n{CALLED}\n", UNCALL, END))


def test_every_whole_spelling_whose_name_comes_first_is_allowed() -> None:
    """But for escapes of letters and commas at the end, which the trained form has not either."""
    others = ("\\u", ",\n}")
    named_first = [text for text, _ in spellings() if '"arguments": {' in text and text.count("{") == text.count("}")]
    plain = [text for text in named_first if not any(other in text for other in others)]
    assert len(plain) > 100
    assert [text for text in plain if not allows(held(), ids(text, END))] == []


def test_where_only_the_trained_form_counts_an_answer_does_not_begin_as_a_call() -> None:
    for beginning in ("```json\n", "{", " [{", "```\n{", "```tool_call\n"):
        assert not allows(held(strict=True), ids(beginning)), beginning
    for text in ("```python\nx = {}\n```", "Here:\n```json\n{}\n```", "`x`", "a {", ""):
        assert allows(held(strict=True), ids(text, END)), text
    assert allows(held(strict=True), ids(CALL, f"\n{CALLED}\n", UNCALL, END))


def answering(reply: str) -> Model:
    engine = ScriptedEngine(ids(reply, END), end_ids=frozenset({TOKENIZER.controls[END]}))
    compiler = ReplyCompiler(CHATML, TOKENIZER, {TOKENIZER.controls[END]})
    return Model(name="m", engine=engine, tokenizer=TOKENIZER, format=CHATML, compiler=compiler)


async def planned(reply: str = "hi", tools: tuple[ToolSpec, ...] = TOOLS, **fields: object) -> Plan:
    request = TurnRequest(**{"conversation": replace(HI, tools=tools), **fields})  # type: ignore[arg-type]
    return await prepare_turn(answering(reply), request)


async def test_only_a_reply_that_may_call_in_another_form_is_held() -> None:
    assert (await planned()).held is not None
    assert (await planned(tool_choice=ToolChoice("required"))).held is None
    assert (await planned(tool_choice=ToolChoice("none"))).held is None
    assert (await planned(tools=())).held is None
    formatted = replace(HI, tools=TOOLS, response_format=ResponseFormat("json_object"))
    assert (await planned(conversation=formatted)).held is None
    trained = replace(answering("hi"), calls="trained")
    assert (await prepare_turn(trained, TurnRequest(conversation=replace(HI, tools=TOOLS)))).held is None


async def test_the_engine_gets_the_grammar_and_a_reply_that_leaves_it_is_still_an_answer() -> None:
    """What an engine that knows no grammars says is read as it stands, and is no error of its own."""
    for text in list(look_alikes())[::40]:
        plan = await planned(text)
        (reply,) = await collect(run_turn(plan))
        engine = plan.model.engine
        assert isinstance(engine, ScriptedEngine)
        assert plan.held is not None
        assert engine.requests[-1][2] == plan.held.lark
        assert "".join(message.text for message in reply.messages).strip() == text.strip()


def test_marks_that_are_text_are_kept_out_of_it_as_before() -> None:
    format = template_format("chatml", [END], replies=HERMES)
    shapes = [ReplyShape(tools=(WEATHER, TIME), other_calls=True, held=held) for held in (True, False)]
    assert format.grammar(shapes[0]) == format.grammar(shapes[1])
