"""What a model reads of a message's request: whose text stands where, and which text of a client's is no part of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.api import create_app
from antiphon.catalog.static import StaticCatalog
from antiphon.formats import Format
from antiphon.formats.template import jinja_format
from antiphon.generation import Model, ModelFacts
from antiphon.tokens import decode
from kit.api import CHATML, END, TOKENIZER, Got, exchange, exchange_bytes, ids, scripted
from kit.messages import USER, WEATHER, Fields
from kit.obliging import ObligingEngine, constrained
from kit.responses import HARMONY, VOCABULARY, harmony_ids
from kit.responses import RETURN as HARMONY_END

USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
LATER = {"role": "system", "content": "Be brief."}
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=0123;"
FIRST_ONLY = """{%- for m in messages -%}
{%- if m.role == "system" and not loop.first %}{{ raise_exception("system must be first") }}{% endif -%}
[{{ m.role }}: {{ m.content }}]
{%- endfor -%}{% if add_generation_prompt %}[assistant: {% endif %}"""
THINKS = "{% if enable_thinking is defined and not enable_thinking %}QUIET {% endif %}{{ messages[-1].content }}"


async def answer_to(format: Format, fields: Fields) -> tuple[Got, str]:
    """The answer, and the prompt as its model read it."""
    tokenizer, end = (VOCABULARY, HARMONY_END) if format is HARMONY else (TOKENIZER, END)
    prompts: list[str] = []

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        prompts.append(decode(tokenizer, prompt))
        return harmony_ids(end) if format is HARMONY else ids(end)

    model = Model(name="small", engine=scripted(script), tokenizer=tokenizer, format=format)
    body: Fields = {"model": "small", "max_tokens": 9, "messages": [USER], **fields}
    got = await exchange(create_app(StaticCatalog({"small": model}), clock=lambda: 1e9), "/v1/messages", body, [])
    return got, prompts[0] if prompts else ""


async def prompt_of(format: Format = CHATML, **fields: Any) -> str:
    got, prompt = await answer_to(format, fields)
    assert got.status == 200, got.body
    return prompt


def frames(prompt: str) -> list[str]:
    """The frames of a ChatML prompt, without their marks."""
    return [frame.removesuffix("\n").removesuffix("<|im_end|>") for frame in prompt.split("<|im_start|>")[1:]]


async def test_system_is_a_text_or_blocks_that_are_put_together_as_they_are() -> None:
    blocks = [
        {"type": "text", "text": "Be "},
        {"type": "text", "text": "kind.", "cache_control": {"type": "ephemeral"}},
    ]
    assert await prompt_of(system="Be kind.") == await prompt_of(system=blocks)
    assert frames(await prompt_of(system=blocks)) == ["system\nBe kind.", "user\nHi", "assistant"]


@pytest.mark.parametrize("value", ["0123", "abcd"])
async def test_what_claude_code_changes_with_each_request_is_no_part_of_a_prompt(value: str) -> None:
    header = BILLING.replace("0123", value)
    plain = await prompt_of(system="Be kind.")
    assert await prompt_of(system=[{"type": "text", "text": header}, {"type": "text", "text": "Be kind."}]) == plain
    assert await prompt_of(system=f"{header}\nBe kind.") == plain
    assert await prompt_of(system="Be kind.", messages=[{"role": "system", "content": header}, USER]) == plain
    said = {"role": "user", "content": header}
    assert header in await prompt_of(messages=[said]), "a user may say it"


async def test_the_operators_texts_stay_in_their_places() -> None:
    prompt = await prompt_of(system="Be kind.", messages=[USER, LATER])
    assert frames(prompt) == ["system\nBe kind.", "user\nHi", "system\nBe brief.", "assistant"]
    further = [USER, LATER, {"role": "assistant", "content": "Hello."}, USER, LATER]
    assert (await prompt_of(system="Be kind.", messages=further)).startswith(prompt.removesuffix("assistant\n"))
    harmony = await prompt_of(HARMONY, messages=[USER, LATER])
    assert harmony.index("user<|message|>Hi") < harmony.index("developer<|message|># Instructions\n\nBe brief.")


async def test_leading_texts_of_the_operator_are_one_with_system() -> None:
    assert frames(await prompt_of(messages=[LATER, USER])) == ["system\nBe brief.", "user\nHi", "assistant"]
    prompt = await prompt_of(system="Be kind.", messages=[LATER, LATER, USER])
    assert frames(prompt)[0] == "system\nBe kind.\n\nBe brief.\n\nBe brief."


async def test_a_text_between_a_call_and_its_result_comes_behind_the_result() -> None:
    called = {"role": "assistant", "content": [USE]}
    for messages in (
        [USER, called, LATER, {"role": "user", "content": [RESULT]}],
        [USER, called, {"role": "user", "content": [RESULT]}, LATER],
    ):
        prompt = await prompt_of(messages=messages, tools=[WEATHER])
        assert prompt.index("sunny") < prompt.index("Be brief.") < prompt.rindex("assistant")


async def test_where_a_template_takes_one_system_text_alone_later_ones_are_in_the_users() -> None:
    format = jinja_format(FIRST_ONLY, TOKENIZER.controls.keys())
    prompt = await prompt_of(format, system="Be kind.", messages=[USER, LATER])
    assert prompt == "[system: Be kind.][user: Hi\n\nBe brief.][assistant: "
    between = [USER, {"role": "assistant", "content": "Hello."}, LATER, USER]
    prompt = await prompt_of(format, messages=between)
    assert prompt == "[user: Hi][assistant: Hello.][user: Be brief.\n\nHi][assistant: "


async def test_results_come_before_the_text_wherever_they_stand() -> None:
    text = {"type": "text", "text": "And now?"}
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, USE]}
    prompts = {
        await prompt_of(tools=[WEATHER], messages=[USER, said, {"role": "user", "content": content}])
        for content in ([RESULT, text], [text, RESULT])
    }
    assert len(prompts) == 1
    prompt = prompts.pop()
    assert prompt.index("I look.") < prompt.index("sunny") < prompt.index("And now?")


@pytest.mark.parametrize(
    ("content", "read"),
    [("no such city", "Error: no such city"), ("Error: none", "Error: none"), (None, "Error: ")],
)
async def test_a_result_that_is_an_error_is_read_as_one(content: str | None, read: str) -> None:
    result = {**RESULT, "content": content, "is_error": True}
    messages = [USER, {"role": "assistant", "content": [USE]}, {"role": "user", "content": [result]}]
    assert f"<tool_response>\n{read}\n</tool_response>" in await prompt_of(messages=messages, tools=[WEATHER])


async def test_a_call_that_was_never_answered_has_an_empty_result() -> None:
    called = {"role": "assistant", "content": [USE]}
    said = {"type": "text", "text": "Never mind."}
    prompt = await prompt_of(messages=[USER, called, {"role": "user", "content": "Never mind."}], tools=[WEATHER])
    assert "<tool_response>\n\n</tool_response>" in prompt
    answered = {"role": "user", "content": [{**RESULT, "content": ""}, said]}
    assert prompt == await prompt_of(messages=[USER, called, answered], tools=[WEATHER])


async def test_an_assistants_text_at_the_end_is_gone_on_with() -> None:
    prompt = await prompt_of(messages=[USER, {"role": "assistant", "content": "The answer is"}])
    assert frames(prompt)[-1] == "assistant\nThe answer is"


async def test_texts_of_one_message_are_one_and_empty_ones_are_nothing() -> None:
    parts = [{"type": "text", "text": text} for text in ("What is", "", " it?")]
    assert await prompt_of(messages=[{"role": "user", "content": parts}]) == await prompt_of(
        messages=[{"role": "user", "content": "What is it?"}]
    )


async def test_what_a_call_was_given_is_read_as_the_client_spelt_it() -> None:
    body = b'{"city":  "Bern", "n": 1.0, "big": 12345678901234567890123}'
    use = {**USE, "input": "INPUT"}
    messages = [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [RESULT]}]
    raw = json.dumps({"model": "small", "max_tokens": 9, "messages": messages, "tools": [WEATHER]}).encode()
    read: list[str] = []

    def script(prompt: Sequence[int], sampling: object, choice: int) -> Sequence[int]:
        read.append(decode(VOCABULARY, prompt))
        return harmony_ids(HARMONY_END)

    model = Model(name="small", engine=scripted(script), tokenizer=VOCABULARY, format=HARMONY)
    application = create_app(StaticCatalog({"small": model}))
    got = await exchange_bytes(application, "/v1/messages", raw.replace(b'"INPUT"', body), [])
    assert got.status == 200, got.body
    assert body.decode() in read[0]


async def test_thinking_that_is_not_requested_is_turned_off_where_the_template_can() -> None:
    format = jinja_format(THINKS, TOKENIZER.controls.keys())
    assert await prompt_of(format) == "QUIET Hi"
    assert await prompt_of(format, thinking={"type": "disabled"}) == "QUIET Hi"
    assert await prompt_of(format, thinking={"type": "adaptive"}) == "Hi"
    assert await prompt_of(format, output_config={"effort": "high"}) == "Hi"


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, "low"),
        ({"thinking": {"type": "adaptive"}}, "medium"),
        ({"output_config": {"effort": "max"}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 50_000}}, "high"),
        ({"thinking": {"type": "enabled", "budget_tokens": 50}, "output_config": {"effort": "high"}}, "high"),
    ],
)
async def test_the_effort_is_what_is_named_else_what_thinking_may_cost(fields: Fields, effort: str) -> None:
    assert f"Reasoning: {effort}\n" in await prompt_of(HARMONY, **fields)


@pytest.mark.parametrize("reasons", [False, True])
async def test_a_budget_bounds_the_thinking_of_a_model_that_thinks(reasons: bool) -> None:
    described = ModelFacts(task="chat", context=None, vocabulary=1, reasoning=reasons)
    engine = ObligingEngine()
    model = constrained(engine, described=described)
    body: Fields = {"model": "small", "max_tokens": 99, "messages": [USER]}
    for thinking in ({"type": "enabled", "budget_tokens": 50}, {"type": "adaptive"}):
        application = create_app(StaticCatalog({"small": model}))
        got = await exchange(application, "/v1/messages", {**body, "thinking": thinking}, [])
        assert got.status == 200, got.body
    bounded, free = (grammar for _, _, grammar in engine.requests)
    assert (bounded is not None and "{0,200}" in bounded) is reasons, bounded
    assert free is None
