"""Replies of models with public chat templates: each is read as what it means, whole and in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon.conversation import Channel, Conversation, Message, MessageEnded
from antiphon.formats.template import JinjaFormat, jinja_format
from antiphon.tokens import Control, Piece
from kit.corpora import corpora
from kit.plain_jinja import conversation_of

MOST_CUTS = 24
Row = Mapping[str, Any]


def _folder() -> Path:
    named = corpora()
    assert named is not None
    return named / "reply"


def templates() -> list[str]:
    if corpora() is None or not (_folder() / "index.json").exists():
        return []
    return [entry["template"] for entry in json.loads((_folder() / "index.json").read_text("utf-8"))]


def load(template: str) -> JinjaFormat:
    entries = json.loads((_folder() / "index.json").read_text("utf-8"))
    entry = next(entry for entry in entries if entry["template"] == template)
    source = (_folder() / "templates" / template).read_text("utf-8")
    return jinja_format(source, list(map(Control, entry["controls"])), entry["special"])


def rows(template: str) -> list[Row]:
    lines = (_folder() / "cases.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["template"] == template]


@pytest.mark.corpus
@pytest.mark.parametrize("template", templates())
def test_every_reply_is_read_as_what_it_means_whole_and_in_pieces(template: str) -> None:
    format = load(template)
    wrong = []
    for row in rows(template):
        given = row["conversation"]
        conversation = conversation_of(given["messages"], given.get("tools", ()), **given.get("kwargs", {}))
        prompt = list(format.render(conversation))
        reply = [Control(piece["control"]) if isinstance(piece, dict) else piece for piece in row["reply"]]
        whole = read(format, prompt, conversation, reply)
        wrong += [f"{row['id']}: {fault}" for fault in faults(row, whole)]
        for cut in cuts(reply):
            if read(format, prompt, conversation, cut) != whole:
                wrong.append(f"{row['id']}: otherwise in pieces")
                break
    assert not wrong, "\n".join(wrong)


def read(
    format: JinjaFormat, prompt: Sequence[Piece], conversation: Conversation, reply: Sequence[Piece]
) -> list[Message]:
    parser = format.parser(prompt=prompt, tools=conversation.tools)
    events = [event for piece in reply if parser.ended is None for event in parser.feed([piece])]
    return [event.message for event in (*events, *parser.close()) if isinstance(event, MessageEnded)]


def cuts(reply: Sequence[Piece]) -> Iterator[list[Piece]]:
    """By the character, by threes, and in two at places all over the reply."""
    yield in_parts(reply, 1)
    yield in_parts(reply, 3)
    size = sum(map(len, map(str, reply)))
    for place in range(1, size, max(1, size // MOST_CUTS)):
        yield in_two(reply, place)


def in_parts(reply: Sequence[Piece], size: int) -> list[Piece]:
    parts: list[Piece] = []
    for piece in reply:
        parts += [piece] if isinstance(piece, Control) else [piece[i : i + size] for i in range(0, len(piece), size)]
    return parts


def in_two(reply: Sequence[Piece], place: int) -> list[Piece]:
    """The text that reaches over the place, cut there."""
    parts: list[Piece] = []
    for piece in reply:
        at = place if not isinstance(piece, Control) and 0 < place < len(piece) else 0
        parts += [str(piece)[:at], str(piece)[at:]] if at else [piece]
        place -= len(str(piece))
    return parts


def faults(row: Row, messages: Sequence[Message]) -> Iterator[str]:
    """What of a row's expectations is not met."""
    answer = joined(message.text for message in messages if message.channel == Channel.FINAL)
    if row["judge"] == "kept":
        yield from kept(row, messages, answer)
        return
    expected = [next(iter(part.items())) for part in row["expect"]]
    thought = joined(message.text for message in messages if message.channel == Channel.ANALYSIS)
    for kind, found in (("content", answer), ("reasoning", thought)):
        wanted = joined(value for key, value in expected if key == kind)
        if found != wanted:
            yield f"{kind} {found!r} for {wanted!r}"
    calls = [message for message in messages if message.is_call]
    wanted_calls = [value for key, value in expected if key == "call"]
    if [name(call) for call in calls] != [call["name"] for call in wanted_calls]:
        yield f"calls {calls} for {wanted_calls}"
        return
    for call, wanted in zip(calls, wanted_calls, strict=True):
        if json.loads(call.text or "{}") != wanted["arguments"]:
            yield f"arguments {call.text} for {wanted['arguments']}"
        if wanted.get("id") not in (None, call.call_id):
            yield f"id {call.call_id} for {wanted['id']}"


def kept(row: Row, messages: Sequence[Message], answer: str) -> Iterator[str]:
    """Every string that a broken or cut reply must not lose, as it is or as JSON spells it; what must not be shown."""
    everything = "\n".join(f"{name(message)}\n{message.text}" for message in messages)
    plain = everything.replace('\\"', '"').replace("\\n", "\n")
    for text in row["keep"]:
        if text not in everything and text not in plain:
            yield f"{text!r} is lost"
    if "*" in row["hide"] and answer:
        yield f"{answer!r} is shown"


def name(message: Message) -> str:
    return (message.recipient or "").removeprefix("functions.")


def joined(texts: Any) -> str:
    return "\n".join(filter(None, (text.strip() for text in texts)))
