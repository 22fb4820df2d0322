"""What a model sampled stands in the next prompt id for id, so that its cache is hit and nothing is encoded anew."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import Conversation, Message, MessageEnded, Role, ToolSpec
from antiphon.engines import EngineEnd, ScriptedEngine, Step
from antiphon.formats import Format
from antiphon.formats.harmony import harmony
from antiphon.formats.openchatml import openchatml
from antiphon.formats.replies import ReplyDescription
from antiphon.formats.template import template_format
from antiphon.formats.template.format import QWEN
from antiphon.generation import Model, TurnRequest, plan_turn
from antiphon.generation.reader import ChoiceReader
from antiphon.store import pack, unpack
from antiphon.tokens import Control, Piece, SampledText
from kit.pairs import FRAMES, PAIRS, TOKENIZER, ids, sampled_ids

START, CHANNEL, MESSAGE, CALL, CONSTRAIN, RETURN, END = FRAMES
LETTERS = [ord(letter) for letter in "thein a.\n<|"] + list(range(TOKENIZER.size - len(PAIRS), TOKENIZER.size))
sampled = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=12)
turns = st.lists(sampled, min_size=1, max_size=4)


def model(format: Format) -> Model:
    return Model(name="m", engine=ScriptedEngine([]), tokenizer=TOKENIZER, format=format)


def answered(model: Model, conversation: Conversation, reply: Sequence[int]) -> tuple[list[int], list[Message]]:
    """The prompt, and the messages when the model sampled ``reply``."""
    plan = plan_turn(model, TurnRequest(conversation=conversation))
    reader = ChoiceReader(plan)
    events = [*reader.read(Step(tuple(reply), end=EngineEnd.STOP)), *reader.close()]
    return list(plan.prompt_ids), [event.message for event in events if isinstance(event, MessageEnded)]


def grow(model: Model, replies: Sequence[Sequence[int]], written: Sequence[Sequence[int]]) -> None:
    """Each prompt begins with the one before, and then the reply as history writes it."""
    conversation, expected = Conversation(), list[int]()
    for reply, is_sampled in zip(replies, written, strict=True):
        conversation = conversation.add(Message(role=Role.USER, text="in the end"))
        prompt, messages = answered(model, conversation, reply)
        assert prompt[: len(expected)] == expected
        conversation = conversation.add(*messages)
        expected = prompt + list(is_sampled)
    last, _ = answered(model, conversation.add(Message(role=Role.USER, text="then?")), [])
    assert last[: len(expected)] == expected


@pytest.mark.spec("LMD-27")
@given(turns)
@settings(max_examples=60)
def test_chatml_s_next_prompt_begins_with_the_last_and_all_that_was_sampled(texts: list[list[int]]) -> None:
    replies = [text + ids(Control("<|im_end|>")) for text in texts]
    grow(model(template_format("chatml", TOKENIZER.controls)), replies, replies)


@given(turns)
@settings(max_examples=60)
def test_tags_that_were_not_used_change_nothing(texts: list[list[int]]) -> None:
    tagged = template_format("chatml", TOKENIZER.controls, replies=ReplyDescription(reasoning=QWEN.reasoning))
    solid = [[ord("i"), *text] for text in texts]
    replies = [text + ids(Control("<|im_end|>")) for text in solid]
    grow(model(tagged), replies, replies)


@pytest.mark.parametrize("format", [harmony(TOKENIZER.controls), openchatml(TOKENIZER.controls)], ids=lambda f: f.name)
@given(texts=turns)
@settings(max_examples=40)
def test_an_answer_in_frames_is_kept_up_to_its_return_which_history_writes_as_end(
    format: Format, texts: list[list[int]]
) -> None:
    head = ids(CHANNEL, "final", MESSAGE)
    replies = [head + text + ids(RETURN) for text in texts]
    grow(model(format), replies, [head + text + ids(END) for text in texts])


@given(thought=sampled, arguments=sampled)
@settings(max_examples=40)
def test_harmony_keeps_the_reasoning_before_a_call_and_the_call_id_for_id(
    thought: list[int], arguments: list[int]
) -> None:
    reply = ids(CHANNEL, "analysis", MESSAGE) + thought + ids(END, START, "assistant", " to=functions.f", CHANNEL)
    reply += ids("commentary", " ", CONSTRAIN, "json", MESSAGE) + arguments + ids(CALL)
    speaker = model(harmony(TOKENIZER.controls))
    conversation = Conversation((Message(role=Role.USER, text="in the end"),), tools=(ToolSpec("f"),))
    prompt, messages = answered(speaker, conversation, reply)
    result = Message(role=Role.TOOL, name="functions.f", recipient="assistant", call_id=messages[-1].call_id, text="4")
    after, _ = answered(speaker, conversation.add(*messages, result), [])
    assert after[: len(prompt) + len(reply)] == prompt + reply


HEADERS: list[tuple[Piece, ...]] = [
    (CHANNEL, "commentary to=functions.the ", CONSTRAIN, "json"),
    (CHANNEL, "commentary to=functions.the", CONSTRAIN, "json"),
    (CHANNEL, "commentary\n to=functions.the json"),
    (CHANNEL, "analysis to=functions.the"),
    (" to=functions.the", CHANNEL, "commentary ", CONSTRAIN, "json"),
    (" to=functions.the", CHANNEL, "analysis code"),
    ("  to=functions.the ", CONSTRAIN, "json ", CHANNEL, "commentary"),
]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("thought", [False, True])
@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=10)
def test_harmony_keeps_a_call_s_header_id_for_id_in_whatever_way_it_was_written(
    header: tuple[Piece, ...], thought: bool, chance: Random
) -> None:
    """As the first of a reply, whose role the prompt has, and behind another message; stored in between or not."""
    reply = ids(CHANNEL, "analysis", MESSAGE, "hm", END, START, "assistant") if thought else []
    reply += sampled_ids(chance, [*header, MESSAGE, "{}", CALL])
    speaker = model(harmony(TOKENIZER.controls))
    conversation = Conversation((Message(role=Role.USER, text="in the end"),), tools=(ToolSpec("the"),))
    prompt, messages = answered(speaker, conversation, reply)
    result = Message(role=Role.TOOL, name="functions.the", call_id=messages[-1].call_id, text="4")
    for call in (messages[-1], unpack(pack(messages[-1]))):
        after, _ = answered(speaker, conversation.add(*messages[:-1], call, result), [])
        assert after[: len(prompt) + len(reply)] == prompt + reply


def test_harmony_drops_the_reasoning_of_an_answered_turn_so_the_prompts_part_at_its_reply() -> None:
    reply = ids(CHANNEL, "analysis", MESSAGE, "hm", END, START, "assistant", CHANNEL, "final", MESSAGE, "so", RETURN)
    speaker = model(harmony(TOKENIZER.controls))
    conversation = Conversation((Message(role=Role.USER, text="in the end"),))
    prompt, messages = answered(speaker, conversation, reply)
    after, _ = answered(speaker, conversation.add(*messages, Message(role=Role.USER, text="why?")), [])
    assert after[: len(prompt)] == prompt
    assert after[len(prompt) :][: len(ids(CHANNEL, "final"))] == ids(CHANNEL, "final")


def test_a_text_that_was_cut_by_a_stop_is_plain_and_one_that_was_not_is_sampled() -> None:
    speaker = model(template_format("chatml", TOKENIZER.controls))
    conversation = Conversation((Message(role=Role.USER, text="x"),))
    for stop, is_sampled in ((("he",), False), (("zz",), True)):
        reader = ChoiceReader(plan_turn(speaker, TurnRequest(conversation=conversation, stop=stop)))
        events = reader.read(Step(tuple(b"ab the end"), end=EngineEnd.STOP))
        (message,) = (event.message for event in events if isinstance(event, MessageEnded))
        assert isinstance(message.text, SampledText) is is_sampled


@pytest.mark.parametrize("broken", [b"\xc3", b"ab\xff", b"\xe2\x80"])
def test_bytes_that_are_no_text_are_mended_and_not_kept_as_sampled(broken: bytes) -> None:
    speaker = model(template_format("chatml", TOKENIZER.controls))
    _, messages = answered(speaker, Conversation((Message(role=Role.USER, text="x"),)), list(broken))
    assert "\N{REPLACEMENT CHARACTER}" in messages[0].text
    assert not isinstance(messages[0].text, SampledText)


def test_sampled_text_keeps_its_ids_in_copies() -> None:
    text = SampledText("hi", (1, 2), "v")
    for other in (copy.deepcopy(text), pickle.loads(pickle.dumps(text))):
        assert (other, other.ids, other.vocabulary) == ("hi", (1, 2), "v")
