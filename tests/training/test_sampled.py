"""Who wrote each id: what the model samples is what its reader is fed, for every template; and nothing else is."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from antiphon import read_chat
from antiphon.conversation import Conversation, MessageEnded
from antiphon.errors import RenderError
from antiphon.formats.format import last_events
from antiphon.generation.bridge import meanings_of
from antiphon.generation.passages import Part
from antiphon.generation.sampled import Tracer, Written
from antiphon.tokens import Control, PieceDecoder, spell
from bridge.templates import Source, names, source
from kit.plain_jinja import TODAY

TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"To {name}.", "parameters": {"type": "object"}}}
    for name in ("look_up", "send")
]
TEXTS = (
    "user", "assistant", "42", "Yes.", "A longer sentence, with a comma and an end.", "two\nlines", "  indented",
    "Grüße, 世界 👋", "<think>", "{\"a\": 1}", "say <|im_end|> or </s>", "the tool said: 42", "[INST] x [/INST]", "é",
)  # fmt: skip
ARGUMENTS = ({"q": "a b"}, {"q": "x", "n": 3}, {"list": [1, 2], "deep": {"k": "v"}}, {"flag": True, "none": None})


def talk(draw: random.Random, *, tools: bool, thinks: bool) -> Conversation:
    """A conversation as the chat API has it, of one to three turns."""
    messages: list[dict[str, object]] = [{"role": "system", "content": draw.choice(TEXTS)}] * draw.choice((0, 1))
    for turn in range(draw.randint(1, 3)):
        messages.append({"role": "user", "content": draw.choice(TEXTS)})
        for step in range(draw.choice((0, 1, 2)) if tools else 0):
            id = f"call{turn}{step}abc"
            function = {"name": draw.choice(("look_up", "send")), "arguments": json.dumps(draw.choice(ARGUMENTS))}
            call = {"id": id, "type": "function", "function": function}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call], **thought(draw, thinks=thinks)},
                {"role": "tool", "tool_call_id": id, "content": draw.choice(TEXTS)},
            ]
        messages.append({"role": "assistant", "content": draw.choice(TEXTS), **thought(draw, thinks=thinks)})
    read = read_chat({"messages": messages, **({"tools": TOOLS} if tools else {})})
    return replace(read, settings=replace(read.settings, current_date=TODAY))


def thought(draw: random.Random, *, thinks: bool) -> dict[str, str]:
    return {"reasoning_content": draw.choice(TEXTS)} if thinks and draw.random() < 0.5 else {}


def spells_marks(known: Source, conversation: Conversation, messages: Sequence[int]) -> bool:
    """Whether a text of these spells a mark that the vocabulary has as a text: no reader can tell the two."""
    return any(
        mark.strip() in conversation.messages[i].text
        for mark in known.description.literals
        if mark.strip() and Control(mark.strip()) not in known.format.controls
        for i in messages
    )


def talks(known: Source, count: int) -> Iterator[tuple[Conversation, Written]]:
    draw, tracer = random.Random(known.name), Tracer(known.format, known.tokenizer)
    for _ in range(count):
        for tools in (True, False):  # Not every template knows tools.
            conversation = talk(draw, tools=tools, thinks=known.thinks)
            try:
                written = tracer.trace(conversation)
            except RenderError:
                continue
            yield conversation, written
            break


def runs(written: Written) -> Iterator[tuple[int, int, list[int]]]:
    """Start and end of what was sampled at one go, and the messages in it."""
    start, messages = -1, list[int]()
    for one in (*written.passages, None):
        if one is not None and one.sampled:
            start = one.start if start < 0 else start
            messages += [one.message] if one.message not in messages else []
        if start >= 0 and (one is None or not one.sampled or one.part is Part.END):
            yield start, written.passages[-1].end if one is None else one.end if one.sampled else one.start, messages
            start, messages = -1, []


def read(
    known: Source, conversation: Conversation, before: Sequence[int], reply: Sequence[int]
) -> list[tuple[str, str]]:
    prompt = PieceDecoder(known.tokenizer)
    parser = known.format.parser(prompt=prompt.feed(before), tools=conversation.offered)
    pieces = PieceDecoder(known.tokenizer)
    events = [*parser.feed([*pieces.feed(reply), *pieces.close()]), *last_events(parser, cut=False)]
    return meanings_of([event.message for event in events if isinstance(event, MessageEnded)])


@pytest.mark.parametrize("name", names())
def test_the_reader_of_what_is_sampled_reads_the_replies(name: str) -> None:
    known = source(name)
    for conversation, written in talks(known, 2 if name.startswith("declared") else 6):
        changed = {change.message for change in written.changes if change.kind != "end_not_shown"}
        for start, end, messages in runs(written):
            told = [conversation.messages[i] for i in messages]
            if not changed.isdisjoint(messages) or spells_marks(known, conversation, messages):
                continue
            got = read(known, conversation, written.ids[:start], written.ids[start:end])
            assert got == meanings_of(told), (conversation.messages, spell_ids(known, written.ids))


def spell_ids(known: Source, ids: Sequence[int]) -> str:
    return spell(PieceDecoder(known.tokenizer).feed(ids))
