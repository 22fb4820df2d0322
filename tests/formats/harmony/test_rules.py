"""The rules of the guide in conversations of our own, for clones without the guide's texts."""

from __future__ import annotations

from datetime import date

import pytest

from antiphon.conversation import Conversation, End, Message, Role, Settings, ToolSpec
from antiphon.formats.harmony import Harmony, HarmonyParser
from antiphon.formats.harmony.controls import CONTROLS
from antiphon.tokens import ControlScanner, Tokenizer, encode_pieces, spell
from kit.harmony_corpora import codes, ended

TIDES = ToolSpec(
    "tides",
    "When the sea is high.",
    {"type": "object", "properties": {"port": {"type": "string", "description": "A harbour"}}, "required": ["port"]},
)
QUESTION = Conversation(
    (Message(role=Role.SYSTEM, text="Answer sailors."), Message(role=Role.USER, text="High water in Brest?")),
    tools=(TIDES,),
    settings=Settings(current_date=date(2026, 3, 4)),
)
CALLED = (
    "<|channel|>analysis<|message|>Ask the table.<|end|><|start|>assistant"
    "<|channel|>commentary<|message|>One moment.<|end|><|start|>assistant"
    '<|channel|>commentary to=functions.tides <|constrain|>json<|message|>{"port": "Brest"}<|call|>'
)


def read(text: str) -> list[Message]:
    scanner, parser = ControlScanner(CONTROLS), HarmonyParser()
    got = [*parser.feed([*scanner.feed(text), *scanner.close()]), *parser.close()]
    assert codes(got) == []
    return ended(got)


def prompt(conversation: Conversation) -> str:
    return spell(tuple(Harmony().render(conversation)))


@pytest.mark.spec("HAR-39", "HAR-50", "HAR-51", "HAR-55", "HAR-58", "HAR-60", "HAR-71", "HAR-72", "HAR-74", "HAR-81")
def test_a_prompt_is_system_developer_user_and_an_open_assistant(o200k: Tokenizer) -> None:
    assert prompt(QUESTION) == (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2026-03-04\n\nReasoning: medium\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n"
        "Calls to these tools must go to the commentary channel: 'functions'.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nAnswer sailors.\n\n# Tools\n\n## functions\n\n"
        "namespace functions {\n\n// When the sea is high.\ntype tides = (_: {\n"
        "// A harbour\nport: string,\n}) => any;\n\n"
        "} // namespace functions<|end|>"
        "<|start|>user<|message|>High water in Brest?<|end|><|start|>assistant"
    )
    assert encode_pieces(Harmony().render(QUESTION), o200k)[:3] == [200006, 17360, 200008]


@pytest.mark.spec("HAR-82", "HAR-83", "HAR-84", "HAR-85", "HAR-86", "HAR-92", "HAR-93", "HAR-94")
def test_reasoning_preamble_and_call_are_distinguished() -> None:
    thought, preamble, call = read(CALLED)
    assert [(m.channel, m.is_call, m.is_preamble, m.end) for m in (thought, preamble, call)] == [
        ("analysis", False, False, End.END),
        ("commentary", False, True, End.END),
        ("commentary", True, False, End.CALL),
    ]
    assert (call.recipient, call.content_type, call.constrained) == ("functions.tides", "json", True)
    assert call.text == '{"port": "Brest"}'


@pytest.mark.spec("HAR-45", "HAR-46", "HAR-48", "HAR-68", "HAR-69", "HAR-70", "HAR-87", "HAR-88", "HAR-89", "HAR-90")
def test_the_open_turn_keeps_its_reasoning_and_a_finished_one_loses_it() -> None:
    result = Message(role=Role.TOOL, name="functions.tides", text="14:05")
    going = QUESTION.add(*read(CALLED), result)
    assert prompt(going) == (
        f"{prompt(QUESTION)}{CALLED}"
        "<|start|>functions.tides to=assistant<|channel|>commentary<|message|>14:05<|end|><|start|>assistant"
    )
    done = going.add(*read("<|channel|>final<|message|>At 14:05.<|return|>"), Message(role=Role.USER, text="Thanks"))
    assert "Ask the table." not in prompt(done)
    assert "<|channel|>final<|message|>At 14:05.<|end|><|start|>user<|message|>Thanks<|end|>" in prompt(done)
    assert "<|return|>" not in prompt(done)
