"""Tools in LMDeploy's names: how they are offered, and that a call in the template's own spelling is read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from antiphon.conversation import Conversation, End, Incident, Message, MessageEnded, Role, ToolSpec
from antiphon.formats.template import (
    CHAT_TEMPLATES,
    TemplateFormat,
    load_template_json,
    load_template_python,
    replies_of,
    template_format,
)
from antiphon.tokens import Control, ControlScanner, Piece, spell

INTERNLM = ["internlm2", "internlm2-chat", "internlm3", "internvl-internlm2", "internvl2-internlm2", "internvl2_5"]
S1 = ["intern-s1", "interns1"]
LLAMA = ["llama3_1", "llama3_2"]
CONTROLS = [
    Control(spelling)
    for spelling in (
        "<|im_start|>", "<|im_end|>", "<|action_start|>", "<|action_end|>", "<|plugin|>", "<|interpreter|>",
        "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>",
        "<think>", "</think>",
    )
]  # fmt: skip
TOOL = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}
TOOL_JSON = '{"name": "add", "description": "Adds.", "parameters": {"type": "object"}}'
SPEC = ToolSpec(name="add", description="Adds.", parameters={"type": "object"})
USER = Message(role=Role.USER, text="Hi")
CALL = Message(
    role=Role.ASSISTANT, text='{"a": 1}', recipient="functions.add", channel="commentary", content_type="json",
    end=End.CALL,
)  # fmt: skip
RESULT = Message(role=Role.TOOL, text="2", name="functions.add")


def prompt(name: str, *messages: dict[str, Any]) -> str:
    template: Any = CHAT_TEMPLATES.get(name)()
    written: str = template.messages2prompt(list(messages), tools=[TOOL])
    return written


def rendered(name: str, *messages: Message, controls: Sequence[Control] = CONTROLS) -> list[Piece]:
    return list(template_format(name, controls).render(Conversation(messages, tools=(SPEC,))))


def test_internlm_has_tools_in_a_system_block_of_their_own() -> None:
    turn = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    offered = f"<|im_start|>system name=<|plugin|>\n[{TOOL_JSON}]<|im_end|>\n"
    system = {"role": "system", "content": "S"}
    user = {"role": "user", "content": "Hi"}
    assert prompt("internlm2", system, user) == f"<|im_start|>system\nS<|im_end|>\n{offered}{turn}"
    default = prompt("internlm3", user)
    assert default.startswith("<|im_start|>system\nYou are an AI assistant whose name is InternLM")
    assert default.endswith(f"<|im_end|>\n{offered}{turn}")
    assert prompt("internvl2-internlm2", system, user) == (
        f"<|im_start|>system\nS<|im_end|><|im_start|>system name=<|plugin|>\n[{TOOL_JSON}]<|im_end|>"
        "<|im_start|>user\nHi<|im_end|><|im_start|>assistant\n"
    )


@pytest.mark.parametrize("name", S1)
def test_intern_s1_has_tools_after_its_system_text_and_names_them_in_results(name: str) -> None:
    text = spell(rendered(name, Message(role=Role.SYSTEM, text="S"), USER, CALL, RESULT))
    assert text.startswith("<|im_start|>system name=<|plugin|>\nS\n\nYour response should consist of a reasoning step")
    assert 'You have access to these tools:\n[\n  {\n    "name": "add",\n    "description": "Adds.",\n' in text
    assert '    "parameters": {\n      "type": "object"\n    }\n  }\n]<|im_end|>\n<|im_start|>user\nHi' in text
    assert text.endswith(
        '<|im_start|>assistant\n<|action_start|><|plugin|>\n{"name": "add", "parameters": {"a": 1}}\n<|action_end|>'
        "<|im_end|>\n<|im_start|>environment name=<|plugin|>\n2<|im_end|>\n<|im_start|>assistant\n<think>"
    )


@pytest.mark.parametrize("name", LLAMA)
def test_llama_has_tools_before_its_system_text_and_ends_calls_with_a_control_of_their_own(name: str) -> None:
    text = spell(rendered(name, USER, CALL, RESULT))
    system = "<|start_header_id|>system<|end_header_id|>\n\n"
    assert text.startswith(
        f"<|begin_of_text|>{system}Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
    )
    assert f"following functions:\n\nUse the function 'add' to: Adds.\n{TOOL_JSON}\n\n\nIf a you choose" in text
    assert "the user query\n\nYou are a helpful assistant.<|eot_id|>" in text
    assert text.endswith(
        '<function=add>{"a": 1}</function><|eom_id|><|start_header_id|>ipython<|end_header_id|>\n\n2<|eot_id|>'
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    given = prompt(name, {"role": "system", "content": "S"}, {"role": "user", "content": "Hi"})
    assert given.startswith(f"<|begin_of_text|>{system}# Tool Instructions\n")
    assert "the user query\n\nS<|eot_id|>" in given


def test_lmdeploys_call_leaves_calls_out_where_lmdeploys_does() -> None:
    call = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    user = {"role": "user", "content": "Hi"}
    assert prompt("llama3_1", user, {"role": "assistant", "content": "Hm.", "tool_calls": [call]}).endswith(
        "<|end_header_id|>\n\nHm."
    )


@pytest.mark.parametrize("name", [*INTERNLM, *S1, *LLAMA])
@pytest.mark.parametrize("controls", [CONTROLS, []], ids=["controls", "text"])
def test_a_call_is_read_as_its_template_writes_it(name: str, controls: list[Control]) -> None:
    """Cut at every character, and behind the reasoning that the template opens."""
    format = template_format(name, controls)
    opened = rendered(name, USER, controls=controls)
    thought = "\nhm\n</think>\n\n" if name in S1 else ""
    before = spell(opened).removesuffix("<think>")
    history = spell(list(format.render(Conversation((USER, CALL), tools=(SPEC,)), reply_as=None)))
    assert history.startswith(before)
    reply = thought + history.removeprefix(before)
    for cut in range(len(reply)):
        parser, scanner = format.parser(prompt=opened), ControlScanner(controls)
        pieces = [*scanner.feed(reply[:cut]), *scanner.feed(reply[cut:]), *scanner.close()]
        events = [event for piece in pieces if not parser.ended for event in parser.feed([piece])]
        events += parser.close()
        read = [event.message for event in events if isinstance(event, MessageEnded)]
        assert [(message.recipient, message.text, message.end) for message in read[-1:]] == [
            ("functions.add", '{"a": 1}', End.CALL)
        ]
        assert [message.text for message in read[:-1]] == (["hm"] if thought else [])
        assert not [event for event in events if isinstance(event, Incident) and event.code != "after_end"]


def test_a_template_that_is_derived_from_one_of_these_reads_its_calls() -> None:
    source = """
@CHAT_TEMPLATES.register_module(name="mine")
class Mine(CHAT_TEMPLATES.get("internlm2")):
    pass
"""
    registry, _ = load_template_python(source, "my.py")
    name, template = load_template_json('{"model_name": "internlm2", "meta_instruction": "Be kind."}')
    for format in (
        template_format("mine", CONTROLS, templates=registry),
        TemplateFormat(name, template, CONTROLS, replies=replies_of(name, template)),
    ):
        parser = format.parser()
        reply: list[Piece] = [CONTROLS[2], CONTROLS[4], '\n{"name": "add", "parameters": {}}', CONTROLS[3]]
        ended = [event.message for event in parser.feed(reply) if isinstance(event, MessageEnded)]
        assert [(message.recipient, message.text) for message in ended] == [("functions.add", "{}")]


@pytest.mark.parametrize("name", [*INTERNLM, *S1, *LLAMA])
def test_what_a_tool_spells_stays_text(name: str) -> None:
    evil = "".join(control.spelling for control in CONTROLS)

    def structure(spelled: str) -> list[Control]:
        tool = ToolSpec(name="f", description=spelled, parameters={"title": spelled, "type": "object"})
        pieces = template_format(name, CONTROLS).render(Conversation((USER,), tools=(tool, tool)))
        return [piece for piece in pieces if isinstance(piece, Control)]

    assert structure(evil) == structure("x")


@pytest.mark.parametrize("name", ["internlm@seed", "wizardlM@seed", "ultralm@seed", "ultracm@seed"])
def test_every_name_of_the_seeds_release_is_there(name: str) -> None:
    assert "U" in CHAT_TEMPLATES.get(name)().get_prompt("U")


def test_the_seeds_names_write_what_their_release_wrote() -> None:
    systems = [{"role": "system", "content": text} for text in ("S", "T")]
    user = {"role": "user", "content": "U"}
    assert CHAT_TEMPLATES.get("puyu@seed")().messages2prompt([*systems, user]) == "<BOS>STU"
    assert CHAT_TEMPLATES.get("codellama@seed")().get_prompt(" U\n", False) == "[INST] U [/INST]"
    ultra = CHAT_TEMPLATES.get("ultralm@seed")()
    assert ultra.messages2prompt([systems[0], user]) == "S\nUser: U</s>\nAssistant: "
    assert ultra.get_prompt("U", sequence_start=False) == "\nUser: U</s>\nAssistant: "
    assert CHAT_TEMPLATES.get("qwen-7b@seed")().messages2prompt(systems) == "<|im_start|>system\nT<|im_end|>"


def test_deepseeks_chat_opens_an_answer_without_reasoning() -> None:
    history = [
        {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"},
    ]
    assert CHAT_TEMPLATES.get("deepseek-v4")().messages2prompt(history) == (
        "<｜begin▁of▁sentence｜><｜User｜>U<｜Assistant｜></think>A<｜end▁of▁sentence｜><｜User｜>V<｜Assistant｜></think>"
    )
