"""A reply that is sampled elsewhere is read part by part, between which little is kept, as it is read at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.conversation import (
    Conversation,
    Event,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ResponseFormat,
    Role,
    TextDelta,
    ToolSpec,
    TurnEnded,
)
from antiphon.engines import EngineEnd, ScriptedEngine
from antiphon.errors import FormatError
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import OpenChatML
from antiphon.formats.openchatml.spelling import CONTROLS as FRAMES
from antiphon.formats.raw import RawFormat
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.generation import Draft, Model, TurnRequest
from antiphon.generation.reader.elsewhere import ReplyReading, draft_elsewhere, pack_kept, unpack_kept
from antiphon.tokens import ByteTokenizer, Control, Piece, SampledText
from kit.api import sampled
from kit.family_server import EVERY, family
from kit.reply_fragments import DESCRIPTIONS, TOOL, compiled, controls, replies

LONG = 16


class Described(ReplyFormat):
    """The replies of a description, whose prompts are nothing."""

    name = "described"
    defaults = RawFormat.defaults
    render = RawFormat().render

    def __init__(self, name: str, owned: int) -> None:
        self.controls = controls(name, owned)
        self.stops = (self.controls[0],)
        self.vocabulary = frozenset(self.controls)
        self._compiled = compiled(name, owned)
        self.replies = DESCRIPTIONS[name]


@cache
def model(format: Callable[[], Format]) -> Model:
    made = format()
    return Model(name="m", engine=ScriptedEngine([]), tokenizer=ByteTokenizer(made.controls), format=made)


def draft(model: Model, *, response_format: ResponseFormat | None = None, stop: tuple[str, ...] = ()) -> Draft:
    asked = Message(role=Role.USER, text="?")
    conversation = Conversation((asked,), tools=(TOOL,), response_format=response_format)
    return draft_elsewhere(model, TurnRequest(conversation=conversation, stop=stop), ())


Told = list[tuple[object, ...]]


def told(events: Sequence[Event]) -> Told:
    """What a client is told: each message as its head, its text and its end, and the incidents."""
    seen: Told = []
    for event in events:
        match event:
            case MessageStarted(message):
                seen.append(("began", message))
            case TextDelta(text) if seen and seen[-1][0] == "text":
                seen[-1] = ("text", f"{seen[-1][1]}{text}")
            case TextDelta(text):
                seen.append(("text", str(text)))
            case MessageEnded(message):
                seen.append(("ended", replace(message, text="", header=())))
            case Incident(code, _, text) if code != "after_end":  # which nobody asks for part by part
                seen.append((code, str(text)))
            case TurnEnded(reason, usage, matched):
                seen.append((reason, usage, matched))
    return seen


def whole(draft: Draft, reply: Sequence[int] | str, end: EngineEnd) -> Told:
    reading = ReplyReading(draft)
    events = reading.read_text(reply) if isinstance(reply, str) else reading.read_ids(reply)
    return told([*events, *reading.end(end)])


def in_parts(draft: Draft, reply: Sequence[int] | str, end: EngineEnd, size: int) -> tuple[Told, int]:
    """The same, each part by another reading, and the most bytes that were kept between two."""
    events: list[Event] = []
    kept, most = None, 0
    for at in range(0, len(reply), size):
        reading, part = ReplyReading(draft, kept), reply[at : at + size]
        events += reading.read_text(part) if isinstance(part, str) else reading.read_ids(part)
        packed = pack_kept(reading.keep())
        kept, most = unpack_kept(packed), max(most, len(packed))
        if reading.over is not None:
            return told(events), most
    return told([*events, *ReplyReading(draft, kept).end(end)]), most


def lengthened(pieces: Sequence[Piece], times: int) -> list[Piece]:
    """The pieces with longer words: some text of which nothing depends."""
    return [one if isinstance(one, Control) else one.replace("word", "wörd. And so on: \\n " * times) for one in pieces]


@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("name", DESCRIPTIONS)
@given(data=st.data())
def test_a_reply_of_each_family_is_read_alike_in_parts_of_any_size(name: str, data: st.DataObject) -> None:
    owned = data.draw(st.sampled_from((0, 2**12 - 1)))
    said = lengthened(data.draw(replies(name, owned)), data.draw(st.sampled_from((1, LONG))))
    end, size = data.draw(st.sampled_from((EngineEnd.STOP, EngineEnd.LENGTH_OUTPUT))), data.draw(st.integers(1, 40))
    format = data.draw(st.sampled_from((None, ResponseFormat("json_object"))))
    made = _described(name, owned)
    reply = sampled(made.tokenizer, said)
    asked = draft(made, response_format=format)
    assert in_parts(asked, reply, end, size)[0] == whole(asked, reply, end)


@cache
def _described(name: str, owned: int) -> Model:
    format = Described(name, owned)
    return Model(name="m", engine=ScriptedEngine([]), tokenizer=ByteTokenizer(format.controls), format=format)
