"""What is sampled is what templates mark as the assistant's, less what is argued in `marks`; by characters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.generation.sampled import Tracer
from bridge.templates import Source, source
from kit.plain_jinja import conversation_of
from training.marks import CHATS, MARKED, Messages, chats, spans, template_of, tools_of


def traced(known: Source, messages: Messages) -> tuple[str, list[bool]]:
    """The conversation as we write it, and which characters are sampled."""
    written = Tracer(known.format, known.tokenizer).trace(conversation_of(messages, tools_of(messages)))
    text, sampled = "", list[bool]()
    for one in written.passages:
        pieces = map(known.tokenizer.piece, written.ids[one.start : one.end])
        text += (more := b"".join(p if isinstance(p, bytes) else str(p).encode() for p in pieces).decode())
        sampled += [one.sampled] * len(more)
    return text, sampled


@pytest.mark.parametrize("name", MARKED)
def test_what_is_sampled_is_what_the_template_marks_less_what_is_argued(name: str) -> None:
    known = source(name)
    template = template_of(known)
    for chat, messages in chats(name):
        text, marked = template.marks(messages)
        expected, _ = template.expected(messages, text, marked)
        got, sampled = traced(known, messages)
        assert got == text, chat
        assert spans(text, sampled) == spans(text, expected), chat


@pytest.mark.parametrize("chat", ["turns", "blanks", "thought", "thoughts"])
def test_of_harmony_is_sampled_what_the_template_for_training_marks_less_what_is_argued(chat: str) -> None:
    """Of the chats that both write alike."""
    known = replace(source("harmony"), name="trl: gptoss_training")
    template = template_of(known)
    text, marked = template.marks(CHATS[chat])
    expected, _ = template.expected(CHATS[chat], text, marked)
    got, sampled = traced(known, CHATS[chat])
    assert got == text
    assert spans(text, sampled) == spans(text, expected)
