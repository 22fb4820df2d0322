"""A reply that is sampled elsewhere is read part by part, between which little is kept, as it is read at once."""

from __future__ import annotations

from collections.abc import Sequence
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
    TurnEnded,
)
from antiphon.engines import EngineEnd, ScriptedEngine
from antiphon.formats import Format
from antiphon.formats.harmony import Harmony
from antiphon.formats.openchatml import OpenChatML
from antiphon.formats.openchatml.spelling import CONTROLS as FRAMES
from antiphon.formats.raw import RawFormat
from antiphon.formats.replies.reply_format import ReplyFormat
from antiphon.generation import Draft, Model, TurnRequest
from antiphon.generation.reader.elsewhere import KeptReply, ReplyReading, draft_elsewhere, pack_kept, unpack_kept
from antiphon.tokens import ByteTokenizer, Control, Piece, spell
from kit.api import sampled
from kit.reply_fragments import DESCRIPTIONS, TOOL, compiled, controls, replies

LONG, MOST = 16, 2500


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
                seen.append((reason, usage.completion_tokens, matched))
    return seen


def whole(draft: Draft, reply: Sequence[int] | str, end: EngineEnd) -> Told:
    reading = ReplyReading(draft)
    if isinstance(reply, str):
        return told([*reading.read_text(reply), *reading.end(end)])
    return told(reading.read_whole(reply, end))


def in_parts(draft: Draft, reply: Sequence[int] | str, end: EngineEnd, size: int) -> tuple[Told, int]:
    """The same, each part by another reading, and the most bytes that were kept between two."""
    events: list[Event] = []
    kept, most = KeptReply(), 0
    for at in range(0, len(reply), size):
        reading, part = ReplyReading(draft, kept), reply[at : at + size]
        events += reading.read_text(part) if isinstance(part, str) else reading.read_ids(part)
        packed = pack_kept(reading.keep())
        assert packed is not None
        kept, most = unpack_kept(packed), max(most, len(packed))
        if reading.over is not None:
            return told(events), most
    return told([*events, *ReplyReading(draft, kept).end(end)]), most


def lengthened(pieces: Sequence[Piece], times: int) -> list[Piece]:
    """The pieces with longer words: some text of which nothing depends."""
    return [one if isinstance(one, Control) else one.replace("word", "wörd. And so on: \\n " * times) for one in pieces]


@cache
def described(name: str, owned: int) -> Model:
    format = Described(name, owned)
    return Model(name="m", engine=ScriptedEngine([]), tokenizer=ByteTokenizer(format.controls), format=format)


@settings(max_examples=4, deadline=None)
@pytest.mark.parametrize("name", DESCRIPTIONS)
@given(data=st.data())
def test_a_reply_of_each_family_is_read_alike_in_parts_of_any_size(name: str, data: st.DataObject) -> None:
    """As ids, and as a text in which the controls are spelled."""
    owned = data.draw(st.sampled_from((0, 2**12 - 1)))
    said = lengthened(data.draw(replies(name, owned)), data.draw(st.sampled_from((0, 1, LONG))))
    end = data.draw(st.sampled_from((EngineEnd.STOP, EngineEnd.LENGTH_OUTPUT)))
    form = data.draw(st.sampled_from((None, ResponseFormat("json_object"))))
    made = described(name, owned)
    reply = (spell(said) if data.draw(st.booleans()) else sampled(made.tokenizer, said))[:MOST]
    asked = draft(made, response_format=form)
    size = data.draw(st.integers(1 + len(reply) // 20, 1 + len(reply)))
    assert in_parts(asked, reply, end, size)[0] == whole(asked, reply, end)


WORDS = st.sampled_from(
    ("word ", "analysis", "final", "commentary to=functions.f ", " <|constrain|>json", "to=functions.f", "assistant",
     "user", '{"a": "word", "b": [1, "word"]}', '{"a": "', "```json\n", '{"name": "f", "arguments": {"a": "x"}}', "\n",
     "functions.f", "<", ">", '"', "[1, 2", "é", "e.g. ")
)  # fmt: skip


def frames(controls: Sequence[Control]) -> st.SearchStrategy[list[Piece]]:
    """Frames with everything that models make of them."""
    head: list[Piece] = [controls_named(controls, "<|channel|>"), "analysis", controls_named(controls, "<|message|>")]
    parts = st.one_of(WORDS, st.sampled_from(list(controls)), st.just("word " * 40))
    return st.lists(parts, max_size=24).map(lambda said: [*head, "word", *said])


def controls_named(controls: Sequence[Control], spelling: str) -> Control:
    return next(control for control in controls if control.spelling == spelling)


@settings(max_examples=15, deadline=None)
@pytest.mark.parametrize("format", [Harmony(), Harmony(spelled=True), OpenChatML(controls=FRAMES)], ids=str)
@given(data=st.data())
def test_a_reply_in_frames_is_read_alike_in_parts_of_any_size(format: Format, data: st.DataObject) -> None:
    said = lengthened(data.draw(frames(list(format.controls))), data.draw(st.sampled_from((0, 1, LONG))))
    end = data.draw(st.sampled_from((EngineEnd.STOP, EngineEnd.LENGTH_OUTPUT)))
    made = Model(name="m", engine=ScriptedEngine([]), tokenizer=ByteTokenizer(format.controls), format=format)
    reply = sampled(made.tokenizer, said)[:MOST]
    asked = draft(made, stop=data.draw(st.sampled_from(((), ("so on: \\n wörd", "rd. A")))))
    size = data.draw(st.integers(1 + len(reply) // 20, 1 + len(reply)))
    assert in_parts(asked, reply, end, size)[0] == whole(asked, reply, end)
