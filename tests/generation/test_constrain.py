"""Constrained replies: an engine that leaves its grammar is caught, and what cannot be enforced is refused."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, get_type_hints

import msgspec
import pytest
from llguidance import LLMatcher

from antiphon.conversation import (
    BROWSER,
    PYTHON,
    Conversation,
    FinishReason,
    Message,
    ResponseFormat,
    Role,
    ToolChoice,
    ToolSpec,
)
from antiphon.engines import ScriptedEngine
from antiphon.errors import EngineError, RequestError, UnsupportedError
from antiphon.formats.harmony import Harmony
from antiphon.formats.raw import RawFormat
from antiphon.formats.replies import ReplyDescription
from antiphon.formats.template import template_format
from antiphon.formats.template.format import HERMES, QWEN
from antiphon.generation import (
    Model,
    Plan,
    Reply,
    TurnRequest,
    collect,
    constrain,
    plan_turn,
    prepare_turn,
    run_rounds,
    run_turn,
)
from antiphon.generation.compile import ReplyCompiler
from antiphon.generation.turn import steps
from antiphon.grammar import Json, Limits, lark
from antiphon.grammar.compiler import CompiledGrammar, Vocabulary
from antiphon.grammar.schema import compile_schema
from antiphon.tokens import ByteTokenizer, Control

TOKENIZER = ByteTokenizer([Control("<|im_start|>"), Control("<|im_end|>")])
END = TOKENIZER.controls[Control("<|im_end|>")]
CHATML = template_format("chatml", TOKENIZER.controls.keys(), replies=HERMES)
THINKING = template_format("chatml", TOKENIZER.controls.keys(), replies=ReplyDescription(reasoning=QWEN.reasoning))
ADD = ToolSpec(
    "add",
    "Adds.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer", "maximum": 9, "minimum": 0}},
        "required": ["a"],
        "additionalProperties": False,
    },
)
NUMBER = ResponseFormat("json_schema", schema={"type": "integer", "multipleOf": 7}, strict=False)
HI = Conversation((Message(role=Role.USER, text="hi"),))
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


def model(reply: str, *, constrained: bool = True, ends: bool = True) -> Model:
    """A model that says ``reply`` whatever grammar it is given."""
    ids = TOKENIZER.encode(reply) + ([END] if ends else [])
    engine = ScriptedEngine(ids, end_ids=frozenset({END}), chunk=4)
    compiler = ReplyCompiler(CHATML, TOKENIZER, {END}) if constrained else None
    return Model(name="m", engine=engine, tokenizer=TOKENIZER, format=CHATML, compiler=compiler)


async def ask(answering: Model, **fields: Any) -> Reply:
    (reply,) = await collect(run_turn(await prepare_turn(answering, TurnRequest(**{"conversation": HI, **fields}))))
    return reply


WITH_TOOL = replace(HI, tools=(ADD,))


async def test_a_reply_of_its_shape_is_read_and_the_engine_was_given_the_grammar() -> None:
    answering = model(CALL)
    reply = await ask(answering, conversation=WITH_TOOL, tool_choice=ToolChoice("required"))
    assert reply.reason is FinishReason.TOOL_CALL
    assert [message.text for message in reply.messages] == ['{"a": 1}']
    assert isinstance(answering.engine, ScriptedEngine)
    ((_, _, grammar),) = answering.engine.requests
    assert grammar is not None
    assert "add" in grammar


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ("I will not call.", {"conversation": WITH_TOOL, "tool_choice": ToolChoice("required")}),
        (CALL.replace("1", "17"), {"conversation": WITH_TOOL}),
        (CALL.replace("add", "sub"), {"conversation": WITH_TOOL}),
        ("{}", {"conversation": replace(HI, response_format=ResponseFormat("regex", pattern="[0-9]+"))}),
        ("perhaps", {"conversation": replace(HI, response_format=ResponseFormat("choice", choices=("yes", "no")))}),
        ('{"a": ', {"conversation": replace(HI, response_format=ResponseFormat("json_object"))}),
    ],
)
async def test_an_engine_that_ignores_its_grammar_is_caught(reply: str, fields: dict[str, Any]) -> None:
    with pytest.raises(EngineError) as caught:
        await ask(model(reply), **fields)
    assert caught.value.code == "grammar_broken"


async def test_a_grammar_that_leads_nowhere_is_the_schemas_fault_and_not_the_engines() -> None:
    """The engine takes a step between bounds for what no number meets, once it has begun the number."""
    schema = '{"type": "number", "minimum": 0.3, "maximum": 0.35, "multipleOf": 0.1}'
    text = f'%llguidance {{}}\nstart: "[" number <[{END}]>\nnumber: %json {schema}\n'
    vocabulary = Vocabulary(TOKENIZER, {END})
    grammar = CompiledGrammar(text, "", vocabulary, LLMatcher(vocabulary.tokens, text, log_level=0), {})
    asked = TurnRequest(conversation=replace(HI, response_format=ResponseFormat("json_object")))
    plan = replace(await prepare_turn(model("[0.3]"), asked), constraint=grammar)
    with pytest.raises(RequestError) as caught:
        await collect(run_turn(plan))
    assert (caught.value.code, caught.value.param) == ("invalid_grammar", "response_format")


COSTLY = f"^(?:{'|'.join(f'.*{chr(97 + i % 3)}.{{{60 + i}}}{chr(97 + i // 3 % 3)}' for i in range(27))})*$"
COSTLY_FORM = ResponseFormat("json_schema", schema={"type": "string", "pattern": COSTLY}, strict=True)


@cache
@cache
def until_a_mask_fails() -> str:
    """A reply to `COSTLY_FORM` up to where an engine goes on without a grammar, for its matcher gives up."""
    tokens, text, random = Vocabulary(TOKENIZER, {END}).tokens, '"', Random(0)
    matcher = LLMatcher(tokens, lark(Json(COSTLY_FORM.schema or {}), controls={}, end_ids=[END]), log_level=0)
    matcher.consume_token(ord('"'))
    while matcher.compute_bitmask() and not matcher.is_error():
        text += random.choice("abcxyz")
        matcher.consume_token(ord(text[-1]))
    return text


@pytest.mark.parametrize("more", ["", "z" * 200 + '"'])
async def test_a_pattern_that_no_engine_can_follow_is_the_requests_fault(more: str) -> None:
    answering = model(until_a_mask_fails() + more)
    replies = ReplyCompiler(CHATML, TOKENIZER, {END}, limits=Limits(mask_seconds=1000))
    with pytest.raises(RequestError) as caught:
        await ask(replace(answering, compiler=replies), conversation=replace(HI, response_format=COSTLY_FORM))
    assert (caught.value.code, caught.value.param) == ("invalid_grammar", "response_format")


async def test_a_reply_that_came_to_a_limit_of_its_grammar_spoils_it_for_no_other() -> None:
    said = [until_a_mask_fails() + "abc" * 20, '""']
    engine = ScriptedEngine(lambda *_: [*TOKENIZER.encode(said.pop(0)), END], end_ids=frozenset({END}), chunk=1)
    replies = ReplyCompiler(CHATML, TOKENIZER, {END}, limits=Limits(mask_seconds=1000))
    answering = replace(model(""), engine=engine, compiler=replies)
    costly = replace(HI, response_format=COSTLY_FORM)
    with pytest.raises(RequestError):
        await ask(answering, conversation=costly)
    assert (await ask(answering, conversation=costly)).messages[0].text == '""'


async def test_a_reply_that_stops_before_its_grammar_ends_is_caught() -> None:
    with pytest.raises(EngineError, match="before its grammar did"):
        await ask(model('{"a"', ends=False), conversation=replace(HI, response_format=ResponseFormat("json_object")))


async def test_a_reply_that_is_cut_by_the_limit_says_so_and_is_no_error() -> None:
    conversation = replace(HI, response_format=ResponseFormat("json_object"))
    reply = await ask(model('{"a":"bcdefgh"}'), conversation=conversation, max_tokens=6)
    assert reply.reason is FinishReason.LENGTH_OUTPUT


async def test_what_the_engine_cannot_hold_is_checked_when_the_value_is_whole() -> None:
    conversation = replace(
        HI, response_format=ResponseFormat("json_schema", schema={"type": "array", "contains": {"const": 1}})
    )
    assert (await ask(model("[2,1]"), conversation=conversation)).incidents == ()
    (incident,) = (await ask(model("[2]"), conversation=conversation)).incidents
    assert incident.code == "schema_violation"


@pytest.mark.parametrize("strict", [True, False, None])
async def test_only_a_strict_tool_s_arguments_must_be_enforceable(strict: bool | None) -> None:
    numbers = {"type": "array", "contains": {"const": 1}}
    tool = ToolSpec("add", parameters={"type": "object", "properties": {"numbers": numbers}}, strict=strict)
    request = TurnRequest(conversation=replace(HI, tools=(tool,)))
    if strict:
        with pytest.raises(RequestError) as caught:
            await prepare_turn(model("x"), request)
        assert caught.value.param == "tools[0].function.parameters.properties.numbers.contains"
    else:
        assert (await prepare_turn(model("x"), request)).grammar


@pytest.mark.parametrize("strict", [True, False])
async def test_a_value_that_its_grammar_let_through_and_its_schema_does_not_is_an_error_where_it_is_strict(
    strict: bool,
) -> None:
    """The last of the steps that fail closed: here the schema is exchanged after the grammar was made of it."""
    format = ResponseFormat("json_schema", schema={"type": "array", "items": {"type": "integer"}}, strict=strict)
    request = TurnRequest(conversation=replace(HI, response_format=format))
    plan = await prepare_turn(model("[2]"), request)
    assert plan.constraint is not None
    (path,) = plan.constraint.schemas
    schemas = {path: compile_schema({"type": "array", "maxItems": 0}, path)}
    turn = run_turn(replace(plan, constraint=msgspec.structs.replace(plan.constraint, schemas=schemas)))
    if strict:
        with pytest.raises(EngineError, match=path) as caught:
            await collect(turn)
        assert caught.value.code == "grammar_broken"
    else:
        (reply,) = await collect(turn)
        assert [incident.code for incident in reply.incidents] == ["schema_violation"]


async def test_what_cannot_be_enforced_strictly_is_refused_with_its_place() -> None:
    schema = {"type": "array", "contains": {"const": 1}}
    conversation = replace(HI, response_format=ResponseFormat("json_schema", schema=schema, strict=True))
    with pytest.raises(RequestError) as caught:
        await ask(model("[1]"), conversation=conversation)
    assert (caught.value.param or "").startswith("response_format.json_schema.schema")


NEEDS = [
    ("tool_choice", {"conversation": WITH_TOOL, "tool_choice": ToolChoice("required")}),
    ("tool_choice", {"conversation": WITH_TOOL, "tool_choice": ToolChoice("auto", ("add",))}),
    ("response_format", {"conversation": replace(HI, response_format=ResponseFormat("json_object"))}),
    ("tools", {"conversation": replace(HI, tools=(replace(ADD, strict=True),))}),
]


@pytest.mark.parametrize(("param", "fields"), NEEDS)
async def test_what_only_a_grammar_can_promise_is_refused_without_one(param: str, fields: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError) as caught:
        await ask(model("x", constrained=False), **fields)
    assert caught.value.param == param
    await ask(model("x", constrained=False), best_effort=True, **fields)


async def test_an_engine_that_takes_no_grammar_is_no_better_than_none() -> None:
    answering = replace(model("x"), engine=ScriptedEngine([], grammar=False))
    with pytest.raises(UnsupportedError):
        await ask(answering, conversation=WITH_TOOL, tool_choice=ToolChoice("required"))


async def test_the_reply_to_a_raw_prompt_is_not_constrained() -> None:
    request = TurnRequest(conversation=HI, tool_choice=ToolChoice("none"))
    assert (await prepare_turn(model("x"), request)).grammar
    assert (await prepare_turn(model("x"), replace(request, raw=RawFormat()))).grammar is None


@pytest.mark.parametrize("run", [run_turn, steps, run_rounds])
async def test_what_runs_is_a_plan_by_its_type_and_only_compiling_the_grammar_makes_one(run: Any) -> None:
    draft = plan_turn(model(CALL), TurnRequest(conversation=WITH_TOOL, tool_choice=ToolChoice("required")))
    assert get_type_hints(run)["plan"] is Plan
    assert not isinstance(draft, Plan)
    plan = await constrain(draft)
    assert isinstance(plan, Plan)
    assert plan.grammar


async def test_free_text_without_tools_is_not_constrained() -> None:
    answering = model("just text")
    reply = await ask(answering)
    assert reply.reason is FinishReason.STOP_EOS
    assert isinstance(answering.engine, ScriptedEngine)
    assert answering.engine.requests[0][2] is None


async def test_where_no_call_may_be_the_grammar_has_none() -> None:
    answering = model(CALL)
    with pytest.raises(EngineError) as caught:
        await ask(answering, tool_choice=ToolChoice("none"))
    assert caught.value.code == "grammar_broken"


async def test_a_call_that_may_not_be_is_given_as_text_where_nothing_constrains_the_reply() -> None:
    reply = await ask(model(CALL, constrained=False), tool_choice=ToolChoice("none"))
    words = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    assert [(message.is_call, message.text) for message in reply.messages] == [(False, words)]
    assert reply.reason is FinishReason.STOP_EOS
    assert [incident.code for incident in reply.incidents] == ["call_not_allowed"]


@pytest.mark.parametrize(
    ("to", "body", "constrained"),
    [
        ("python", "print(1)", True),
        ("browser.search", '{"query":"x"}', True),
        ("browser.search", '{"q":"x","topn":"many"}', False),
        ("browser.shut", "{}", False),
    ],
)
async def test_calls_of_the_servers_own_tools_are_constrained_too(to: str, body: str, constrained: bool) -> None:
    format = Harmony(literal=True)
    answering = replace(
        model(f" to={to}<|channel|>analysis code<|message|>{body}<|call|>"),
        format=format,
        compiler=ReplyCompiler(format, TOKENIZER, {END}),
    )
    pending = ask(answering, conversation=replace(HI, builtins=(BROWSER, PYTHON)))
    if constrained:
        assert [(m.recipient, m.text) for m in (await pending).messages] == [(to, body)]
    else:
        with pytest.raises(EngineError) as caught:
            await pending
        assert caught.value.code == "grammar_broken"


async def test_a_thought_ends_within_its_budget() -> None:
    budgeted = replace(model(f"<think>{'x' * 9}</think>yes"), thinking_budget=8, format=THINKING)
    budgeted = replace(budgeted, compiler=ReplyCompiler(THINKING, TOKENIZER, {END}))
    conversation = replace(HI, response_format=ResponseFormat("choice", choices=("yes", "no")))
    with pytest.raises(EngineError) as caught:
        await ask(budgeted, conversation=conversation)
    assert caught.value.code == "grammar_broken"
    assert (await ask(replace(budgeted, thinking_budget=9), conversation=conversation)).messages[-1].text == "yes"


def test_a_plan_that_requires_a_grammar_cannot_be_made_without_one() -> None:
    conversation = Conversation(
        (Message(role=Role.USER, text="Hi"),), response_format=ResponseFormat(kind="json_object")
    )
    draft = plan_turn(model("{}"), TurnRequest(conversation=conversation))
    with pytest.raises(ValueError, match="constrain"):
        Plan(draft.model, draft.request, draft.prompt, draft.prompt_ids, draft.sampling, constraint=None)
