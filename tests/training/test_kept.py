"""What the next prompt keeps of a conversation, and why no more; and what the mask of a long conversation costs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antiphon import read_chat
from antiphon.conversation import Role
from antiphon.generation.sampled import Tracer
from antiphon.tokens import encode_pieces
from antiphon.training import Renderer
from bridge.templates import source

QUESTION = {"role": "user", "content": "Hello there."}
THOUGHT = {"role": "assistant", "reasoning_content": "Let me think.", "content": "I say yes."}
ANSWER = {"role": "assistant", "content": "I say yes."}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"}


@pytest.mark.parametrize(
    ("name", "answer", "cause"),
    [
        ("tests: qwen3", THOUGHT, "reasoning"),
        ("tests: qwen3", ANSWER, None),
        ("harmony", THOUGHT, "reasoning"),
        ("harmony", ANSWER, "end"),
        ("harmony", CALLED, None),
        ("tests: phi", ANSWER, "rewritten"),
        ("own: hermes", CALLED, None),
    ],
)
def test_the_next_prompt_of_each_template_begins_with_what_is_kept(name: str, answer: Any, cause: str | None) -> None:
    known = source(name)
    tracer = Tracer(known.format, known.tokenizer)
    conversation = read_chat([QUESTION, answer])
    written = tracer.trace(conversation)
    kept = tracer.kept(conversation, written)
    assert kept is not None
    later = read_chat([QUESTION, answer, RESULT if answer is CALLED else QUESTION])
    ids = encode_pieces(known.format.render(later, reply_as=Role.ASSISTANT), known.tokenizer)
    assert ids[: kept.count] == list(written.ids[: kept.count])
    assert kept.cause == cause
    assert (kept.count == len(written.ids)) == (cause is None)
    assert kept.other == (None if cause is None else ids[kept.count])


def test_a_text_that_joins_what_the_prompt_ends_with_is_the_same_in_other_tokens(smollm2_path: Any) -> None:
    renderer = Renderer(smollm2_path)
    tracer = Tracer(renderer.format, renderer.tokenizer)
    conversation = read_chat([QUESTION, {"role": "assistant", "content": "\n\nHi"}])
    kept = tracer.kept(conversation, tracer.trace(conversation))
    assert kept is not None
    assert kept.cause == "tokens"


def test_many_messages_of_one_letter_before_a_text_full_of_it_cost_little() -> None:
    known = source("own: hermes")
    talk = read_chat([*[{"role": "user", "content": "a"}] * 1_000, {"role": "user", "content": "a" * 10_000}, ANSWER])
    began = time.process_time()
    written = Tracer(known.format, known.tokenizer).trace(talk)
    assert time.process_time() - began < 5, "every place of the letter was compared for each message"
    assert sum(passage.owner.name == "USER" for passage in written.passages) == 1_001
