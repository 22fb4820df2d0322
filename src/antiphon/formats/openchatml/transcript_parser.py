"""A whole transcript as a parser's events: what `OpenChatML.parser` gives where no reply is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from antiphon.conversation import Incident, Message, MessageEnded, MessageStarted, ParserEvent, TextDelta
from antiphon.tokens import Control, Piece

from .finding import Finding
from .reader import Reader

_TRANSCRIPT = re.compile(r"\ufeff?\s*(?:---[ \t]*\r?\n|version[ \t]*:|<\|start\|>(?!assistant\b))")


def begins_transcript(text: str) -> bool:
    """Whether a text is a transcript by its first characters (a header, or somebody else's frame), and no reply."""
    return _TRANSCRIPT.match(text) is not None


class TranscriptParser:
    """A `Parser` for a transcript, with a header or without. ``spelled``: controls are text, escapes included.

    ``strict`` raises `ParseError`; otherwise each finding is an `Incident`, in front of the message that it is about.
    """

    ended: str | None = None

    def __init__(self, *, spelled: bool, strict: bool) -> None:
        self._reader = Reader(strict=strict, fragment=True)
        self._spelled = spelled

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        for piece in pieces:
            if self._spelled and not isinstance(piece, Control):
                events += _events(self._reader.feed(piece))
            else:
                events += _events(self._reader.feed_pieces([piece]))
        return events

    def close(self) -> list[ParserEvent]:
        return _events(self._reader.close())


def _events(found: Iterable[Message | Finding]) -> list[ParserEvent]:
    events: list[ParserEvent] = []
    for item in found:
        if isinstance(item, Finding):
            events += [] if item.warning else [Incident(item.code, item.position.offset or 0, item.text)]
        else:
            text = [TextDelta(item.text)] if item.text else []
            events += [MessageStarted(replace(item, text="")), *text, MessageEnded(item)]
    return events
