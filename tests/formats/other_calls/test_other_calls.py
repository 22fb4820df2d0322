"""What a model says as a call, when tools are offered, is a call: in other forms than the trained one, too."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random

import pytest

from antiphon.conversation import Incident, Message, MessageEnded, MessageStarted, ParserEvent, TextDelta
from antiphon.formats.other_calls.offered import FoundCall, Offered
from antiphon.formats.other_calls.parser import OTHER_FORM, OtherCalls
from antiphon.formats.other_calls.texts import calls_in
from antiphon.formats.template import template_format
from antiphon.formats.template.format import HERMES
from antiphon.tokens import ByteTokenizer, Control
from kit.other_calls import TOOLS, look_alikes, spellings

TOKENIZER = ByteTokenizer(
    [Control("<|im_start|>"), Control("<|im_end|>"), Control("<tool_call>"), Control("</tool_call>")]
)
FORMAT = template_format("chatml", TOKENIZER.controls.keys(), replies=HERMES)
END = Control("<|im_end|>")
SPELLINGS = list(spellings())
LOOK_ALIKES = list(dict.fromkeys(look_alikes()))


def read(texts: Iterable[str], sure: bool = True) -> list[ParserEvent]:
    parser = OtherCalls(FORMAT.parser(tools=TOOLS), Offered(TOOLS), lambda text, calls: sure)
    events = [event for text in texts for event in parser.feed([text])]
    return [*events, *parser.feed([END]), *parser.close()]


def messages(events: Sequence[ParserEvent]) -> list[Message]:
    return [event.message for event in events if isinstance(event, MessageEnded)]


def incidents(events: Sequence[ParserEvent]) -> list[str]:
    return [event.code for event in events if isinstance(event, Incident)]


def test_there_are_enough_of_both_kinds() -> None:
    assert len({text for text, _ in SPELLINGS}) >= 200
    assert len(LOOK_ALIKES) >= 200


def test_each_spelling_is_read_as_its_calls() -> None:
    missed = []
    for text, calls in SPELLINGS:
        found = [message for message in messages(read([text])) if message.is_call]
        expected = [(tool.recipient, arguments) for tool, arguments in calls]
        if [(call.recipient, json.loads(call.text)) for call in found] != expected:
            missed.append(text)
    assert not missed


def test_each_text_that_looks_alike_stays_the_text_that_it_is() -> None:
    wrong = []
    for text in LOOK_ALIKES:
        events = read([text])
        if incidents(events) or "".join(m.text for m in messages(events)).strip() != text.strip():
            wrong.append(text)
    assert not wrong


def test_cutting_a_reply_anywhere_gives_the_same_messages() -> None:
    random = Random(7)
    for text in random.sample([*(text for text, _ in SPELLINGS), *LOOK_ALIKES], 120):
        whole = read([text])
        for cuts in (list(text), _cut(text, random), _cut(text, random)):
            parts = read(cuts)
            assert messages(parts) == messages(whole), text
            assert incidents(parts) == incidents(whole), text
            assert _streamed(parts) == [message.text for message in messages(parts)], text


@pytest.mark.parametrize(
    "text",
    [
        r'{"tool": "write_file", "id": "\ud83d1", "input": {"path": "\ud83da", "content": "\udc00"}}',
        r'{"tool": "write_file", "id": "\ud83d1", "input": "{\"path\": \"\ud83da\", \"content\": \"\\udc00\"}"}',
    ],
)
def test_half_a_pair_of_surrogates_in_a_call_is_no_character_of_it(text: str) -> None:
    (call,) = messages(read([text]))
    assert json.loads(call.text) == {"path": "\ufffda", "content": "\ufffd"}
    assert call.call_id == "\ufffd1"


def test_blanks_round_a_name_say_nothing_wherever_the_reply_is_cut() -> None:
    text = '{"name": "\u00a0get_time ", "arguments": {}}'
    whole, parts = messages(read([text])), messages(read(text))
    assert [call.recipient for call in whole] == ["functions.get_time"]
    assert parts == whole


def test_the_text_before_a_call_is_an_answer_of_its_own() -> None:
    events = read(['I look.\n\n```json\n{"name": "get_time", "arguments": {}}\n```'])
    answer, call = messages(events)
    assert (answer.text, answer.is_call) == ("I look.", False)
    assert (call.recipient, call.text) == ("functions.get_time", "{}")
    assert incidents(events) == [OTHER_FORM]


def test_text_goes_on_while_it_can_begin_no_call() -> None:
    parser = OtherCalls(FORMAT.parser(tools=TOOLS), Offered(TOOLS))
    for text in ("{x | x > 0}", "```python\nx", '{"name": "Ada', '[1, {"a"'):
        assert "".join(e.text for e in parser.feed([f" a {text}"]) if isinstance(e, TextDelta)).endswith(text)


def test_a_call_of_which_the_model_was_not_sure_is_text() -> None:
    text = '```json\n{"name": "get_weather", "arguments": {"city": "London"}}\n```'
    assert [message.text for message in messages(read([text], sure=False))] == [text]
    (call,) = messages(read([f"<tool_call>{text[8:-4]}</tool_call>"], sure=False))
    assert call.is_call


@pytest.mark.parametrize(
    "deep", ["[" * 5000, '{"name": "get_time", "arguments": ' + '{"a": ' * 5000, "<tool_call>" + "(" * 5000]
)
def test_what_is_nested_too_deeply_is_text(deep: str) -> None:
    assert "".join(message.text for message in messages(read([deep]))) == deep


def _cut(text: str, random: Random) -> list[str]:
    places = sorted({0, len(text), *(random.randrange(len(text) + 1) for _ in range(4))})
    return [text[a:b] for a, b in pairwise(places)]


def _streamed(events: Sequence[ParserEvent]) -> list[str]:
    texts: list[str] = []
    for event in events:
        if isinstance(event, MessageStarted):
            texts.append("")
        elif isinstance(event, TextDelta):
            texts[-1] += event.text
    return texts


def test_a_reading_bounds_its_work() -> None:
    offered = Offered(TOOLS)
    huge = json.dumps({"name": "write_file", "arguments": {"path": "a", "content": "x" * 70_000}})
    assert calls_in(huge, offered) == []
    assert isinstance(calls_in(huge[:100] + '"}}', offered)[0], FoundCall)
