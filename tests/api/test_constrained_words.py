"""Whatever a model says where its reply is constrained: an answer, or an error with a code of its own, never a 500."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from antiphon.api import Limits, create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling, ScriptedEngine
from antiphon.generation import Model
from antiphon.generation.compile import ReplyCompiler
from kit.api import END, THINK, UNTHINK, Got, app, call, exchange, ids, in_process, post_in_process, scripted
from kit.call_ids import numbered
from kit.masked import FORMATS

WORDS = [
    " to=functions.f", "<|channel|>final<|message|>", '{"name": "f", "arguments": ', "{", "}", '{"a":1}', '"\\udedd"',
    ":", "1e999", "-0", "9" * 30, "[", "]", "\\", "é", "<|end|>", "<|im_end|>", "</think>", "\n", "null", " ",
]  # fmt: skip
TOOL: Any = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "number", "maximum": 2**70}}}
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "an object": {"response_format": {"type": "json_object"}},
    "a schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    "a tool": {"tools": [TOOL]},
    "a call": {"tools": [TOOL], "tool_choice": "required"},
    "no call": {"tools": [TOOL], "tool_choice": "none"},
}


class Scripted:
    """A model that says what the test sets, whatever its grammar is."""

    def __init__(self, name: str) -> None:
        format, self.tokenizer, end = FORMATS[name]
        self.reply: Sequence[int] = ()
        self.end = self.tokenizer.controls[end]
        engine = ScriptedEngine(self._said, end_ids=frozenset({self.end}), chunk=3)
        compiler = ReplyCompiler(format, self.tokenizer, {self.end}, seconds=60)
        model = Model(name=name, engine=engine, tokenizer=self.tokenizer, format=format, compiler=compiler)
        self.application: Starlette = create_app(StaticCatalog({name: model}))

    def _said(self, prompt: Sequence[int], sampling: Sampling, choice: int) -> Sequence[int]:
        return [*self.reply, self.end]

    async def ask(self, **fields: Any) -> Got:
        messages = [{"role": "user", "content": "Hi"}]
        return await post_in_process(self.application, "/v1/chat/completions", messages=messages, **fields)

    def replies(self) -> st.SearchStrategy[list[int]]:
        words = st.sampled_from([self.tokenizer.encode(word) for word in WORDS])
        controls = st.sampled_from([[id] for id in self.tokenizer.controls.values()])
        junk = st.lists(st.integers(0, 255), min_size=1, max_size=3)
        return st.lists(st.one_of(words, controls, junk), max_size=12).map(lambda parts: [*chain(*parts)])


def checked(got: Got, *, stream: bool) -> None:
    if got.status == 200 and stream:
        *_, last = got.events
        assert last == "[DONE]" or last["error"]["code"] == "grammar_broken", last
    elif got.status == 200:
        assert got.json["choices"][0]["finish_reason"]
    else:
        assert (got.status, got.error["code"]) == (502, "grammar_broken"), got.body


@pytest.mark.parametrize("name", FORMATS)
def test_no_words_of_a_constrained_model_are_the_servers_mistake(name: str) -> None:
    model = Scripted(name)

    @settings(max_examples=30, derandomize=True)
    @given(model.replies(), st.sampled_from(sorted(CONSTRAINTS)), st.booleans())
    def property(reply: list[int], constraint: str, stream: bool) -> None:
        model.reply = reply
        checked(runner.run(model.ask(**CONSTRAINTS[constraint], stream=stream)), stream=stream)

    with asyncio.Runner() as runner:
        property()


OBJECT: Any = {
    "type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"], "additionalProperties": False,
}  # fmt: skip
STRICT_TOOL: Any = {"type": "function", "function": {"name": "f", "strict": True, "parameters": OBJECT}}
STRICT_FORM: Any = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": OBJECT}}
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", '\\"</tool_call>', "</tool_call>\\n<tool_call>")


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("thought", ["", "<think>hm</think>\n\n"])
def test_a_string_of_an_answer_may_spell_a_tag_that_is_no_control(tag: str, thought: str) -> None:
    model = Scripted("chatml, spelled out")
    value = f'{{"x":"a {tag} b"}}'
    model.reply = model.tokenizer.encode(thought + value)
    got = asyncio.run(model.ask(response_format=STRICT_FORM))
    assert got.json["choices"][0]["message"]["content"] == value


@pytest.mark.parametrize("tag", TAGS)
def test_a_string_of_arguments_may_spell_a_tag_that_is_no_control(tag: str) -> None:
    model = Scripted("chatml, spelled out")
    value = f'{{"x": "a {tag} b"}}'
    model.reply = model.tokenizer.encode(f'<tool_call>\n{{"name": "f", "arguments": {value}}}\n</tool_call>')
    got = asyncio.run(model.ask(tools=[STRICT_TOOL], tool_choice="required"))
    (call,) = got.json["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] == value


REPLY = ids(
    THINK, "Rain é?", UNTHINK, "I look, twice.", *call("f", '{"a": "b\\"é", "c": [1]}'), *call("f", "{}"), END, "?"
)
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
FREE: dict[str, Any] = {"tools": TOOLS}


def engine(*, whole: bool) -> ScriptedEngine:
    return scripted(REPLY, whole=whole, grammar=False)


async def asked(fields: dict[str, Any], **options: Any) -> bool:
    """Whether the engine was asked for a whole reply."""
    played = engine(whole=True)
    got = await in_process(app(played, **options), **fields)
    assert got.status == 200
    ((_, sampling, _),) = played.requests
    return sampling.whole


@pytest.mark.parametrize("fields", [FREE, {**FREE, "n": 3}, {**FREE, "ignore_eos": True, "max_tokens": 9}, {}])
async def test_a_whole_reply_becomes_the_answer_that_a_streamed_one_becomes(fields: dict[str, Any]) -> None:
    assert await asked(fields)
    whole, streamed = [(await in_process(app(engine(whole=whole)), **fields)).json for whole in (True, False)]
    for answer in (whole, streamed):
        del answer["id"], answer["created"]
    assert numbered(whole) == numbered(streamed)


@pytest.mark.parametrize(
    "fields",
    [
        {"stream": True},
        {"stop": ["twice"]},
        {**FREE, "parallel_tool_calls": False},
        {"logprobs": True},
    ],
)
async def test_one_that_may_have_to_end_early_or_is_long_is_streamed(fields: dict[str, Any]) -> None:
    assert not await asked(fields)


async def test_who_limits_the_time_to_the_first_token_still_has_that_limit() -> None:
    assert not await asked({}, limits=Limits(first_token_timeout=60))
    assert await asked({}, limits=Limits(turn_timeout=60))


async def test_other_routes_ask_for_whole_replies_too() -> None:
    played = engine(whole=True)
    served = app(played)
    messages = [{"role": "user", "content": "Hi"}]
    for path, fields in {
        "/v1/completions": {"prompt": ["Hi", "Ho"], "max_tokens": 99},
        "/v1/messages": {"messages": messages, "max_tokens": 99, "model": "small"},
        "/api/chat": {"messages": messages, "stream": False, "model": "small"},
    }.items():
        assert (await post_in_process(served, path, **fields)).status == 200, path
    assert [sampling.whole for _, sampling, _ in played.requests] == [True] * 4


@pytest.mark.parametrize("whole", [True, False])
async def test_nobody_knows_when_the_first_token_of_a_whole_reply_was_there(whole: bool) -> None:
    served = app(engine(whole=whole))
    got = await in_process(served)
    assert ("first;dur" in got.headers["server-timing"]) is not whole
    metrics = (await exchange(served, "/metrics", {}, [], method="GET")).body.decode()
    for name in ("time_to_first_token", "inter_token"):
        found = re.search(rf'antiphon_{name}_seconds_count{{model="small"}} (\d+)', metrics)
        assert bool(found and int(found[1])) is not whole, name
    assert f'antiphon_completion_tokens_total{{model="small"}} {len(REPLY) - 1}.0' in metrics
