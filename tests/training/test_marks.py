"""What is sampled is what templates mark as the assistant's, less what is argued in `marks`; by characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from antiphon.generation.sampled import Tracer
from bridge.templates import Source, names, source, text_of
from kit.plain_jinja import conversation_of
from training.marks import CHATS, Messages, Template, spans, tools_of

MARKED = [name for name in names() if re.search(r"\{%[-+]?\s*generation\b", text_of(name))]
NO_TOOLS = (
    "tests: smol", "trl: cohere", "trl: gemma", "trl: idefics3", "trl: llama3", "trl: llava", "trl: phi3",
    "trl: qwen2_5_vl", "trl: smolvlm",
)  # fmt: skip
"""Those that write no tools or no results; where we describe tools in words the texts differ."""
NO_SYSTEM = ("trl: gemma_training",)
IN_PARTS = ("trl: idefics3", "trl: llava", "trl: smolvlm")
"""Those that take the texts of messages only as parts."""


def chats(name: str) -> Iterator[tuple[str, Messages]]:
    for chat, messages in CHATS.items():
        left_out = (tools_of(messages) and name.startswith(NO_TOOLS)) or (chat == "system" and name in NO_SYSTEM)
        if not left_out:
            yield chat, messages


def template_of(known: Source) -> Template:
    special = {"bos_token": "", "eos_token": known.eos_token}
    stops = [str(stop) for stop in known.format.stops]
    return Template(text_of(known.name), special, stops, known.name.startswith(IN_PARTS))


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
