"""Grammars are compiled beside the event loop, cached by their shape, and never for longer than is allowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.conversation import ResponseFormat, ToolChoice, ToolSpec
from antiphon.errors import RequestError
from antiphon.formats.openchatml import openchatml
from antiphon.generation import compile as compile_module
from antiphon.generation.compile import USES, ReplyCompiler
from antiphon.grammar import ReplyShape
from antiphon.isolation import Isolation
from antiphon.tokens import ByteTokenizer, Control
from kit.waiting import PATIENCE

EOS = Control("<|im_end|>")
TOKENIZER = ByteTokenizer([EOS])


def compiler(**options: Any) -> ReplyCompiler:
    return ReplyCompiler(openchatml([EOS]), TOKENIZER, [256], **options)


def shaped(schema: dict[str, Any]) -> ReplyShape:
    return ReplyShape(response_format=ResponseFormat("json_schema", schema=schema))


async def test_one_shape_is_compiled_once_whoever_asks() -> None:
    replies = compiler()
    one = await replies.compile(shaped({"type": "integer"}))
    assert await replies.compile(shaped({"type": "integer"})) is one
    assert await replies.compile(shaped({"type": "boolean"})) is not one


@pytest.mark.parametrize("city", [{"type": "string"}, {"enum": ["call_first", "call_third"]}])
async def test_the_ids_of_calls_are_those_of_each_reply(city: dict[str, Any]) -> None:
    """Also where a client's own text spells an id: that stays."""
    tool = ToolSpec("weather", parameters={"type": "object", "properties": {"city": city}, "required": ["city"]})

    def calling(*ids: str) -> ReplyShape:
        return ReplyShape(tools=(tool,), tool_choice=ToolChoice("required"), call_ids=ids)

    replies = compiler()
    for shape in (calling("call_first", "call_second"), calling("call_second", "call_fourth"), calling("a", "b")):
        compiled, alone = await replies.compile(shape), await compiler().compile(shape)
        assert compiled.lark == alone.lark
        assert compiled.digest == alone.digest
        assert compiled.schemas.keys() == alone.schemas.keys()
        begins = f"<|start|>assistant to=functions.weather call_id={shape.call_ids[0]}<|".encode()
        assert compiled.matcher().consume(list(begins)) == alone.matcher().consume(list(begins))


async def test_a_grammar_that_many_replies_were_followed_by_is_compiled_anew() -> None:
    """What they have come to is held for all of them together."""
    replies = compiler()
    given = [await replies.compile(shaped({"type": "integer"})) for _ in range(USES + 1)]
    assert {id(one) for one in given[:USES]} == {id(given[0])}
    assert given[USES] is not given[0]


async def test_where_the_reply_begins_is_part_of_what_is_kept() -> None:
    replies = compiler()
    head = await replies.compile(ReplyShape(), ["<|start|>assistant"])
    body = await replies.compile(ReplyShape(), ["<|start|>assistant<|channel|>final<|message|>"])
    assert "channel" in head.lark
    assert '"<|channel|>"' not in body.lark


async def test_a_reply_that_continues_a_message_is_not_kept() -> None:
    replies = compiler()
    prompt = ["<|start|>assistant<|channel|>final<|message|>So"]
    assert await replies.compile(ReplyShape(), prompt, continues=True) is not await replies.compile(
        ReplyShape(), prompt, continues=True
    )


async def test_no_more_are_kept_than_fit() -> None:
    replies = compiler(capacity=1)
    one = await replies.compile(shaped({"type": "integer"}))
    await replies.compile(shaped({"type": "boolean"}))
    assert await replies.compile(shaped({"type": "integer"})) is not one


async def test_what_takes_too_long_is_the_callers_error() -> None:
    replies = compiler(seconds=0)
    await replies.vocabulary()
    with pytest.raises(RequestError, match="to compile"):
        await replies.compile(shaped({"enum": list(range(5000))}))


async def test_definitions_that_lead_on_too_deeply_are_the_callers_error() -> None:
    to = [{"$ref": f"#/$defs/d{i}"} for i in range(601)]
    steps = {f"d{i}": {"type": "object", "properties": {"n": to[i + 1]}, "required": ["n"]} for i in range(600)}
    with pytest.raises(RequestError, match="too deeply"):
        await compiler(seconds=PATIENCE).compile(shaped({**to[0], "$defs": {**steps, "d600": {"type": "object"}}}))


async def test_the_event_loop_runs_on_while_a_large_schema_compiles() -> None:
    replies = compiler()
    await replies.vocabulary()
    properties = {f"p{i}": {"enum": [f"value {i} {j}" for j in range(20)]} for i in range(400)}
    work = asyncio.create_task(replies.compile(shaped({"type": "object", "properties": properties})))
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await work).lark
    assert turns > 10


async def test_errors_name_the_parameter() -> None:
    with pytest.raises(RequestError) as refused:
        await compiler().compile(ReplyShape(tools=(ToolSpec("f", parameters={"type": "strin"}),)))
    assert refused.value.param == "tools[0].function.parameters.type"
    with pytest.raises(RequestError) as refused:
        await compiler().compile(ReplyShape(tool_choice=ToolChoice("required")))
    assert refused.value.param == "tool_choice"


async def test_a_grammar_whose_trial_took_much_is_for_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one that was compiled last, which stays otherwise whatever its size."""
    tried, plain = shaped({"type": "string", "pattern": "^(a|b)*c{1,9}$"}), shaped({"type": "integer"})
    isolation, replies = Isolation(), compiler()
    replies.try_in(isolation)
    try:
        assert await replies.compile(tried) is await replies.compile(tried)
        monkeypatch.setattr(compile_module, "MOST_TAKEN", 0)
        assert await replies.compile(tried) is not await replies.compile(tried)
        assert await replies.compile(plain) is await replies.compile(plain)
    finally:
        isolation.close()
