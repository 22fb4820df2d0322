"""Models that ship a program instead of a chat template: what they are prompted with, and who they are."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from antiphon import read_chat
from antiphon.catalog.files.text import ModelText, gguf_text
from antiphon.catalog.format_choice import choose_format
from antiphon.catalog.known_formats import known_formats
from antiphon.config import ModelEntry
from antiphon.conversation import Conversation, MessageEnded, Settings
from antiphon.engines.gguf_file import GgufValue
from antiphon.errors import RenderError, TemplateError, TokenError
from antiphon.formats import Format
from antiphon.formats.template import program_format, program_of
from antiphon.tokens import ByteTokenizer, Control, ControlScanner, spell, tekken_tokenizer

BOS, EOS = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"
SHARED = [BOS, EOS, "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"]
VOCABULARIES = {
    "deepseek-v3.2": SHARED,
    "deepseek-v4": [*SHARED, "<｜latest_reminder｜>"],
    "deepseek-v4.1": [*SHARED, "<｜latest_reminder｜>", "<｜System｜>"],
}
EFFORT = "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "It.", "parameters": PARAMETERS}}]


_V3 = [
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
]
_V7 = [*_V3, "[TOOL_CALLS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"]
MISTRAL = {
    "mistral-v3": [*_V3, "[TOOL_CALLS]"],
    "mistral-v7": _V7,
    "mistral-v11": [*_V7, "[ARGS]", "[CALL_ID]"],
    "mistral-v13": [*_V7, "[ARGS]", "[THINK]", "[/THINK]"],
}


def controls(name: str) -> list[Control]:
    return [Control(spelling) for spelling in (VOCABULARIES | MISTRAL)[name]]


def prompt(name: str, *messages: dict[str, Any], tools: list[Any] | None = None, **arguments: Any) -> str:
    read = read_chat({"model": "m", "messages": list(messages), **({"tools": tools} if tools else {})})
    conversation = Conversation(read.messages, tools=read.tools, settings=Settings(template_kwargs=arguments))
    return spell(list(program_format(name, controls(name)).render(conversation)))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def asked(*calls: tuple[str, dict[str, Any]], text: str = "", thought: str = "") -> dict[str, Any]:
    written = [
        {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for i, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, "reasoning_content": thought, "tool_calls": written}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_vocabulary_tells_which_program_its_model_has(name: str) -> None:
    text = ModelText(tokenizer=ByteTokenizer(controls(name)))
    assert choose_format("m", ModelEntry(), text, known_formats()).name == name


def test_the_mark_of_its_tags_may_be_a_text_of_one_token() -> None:
    tokens: list[GgufValue] = ["<｜System｜>", "｜DSML｜", "a"]
    types: list[GgufValue] = [3, 4, 1]
    metadata: dict[str, GgufValue] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [],
    }
    assert program_of(gguf_text(metadata).tokenizer) == "deepseek-v4.1"
    assert program_of(ByteTokenizer([Control("<｜System｜>")])) is None


def test_a_template_of_the_models_files_counts_over_the_program() -> None:
    text = ModelText(tokenizer=ByteTokenizer(controls("deepseek-v4.1")), template="{{ messages[0].content }}")
    assert choose_format("m", ModelEntry(), text, known_formats()).name == "m/chat_template"


def test_v41_begins_with_its_effort_before_the_system_text() -> None:
    system = {"role": "system", "content": "You are a helpful assistant."}
    written = prompt("deepseek-v4.1", system, user("What is 2+2?"))
    marked = f"{BOS}<｜System｜>{EFFORT.format(75)}"
    assert written == f"{marked}You are a helpful assistant.<｜User｜>What is 2+2?<｜Assistant｜><think>"


@pytest.mark.parametrize(("effort", "budget"), [("low", 50), ("medium", 75), ("max", 100), (1, 1), (37, 37)])
def test_v41_writes_an_effort_as_a_number(effort: str | int, budget: int) -> None:
    assert EFFORT.format(budget) in prompt("deepseek-v4.1", user("Hi"), reasoning_effort=effort)


@pytest.mark.parametrize("effort", [0, 101, "enormous"])
def test_v41_refuses_an_effort_that_it_does_not_know(effort: str | int) -> None:
    with pytest.raises((RenderError, TemplateError), match="a number from 1 to 100"):
        prompt("deepseek-v4.1", user("Hi"), reasoning_effort=effort)


@pytest.mark.parametrize("arguments", [{"thinking": False}, {"enable_thinking": False}, {"reasoning_effort": "none"}])
def test_without_thinking_the_thought_is_closed_in_the_prompt(arguments: dict[str, Any]) -> None:
    for name in ("deepseek-v4", "deepseek-v4.1"):
        assert prompt(name, user("Hi"), **arguments) == f"{BOS}<｜User｜>Hi<｜Assistant｜></think>"


def test_v4_takes_efforts_in_words() -> None:
    texts = [prompt("deepseek-v4", user("Hi"), reasoning_effort=effort) for effort in ("low", "high", "max")]
    assert texts[0] == f"{BOS}<｜User｜>Hi<｜Assistant｜><think>"
    assert texts[1].startswith(f"{BOS}Reasoning Effort: Absolute maximum")
    assert texts[2].startswith(f"{BOS}Reasoning Effort: Beyond maximum")


def test_v41_writes_results_as_the_users_and_keeps_thoughts_where_tools_are_offered() -> None:
    turn = [user("Go"), asked(("weather", {"city": "Bonn", "days": 2}), ("weather", {}), thought="Two.")]
    results = [{"role": "tool", "tool_call_id": f"c{i}", "content": f"R{i}"} for i in range(2)]
    written = prompt("deepseek-v4.1", *turn, *results, tools=TOOLS)
    assert written.endswith(
        "<｜User｜>Go<｜Assistant｜><think>Two.</think>\n\n<｜DSML｜ calls>\n"
        '<｜DSML｜ invoke name="weather">\n<｜DSML｜ parameter name="city" string="true">Bonn</｜DSML｜ parameter>\n'
        '<｜DSML｜ parameter name="days" string="false">2</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n'
        '<｜DSML｜ invoke name="weather">\n\n</｜DSML｜ invoke>\n</｜DSML｜ calls>' + EOS + "<｜User｜>"
        "<tool_result>R0</tool_result>\n\n<tool_result>R1</tool_result><｜Assistant｜><think>"
    )
    forgotten = prompt("deepseek-v4.1", user("Go"), asked(text="Well.", thought="Two."), user("And?"))
    assert f"<｜Assistant｜></think>Well.{EOS}" in forgotten


def test_v32_writes_results_into_the_turn_that_asked_for_them() -> None:
    turn = [user("Go"), asked(("weather", {}), thought="One."), {"role": "tool", "tool_call_id": "c0", "content": "R"}]
    assert prompt("deepseek-v3.2", *turn, tools=TOOLS, thinking=True).endswith(
        f"</｜DSML｜function_calls>{EOS}\n\n<function_results>\n<result>R</result>\n</function_results>\n\n<think>"
    )


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_reply_of_a_program_is_read_as_its_prompt_teaches_it(name: str) -> None:
    format = program_format(name, controls(name))
    block, tag = {
        "deepseek-v3.2": ("function_calls", "｜DSML｜"),
        "deepseek-v4": ("tool_calls", "｜DSML｜"),
        "deepseek-v4.1": ("calls", "｜DSML｜ "),
    }[name]
    call = (
        f'<{tag}invoke name="weather">\n<{tag}parameter name="city" string="true">Bonn</{tag}parameter>\n</{tag}invoke>'
    )
    reply = f"Look.</think>On it.\n\n<{tag}{block}>\n{call}\n{call}\n</{tag}{block}>{EOS}"
    expected = [("analysis", "Look."), ("final", "On it."), ("commentary", '{"city": "Bonn"}')]
    assert read(format, name, reply) == [*expected, expected[-1]]


def read(format: Format, name: str, reply: str) -> list[tuple[str | None, str]]:
    """The channels and texts of the messages of a reply that began to think."""
    offered = read_chat({"model": "m", "messages": [user("Go")], "tools": TOOLS})
    thinking = Settings(template_kwargs={"thinking": True})
    begun = list(format.render(Conversation(offered.messages, tools=offered.tools, settings=thinking)))
    parser = format.parser(prompt=begun, tools=offered.tools)
    scanner = ControlScanner(controls(name))
    events = [*parser.feed([*scanner.feed(reply), *scanner.close()]), *parser.close()]
    return [(event.message.channel, event.message.text) for event in events if isinstance(event, MessageEnded)]


_OFFERED = f"[AVAILABLE_TOOLS]{json.dumps(TOOLS)}[/AVAILABLE_TOOLS]"
_LISTED = '[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Bonn"}, "id": "callabc00"}, '
_ONE = '{"city": "Bonn"}'
WRITTEN_BY_MISTRAL = {
    "mistral-v3": f"<s>[INST]Hi[/INST]Hello.</s>{_OFFERED}[INST]Be brief.\n\nBonn?[/INST]{_LISTED}"
    '{"name": "weather", "arguments": {}, "id": "callabc01"}]</s>'
    '[TOOL_RESULTS]{"content": "sunny", "call_id": "callabc00"}[/TOOL_RESULTS]'
    '[TOOL_RESULTS]{"content": "grey", "call_id": "callabc01"}[/TOOL_RESULTS]',
    "mistral-v7": f"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]Hello.</s>{_OFFERED}[INST]Bonn?[/INST]"
    f'{_LISTED}{{"name": "weather", "arguments": {{}}, "id": "callabc01"}}]</s>'
    "[TOOL_RESULTS]callabc00[TOOL_CONTENT]sunny[/TOOL_RESULTS][TOOL_RESULTS]callabc01[TOOL_CONTENT]grey[/TOOL_RESULTS]",
    "mistral-v11": f"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]Hello.</s>{_OFFERED}[INST]Bonn?[/INST]"
    f"[TOOL_CALLS]weather[CALL_ID]callabc00[ARGS]{_ONE}[TOOL_CALLS]weather[CALL_ID]callabc01[ARGS]{{}}</s>"
    "[TOOL_RESULTS]callabc00[TOOL_CONTENT]sunny[/TOOL_RESULTS][TOOL_RESULTS]callabc01[TOOL_CONTENT]grey[/TOOL_RESULTS]",
    "mistral-v13": f"<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT]{_OFFERED}[INST]Hi[/INST]Hello.</s>[INST]Bonn?[/INST]"
    f"[TOOL_CALLS]weather[ARGS]{_ONE}[TOOL_CALLS]weather[ARGS]{{}}</s>"
    "[TOOL_RESULTS]sunny[/TOOL_RESULTS][TOOL_RESULTS]grey[/TOOL_RESULTS]",
}
"""One conversation, as `mistral-common` 1.13.1 writes it."""


@pytest.mark.parametrize("name", MISTRAL)
def test_mistrals_prompts_are_those_of_mistral_common(name: str) -> None:
    calls = asked(("weather", {"city": "Bonn"}), ("weather", {}))
    calls["tool_calls"] = [call | {"id": f"callabc0{i}"} for i, call in enumerate(calls["tool_calls"])]
    results = [
        {"role": "tool", "tool_call_id": f"callabc0{i}", "content": text} for i, text in enumerate(("sunny", "grey"))
    ]
    system, answer = {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello. "}
    written = prompt(name, system, user("Hi"), answer, user("Bonn?"), calls, *results, tools=TOOLS)
    assert written == WRITTEN_BY_MISTRAL[name]


@pytest.mark.parametrize("name", MISTRAL)
def test_what_a_model_of_mistrals_writes_is_read(name: str) -> None:
    found = program_format(name, controls(name)).found
    assert (found.origin, found.warnings) == ("derived", ())
    assert {"answer", "call", "text_call", "two_calls"} <= {*found.proof.proven}
    assert ("reasoning_call" in found.proof.proven) == (name == "mistral-v13")


def test_thoughts_of_mistrals_stand_between_their_marks_where_the_vocabulary_has_them() -> None:
    said = asked(text="Well.", thought="Hm.")
    assert prompt("mistral-v13", user("Go"), said, user("And?")) == (
        "<s>[INST]Go[/INST][THINK]Hm.[/THINK]Well.</s>[INST]And?[/INST]"
    )
    assert "Hm." not in prompt("mistral-v11", user("Go"), said, user("And?"))


def test_ids_are_given_as_mistrals_models_know_them() -> None:
    written = prompt(
        "mistral-v11", user("Go"), asked(("weather", {})), {"role": "tool", "tool_call_id": "c0", "content": "R"}
    )
    [asked_by, answered] = re.findall(r"\[(?:CALL_ID|TOOL_RESULTS)\](\w+)", written)
    assert asked_by == answered
    assert len(asked_by) == 9


def tekken(version: str = "v3", pattern: str = r"\S+|\s+", **more: Any) -> bytes:
    config = {"pattern": pattern, "default_vocab_size": 256 + 22, "default_num_special_tokens": 22, "version": version}
    vocab = [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode()} for i in range(256)]
    return json.dumps({"config": config, "vocab": vocab, **more}).encode()


@pytest.mark.parametrize(("version", "name"), [("v3", "mistral-v3"), ("v13", "mistral-v13"), ("v99", None), ("", None)])
def test_a_tekken_file_names_the_version_of_its_prompts(version: str, name: str | None) -> None:
    assert program_of(tekken_tokenizer(tekken(version))) == name


def test_a_tekken_file_names_its_controls_or_they_have_their_usual_names() -> None:
    usual = tekken_tokenizer(tekken())
    named = tekken_tokenizer(tekken(special_tokens=[{"rank": 3, "token_str": "[OWN]"}]))
    assert [usual.controls[Control(name)] for name in ("<unk>", "<SPECIAL_21>")] == [0, 21]
    assert [named.controls[Control(name)] for name in ("<SPECIAL_0>", "[OWN]", "<SPECIAL_21>")] == [0, 3, 21]
    assert (usual.size, usual.encode("!"), usual.piece(22 + ord("!"))) == (256 + 22, [22 + ord("!")], b"!")


@pytest.mark.parametrize("data", [b"{", tekken(vocab=[{"rank": 0, "token_bytes": "x"}]), tekken(pattern="(")])
def test_what_is_no_tekken_file_is_refused(data: bytes) -> None:
    with pytest.raises(TokenError, match=r"tekken\.json cannot be") as refused:
        tekken_tokenizer(data)
    assert refused.value.code == "vocabulary_malformed"
