"""Wherever a limit cuts a reply, what is said begins what would have been said: no header, mark or name of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from antiphon.conversation import Conversation, Event, Incident, Message, Role, TextDelta, ToolSpec, visible_to_user
from antiphon.engines import EngineEnd, ScriptedEngine, Step
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.harmony.controls import CONTROLS as HARMONY
from antiphon.formats.openchatml import openchatml
from antiphon.formats.openchatml.spelling import CONTROLS as OPENCHATML
from antiphon.generation import Draft, Model, TurnRequest, plan_turn
from antiphon.generation.reader import ChoiceReader
from antiphon.tokens import ByteTokenizer, Control, ControlScanner
from kit.family_server import SOURCES, family

ASKED = Conversation((Message(role=Role.USER, text="And tomorrow?"),), tools=(ToolSpec("weather"),))
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
THOUGHT = "<|channel|>analysis<|message|>Hm, rain.<|end|>"
SEND, TO = "<|start|>assistant", "to=functions.weather"
CALLED = '<|message|>{"a":1}<|call|>'
HARMONY_REPLIES = {
    "an answer": f"{THOUGHT}<|start|>assistant<|channel|>final<|message|>Rain.<|return|>",
    "a call": f"{THOUGHT}<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json{CALLED}",
    "a recipient first": f"{THOUGHT}{SEND} {TO}<|channel|>commentary <|constrain|>json{CALLED}",
    "a call at once": f" to=functions.weather<|channel|>commentary json{CALLED}",
    "a preamble": f"<|channel|>commentary<|message|>I look.<|end|>{SEND}<|channel|>commentary {TO}{CALLED}",
    "an answer at once": "<|channel|>final<|message|>Rain.<|return|>",
    "an answer of a type": "<|channel|>final <|constrain|>json<|message|>{}<|return|>",
    "a built-in tool": "<|channel|>analysis to=python code<|message|>1+1<|call|>",
    "a tool that is not there": "<|channel|>commentary to=browser.search<|message|>{}<|call|>",
    "a list for it": '<|channel|>commentary to=browser.open<|message|> [-1.5e+2, "a", {"b": [true]}]<|call|>',
    "words for it": "<|channel|>commentary to=browser.search<|message|>Look there.<|call|>",
}
OPENCHATML_REPLIES = {
    "an answer": f"{THOUGHT}\n<|start|>assistant<|channel|>final<|message|>Rain.<|return|>",
    "a call": f"{THOUGHT}\n<|start|>assistant to=functions.weather<|channel|>commentary<|constrain|>json{CALLED}",
    "a call at once": f" to=functions.weather<|channel|>commentary<|constrain|>json{CALLED}",
    "a recipient behind": f"<|channel|>commentary to=functions.weather{CALLED}",
    "an answer at once": "<|channel|>final<|message|>Rain.<|return|>",
    "a tool that is not there": f" to=functions.moon<|channel|>commentary<|constrain|>json{CALLED}",
}
FORMATS: dict[str, tuple[Callable[[ByteTokenizer], Format], Sequence[Control], dict[str, str]]] = {
    "Harmony": (lambda tokenizer: Harmony(), HARMONY, HARMONY_REPLIES),
    "Harmony without its controls": (lambda tokenizer: Harmony(literal=True), (), HARMONY_REPLIES),
    "OpenChatML": (lambda tokenizer: openchatml(tokenizer.controls), OPENCHATML, OPENCHATML_REPLIES),
    "OpenChatML without its controls": (lambda tokenizer: openchatml(()), (), OPENCHATML_REPLIES),
}
Said = tuple[str, str, list[str | None]]


def read(draft: Draft, steps: Sequence[Step]) -> tuple[Said, list[Event]]:
    """What is shown, what is thought and who is called; and the events."""
    reader = ChoiceReader(draft)
    events = [event for step in steps for event in reader.read(step)]
    events += reader.close()
    texts = [message for message in reader.messages if not message.is_call]
    shown = "".join(message.text for message in texts if visible_to_user(message))
    thought = "".join(message.text for message in texts if not visible_to_user(message))
    return (shown, thought, [message.recipient for message in reader.messages if message.is_call]), events


def by_id(ids: Sequence[int], end: EngineEnd) -> list[Step]:
    return [*(Step((id,)) for id in ids), Step((), end=end)]


def leaks(
    draft: Draft, ids: Sequence[int], *, steps: Callable[[Sequence[int], EngineEnd], list[Step]] = by_id
) -> list[Any]:
    """The cuts after which something is said that the whole reply does not begin with."""
    (shown, thought, called), _ = read(draft, steps(ids, EngineEnd.STOP))
    found = []
    for cut in range(1, len(ids), max(1, len(ids) // 30)):
        (text, reason, calls), events = read(draft, steps(ids[:cut], EngineEnd.LENGTH_OUTPUT))
        said = shown.startswith(text.rstrip()) and thought.startswith(reason.rstrip()) and calls == called[: len(calls)]
        streamed = "".join(event.text for event in events if isinstance(event, TextDelta))
        if not said or (not calls and len(streamed) != len(text + reason)):
            found.append((cut, text, reason, calls))
    return found


def encoded(tokenizer: ByteTokenizer, text: str) -> list[int]:
    scanner = ControlScanner(list(tokenizer.controls))
    ids: list[int] = []
    for piece in (*scanner.feed(text), *scanner.close()):
        ids += [tokenizer.controls[piece]] if isinstance(piece, Control) else tokenizer.encode(piece)
    return ids


def speaking(format: Format, tokenizer: ByteTokenizer) -> Draft:
    model = Model(name="m", engine=ScriptedEngine([]), tokenizer=tokenizer, format=format)
    return plan_turn(model, TurnRequest(conversation=ASKED))


@pytest.mark.parametrize(("name", "reply"), [(name, reply) for name, of in FORMATS.items() for reply in of[2]])
def test_a_cut_in_a_header_says_nothing_of_it(name: str, reply: str) -> None:
    made, controls, replies = FORMATS[name]
    tokenizer = ByteTokenizer(list(controls))
    assert leaks(speaking(made(tokenizer), tokenizer), encoded(tokenizer, replies[reply])) == []


@pytest.mark.parametrize("reply", HARMONY_REPLIES)
def test_so_it_is_where_the_controls_of_harmony_come_as_text_or_not_at_all(reply: str) -> None:
    tokenizer = ByteTokenizer(list(HARMONY))
    draft, text = speaking(Harmony(spelled=True), tokenizer), HARMONY_REPLIES[reply]
    assert leaks(draft, tokenizer.encode(text)) == []
    if reply not in ("a call at once", "a recipient first"):  # of which nothing is left that is a header
        assert leaks(draft, tokenizer.encode(re.sub(r"<\|\w+\|>", "", text))) == []


def test_so_it_is_where_an_engine_gives_text_and_no_ids() -> None:
    tokenizer = ByteTokenizer(list(HARMONY))
    text = tokenizer.encode(HARMONY_REPLIES["an answer"])

    def texts(ids: Sequence[int], end: EngineEnd) -> list[Step]:
        return [Step((), text=bytes(ids).decode()), Step((), end=end)]

    assert leaks(speaking(Harmony(), tokenizer), text, steps=texts) == []


@pytest.mark.parametrize("name", sorted({*SOURCES, "Python in a list"} - {"bare object"}))  # JSON may be an answer
def test_a_cut_in_a_tag_or_before_a_call_has_its_name_says_nothing_of_it(name: str) -> None:
    chosen = family(name)
    draft = plan_turn(chosen.model("m", chosen.engine(""), grammar=False), TurnRequest(conversation=ASKED))
    call = {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": {"city": "a"}}}
    message = {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call]}
    ids = chosen.ids(chosen.says(message, [TOOL]))
    whole_characters = [leak for leak in leaks(draft, ids) if "\ufffd" not in leak[1] + leak[2]]
    assert whole_characters == []


def test_what_was_cut_is_in_an_incident_and_a_reply_that_ends_by_itself_is_said_whole() -> None:
    chosen = family("function tag")
    draft = plan_turn(chosen.model("m", chosen.engine(""), grammar=False), TurnRequest(conversation=ASKED))
    ids = chosen.ids("Is 1 <fun")
    (shown, _, _), events = read(draft, by_id(ids, EngineEnd.LENGTH_OUTPUT))
    assert (shown, [event.text for event in events if isinstance(event, Incident)]) == ("Is 1 ", ["<fun"])
    assert read(draft, by_id(ids, EngineEnd.STOP))[0][0] == "Is 1 <fun"
