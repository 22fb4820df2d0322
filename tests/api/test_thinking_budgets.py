"""Budgets of thought, by whichever name: a model that would think for ever ends within them, streamed and not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, pairwise, repeat
from random import Random
from typing import Any

import pytest
from starlette.applications import Starlette

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.engines import Sampling
from antiphon.formats.template import jinja_format, template_format
from antiphon.generation import Model, ModelFacts
from antiphon.generation.compile import ReplyCompiler
from antiphon.tokens import Piece, decode, encode_pieces
from antiphon.wire.names.table import KNOWN
from kit.api import END, THINK, TOKENIZER, Got, post_in_process
from kit.masked import FORMATS, MaskedEngine
from kit.responses import CHANNEL, MESSAGE, VOCABULARY

FIELD = "thinking_token_budget"
NAMES = [row.name for row in KNOWN.values() if row.use == "thinking" and -1 in row.neutral]
FRAMED: tuple[Piece, ...] = (CHANNEL, "analysis", MESSAGE)
OPENINGS: dict[str, tuple[Piece, ...]] = {
    "chatml": (THINK,),
    "harmony": FRAMED,
    "openchatml": FRAMED,
    "opened": (),
    "plain": (),
}
FORMATS = {
    **FORMATS,
    "opened": (
        jinja_format(
            "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{%- if m.reasoning_content %}{{ '<think>\n' + "
            "m.reasoning_content + '\n</think>\n\n' }}{%- endif %}{{ m.content + '<|im_end|>\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{%- endif %}",
            TOKENIZER.controls,
        ),
        TOKENIZER,
        END,
    ),
    "plain": (template_format("chatml", TOKENIZER.controls), TOKENIZER, END),
}
"""The last ones are a template whose prompts have opened the thought, and one that knows no thoughts."""
SWITCHED = jinja_format(
    "{{ 'QUIET ' if enable_thinking is defined and not enable_thinking }}{{ messages[0].content }}", TOKENIZER.controls
)
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "f", "parameters": NOTHING}}
YES = {"type": "choice", "choices": ["yes"]}
MOST = 200
CHARACTERS = 4
"""A budget bounds characters: so many for a token."""


class Thinker(MaskedEngine):
    """Thinks as long as it may, and then says as little as it may."""

    def __init__(self, name: str) -> None:
        _, tokenizer, end = FORMATS[name]
        super().__init__(tokenizer, end)
        self._thought = encode_pieces(OPENINGS.get(name, ()), tokenizer)
        self._wanted: Iterator[int] = repeat(-1)

    def write(self, grammar: str | None, prompt: Sequence[int], sampling: Sampling) -> Sequence[int]:
        self._wanted = chain(self._thought, repeat(ord("x")))
        if grammar is None:
            return list(islice(self._wanted, sampling.max_tokens))
        return self.reply(grammar, Random(1), sampling.max_tokens)

    def _sampled(self, ids: Sequence[int], random: Random, place: int) -> int | None:
        wanted = next(self._wanted)
        if wanted not in ids:
            self._wanted = repeat(-1)
        return wanted if wanted in ids else next((id for id in self._closers if id in ids), ids[0])


def model(name: str, *, reasons: bool = True, grammar: bool = True) -> Model:
    format, tokenizer, end = FORMATS[name]
    engine = Thinker(name)
    facts = ModelFacts(task="chat", context=None, vocabulary=tokenizer.size, reasoning=reasons)
    compiler = ReplyCompiler(format, tokenizer, {tokenizer.controls[end]}) if grammar else None
    return Model(
        name="m", engine=engine, tokenizer=tokenizer, format=format, compiler=compiler, described=facts,
    )  # fmt: skip


@cache
def served(name: str, **options: bool) -> Starlette:
    return create_app(StaticCatalog({"m": model(name, **options)}), expose_reasoning=True)


WIRES = ["chat", "chat, streamed", "responses", "responses, streamed"]


async def post(wire: str, application: Starlette, **fields: Any) -> Got:
    stream = "streamed" in wire
    if wire.startswith("chat"):
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": MOST, "stream": stream}
        return await post_in_process(application, "/v1/chat/completions", **body, **fields)
    body = {"input": "Hi", "max_output_tokens": MOST, "stream": stream}
    return await post_in_process(application, "/v1/responses", model="m", **body, **fields)


def thought_and_answer(wire: str, got: Got) -> tuple[str, str]:
    assert got.status == 200, got.body
    if wire == "chat":
        message = got.json["choices"][0]["message"]
        return message.get("reasoning") or "", message["content"] or ""
    if wire == "chat, streamed":
        deltas = [event["choices"][0]["delta"] for event in got.events[:-1]]
        thought, answer = ("".join(delta.get(part) or "" for delta in deltas) for part in ("reasoning", "content"))
        return thought, answer
    body = got.json if wire == "responses" else last_response(got)
    parts = [(item["type"], part["text"]) for item in body["output"] for part in item["content"]]
    thought, answer = ("".join(text for kind, text in parts if kind == of) for of in ("reasoning", "message"))
    return thought, answer


def last_response(got: Got) -> Any:
    line = [line for line in got.body.decode().splitlines() if line.startswith("data: {")][-1]
    return json.loads(line.removeprefix("data: "))["response"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", NAMES)
async def test_a_budget_holds_under_each_name(wire: str, name: str) -> None:
    got = await post(wire, served("chatml"), **{name: 5})
    assert thought_and_answer(wire, got) == ("x" * 5 * CHARACTERS, "")
    assert "x-antiphon-ignored" not in got.headers


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("format", ["chatml", "harmony", "openchatml", "opened"])
@pytest.mark.parametrize("budget", [0, 1, 7])
async def test_a_budget_holds_in_every_format_and_nothing_is_no_thought(wire: str, format: str, budget: int) -> None:
    thought, answer = thought_and_answer(wire, await post(wire, served(format), **{FIELD: budget}))
    assert thought == "x" * budget * CHARACTERS
    assert len(answer) < MOST - budget * CHARACTERS, "the answer follows, and ends"


@pytest.mark.parametrize("format", ["chatml", "harmony", "openchatml"])
@pytest.mark.parametrize(
    "more", [{"tools": [TOOL]}, {"tools": [TOOL], "tool_choice": "required"}, {"response_format": YES}]
)
async def test_a_budget_holds_before_calls_and_forms_too(format: str, more: dict[str, Any]) -> None:
    for budget in (0, 3):
        got = await post("chat", served(format), **{FIELD: budget}, **more)
        thought, answer = thought_and_answer("chat", got)
        assert thought == "x" * budget * CHARACTERS
        assert len(answer) < MOST - budget * CHARACTERS
        called = got.json["choices"][0]["message"].get("tool_calls")
        assert called or "tool_choice" not in more
        assert "response_format" not in more or answer == "yes"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("budget", [None, -1, MOST, 2**63 - 1])
async def test_without_a_bound_below_the_limit_the_model_thinks_up_to_the_limit(wire: str, budget: int | None) -> None:
    for name in NAMES:
        thought, answer = thought_and_answer(wire, await post(wire, served("chatml"), **{name: budget}))
        assert (len(thought), answer) == (MOST - 1, "")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("given", [(5, 6), (0, 1), (-1, 5), (5, -1)])
async def test_two_names_that_disagree_are_refused_by_both(wire: str, given: tuple[int, int]) -> None:
    for first, second in pairwise(NAMES):
        got = await post(wire, served("chatml"), **dict(zip((first, second), given, strict=True)))
        assert got.status == 400, got.body
        assert first in got.error["message"]
        assert second in got.error["message"]
        same = await post(wire, served("chatml"), **{first: given[0], second: given[0]})
        assert same.status == 200


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("wrong", [-2, 2**63, 2.5, "5", True, [5], {"budget": 5}])
async def test_a_budget_that_is_none_is_refused_by_the_name_that_was_sent(wire: str, wrong: Any) -> None:
    for name in NAMES:
        got = await post(wire, served("chatml"), **{name: wrong})
        assert got.status == 400, got.body
        assert got.error["param"] == name
        assert name in got.error["message"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("budget", [0, 5])
async def test_a_model_that_does_not_think_answers_as_it_does_without_a_budget(wire: str, budget: int) -> None:
    plain = served("plain", reasons=False)
    answers = [thought_and_answer(wire, await post(wire, plain, **fields)) for fields in ({}, {FIELD: budget})]
    assert answers[0] == answers[1] == ("", "x" * MOST)


@pytest.mark.parametrize(("budget", "effort"), [(0, "low"), (100, "low"), (2048, "medium"), (9000, "high")])
async def test_without_grammars_a_budget_is_an_effort(budget: int, effort: str) -> None:
    for wire in WIRES[::2]:
        got = await post(wire, served("harmony", grammar=False), return_token_ids=True, **{FIELD: budget})
        prompt = decode(VOCABULARY, got.json["prompt_token_ids"])
        assert f"Reasoning: {effort}\n" in prompt


@pytest.mark.parametrize("more", [{"reasoning_effort": "high"}, {"chat_template_kwargs": {"reasoning_effort": "high"}}])
async def test_a_budget_beside_an_effort_is_refused_where_nothing_can_hold_it(more: dict[str, Any]) -> None:
    for name in NAMES:
        got = await post("chat", served("harmony", grammar=False), **{name: 5}, **more)
        assert (got.status, got.error["param"]) == (400, name)
    assert (await post("chat", served("harmony"), **{FIELD: 5}, **more)).status == 200


async def test_a_budget_of_messages_is_the_same_and_told_where_an_effort_comes_first() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 5}, "max_tokens": MOST, "model": "m"}
    hi = {"messages": [{"role": "user", "content": "Hi"}]}
    got = await post_in_process(served("chatml"), "/v1/messages", **hi, **thinking)
    assert [block["thinking"] for block in got.json["content"] if "thinking" in block] == ["x" * 5 * CHARACTERS]
    effort = {"output_config": {"effort": "high"}}
    told = await post_in_process(served("harmony", grammar=False), "/v1/messages", **hi, **thinking, **effort)
    assert (told.status, told.headers["x-antiphon-ignored"]) == (200, "thinking.budget_tokens")


async def test_no_thought_is_said_to_the_template_too_unless_the_request_says_otherwise() -> None:
    switched = create_app(StaticCatalog({"m": replace(model("chatml"), format=SWITCHED)}))
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "Hi"), ({FIELD: 5}, "Hi"), ({FIELD: 0}, "QUIET Hi"),
        ({FIELD: 0, "chat_template_kwargs": {"enable_thinking": True}}, "Hi"),
    ]  # fmt: skip
    for fields, expected in cases:
        got = await post("chat", switched, return_token_ids=True, **fields)
        assert decode(TOKENIZER, got.json["prompt_token_ids"]) == expected
        rendered = await post_in_process(switched, "/v1/render", messages=[{"role": "user", "content": "Hi"}], **fields)
        assert rendered.json["text"] == expected
