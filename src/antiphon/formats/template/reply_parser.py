"""Reads a reply by its tags: reasoning, answer, calls. Model output raises in strict mode only."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from antiphon.conversation import (
    Channel,
    End,
    Incident,
    Message,
    MessageEnded,
    MessageStarted,
    ParserEvent,
    Role,
    TextDelta,
)
from antiphon.errors import ParseError, Position
from antiphon.tokens import Control, ControlScanner, Piece

from .calls import Arguments, CallEnded, CallPart, CallsReader, CallStarted, Leftover, NotCall
from .json_value import JsonAnswer
from .tags import ReplyTags

_FINAL = Message(role=Role.ASSISTANT, channel=Channel.FINAL)
_ANALYSIS = Message(role=Role.ASSISTANT, channel=Channel.ANALYSIS)


class TaggedParser:
    """One reply: analysis between the reasoning tags, calls between theirs, the rest final.

    A tag that the vocabulary has as a control counts only as that control, never when the model spells it out; one that
    it lacks is text inside a string of arguments, and of an answer that is JSON. Blanks beside a tag belong to the tag.

    ``begins_in_reasoning``: the prompt opened the reasoning tag already.
    """

    def __init__(
        self,
        tags: ReplyTags,
        *,
        controls: Collection[Control] = (),
        stops: Sequence[Control | str] = (),
        begins_in_reasoning: bool = False,
        strict: bool = False,
    ) -> None:
        spelled = {control.spelling for control in controls}
        stop_words = [stop for stop in stops if isinstance(stop, str) and stop]
        self._spelled_out = {s for s in (*tags.spellings, *stop_words) if s not in spelled}
        self._scanner = ControlScanner(map(Control, self._spelled_out))
        firsts = "".join(sorted({re.escape(spelling[0]) for spelling in self._spelled_out}))
        self._tag_begins = re.compile(f"[{firsts}]" if firsts else "(?!)")
        self._stops = {str(stop) for stop in stops}
        self._tags = tags
        self._opens = {call.open: call for call in reversed(tags.calls) if call.open}
        self._closes = {call.close for call in tags.calls if call.close}
        self._bare = next((call for call in tags.calls if call.style == "bare"), None)
        self._waits_with_blanks = bool(tags.spellings)
        self._section = {tags.section.open, tags.section.close} if tags.section else set()
        self._strict = strict
        self._reasoning = begins_in_reasoning
        self._after_tag = begins_in_reasoning
        self._begins = True
        self._open: Message | None = None
        self._texts: list[str] = []
        self._blanks = ""
        self._calls: CallsReader | None = None
        self._answer = JsonAnswer()
        self._position = 0
        self._began = False
        self._events: list[ParserEvent] = []
        self.ended: str | None = None

    def feed(self, pieces: Iterable[Piece]) -> list[ParserEvent]:
        for piece in pieces:
            if isinstance(piece, Control):
                self._each([*self._scanner.close(), piece])
            else:
                # Nearly every piece of nearly every reply cannot be part of a tag, and needs no scanner.
                may_be_tag = self._scanner.buffered or self._tag_begins.search(piece)
                self._each(self._scanner.feed(piece) if may_be_tag else (piece,))
        return self._taken()

    def close(self) -> list[ParserEvent]:
        self._each(self._scanner.close())
        if self.ended is None:
            self._finish(End.NONE)
        return self._taken()

    def _taken(self) -> list[ParserEvent]:
        events, self._events = self._events, []
        return events

    def _each(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if self.ended is not None:
                self._incident("after_end", str(piece))
            elif isinstance(piece, str):
                self._text(piece)
            else:
                self._marker(piece.spelling)
            self._position += len(piece) if isinstance(piece, str) else 1

    def _marker(self, marker: str) -> None:
        """A control, or a tag or stop word that was spelled out."""
        reasoning = self._tags.reasoning
        if marker in self._spelled_out and (self._calls or self._answer).in_string:
            self._text(marker)
        elif marker in self._stops:
            self._finish(End.END)
            self.ended = marker
        elif reasoning and marker == (reasoning.close if self._reasoning else reasoning.open):
            self._switch(reasoning=not self._reasoning)
        elif marker in self._opens:
            self._switch(reasoning=False)
            self._calls = CallsReader(self._opens[marker])
        elif marker in self._section or (marker in self._closes and self._calls is not None):
            self._switch(reasoning=False)
        elif self._calls is not None and marker in self._tags.spellings:
            self._take_parts(self._calls.separator(marker))
        else:
            self._incident("unexpected_tag" if marker in self._tags.spellings else "unexpected_control", marker)

    def _switch(self, *, reasoning: bool) -> None:
        """A tag: what was open ends, and what follows begins without blanks."""
        self._end_calls()
        self._blanks, self._answer = "", JsonAnswer()
        self._end_message(End.END)
        self._reasoning, self._after_tag, self._begins = reasoning, True, self._begins and self._bare is not None

    def _end_calls(self) -> None:
        calls, self._calls = self._calls, None
        if calls is not None:
            self._take_parts(calls.close())

    def _text(self, text: str) -> None:
        if self._calls is not None:
            self._take_parts(self._calls.feed(text))
            return
        if self._after_tag:
            text = text.lstrip()
            self._after_tag = not text
        opening = text.lstrip()
        if opening and self._begins and self._bare and not self._reasoning:
            self._begins = False
            if opening[0] == "{":
                self._calls = CallsReader(self._bare)
                self._take_parts(self._calls.feed(opening))
                return
        self._answer_text(text)

    def _answer_text(self, text: str) -> None:
        """Text outside calls; blanks at its end wait, because a tag may follow, to which they belong."""
        if not self._reasoning:
            self._answer.feed(text)
        text = self._blanks + text
        solid = text.rstrip() if self._waits_with_blanks else text
        self._blanks = text[len(solid) :]
        if not solid:
            return
        if self._open is None:
            self._begin(_ANALYSIS if self._reasoning else _FINAL)
        self._delta(solid)

    def _take_parts(self, parts: Iterable[CallPart]) -> None:
        for part in parts:
            match part:
                case CallStarted():
                    self._begin(_call_header(part))
                case Arguments(text):
                    self._delta(text)
                case CallEnded(whole):
                    self._end_message(End.CALL if whole else End.NONE)
                case NotCall(text):
                    if text.strip():
                        self._incident("malformed_call", text)
                case Leftover(text):
                    self._calls = None
                    self._answer_text(text)
                case _:
                    assert_never(part)

    def _begin(self, header: Message) -> None:
        self._open, self._texts, self._began = header, [], True
        self._events.append(MessageStarted(header))

    def _delta(self, text: str) -> None:
        self._texts.append(text)
        self._events.append(TextDelta(text))

    def _end_message(self, end: End) -> None:
        if self._open is None:
            return
        self._events.append(MessageEnded(replace(self._open, text="".join(self._texts), end=end)))
        self._open = None

    def _finish(self, end: End) -> None:
        """The reply is over: by a stop, or because no more came. It has at least one message."""
        self._end_calls()
        blanks, self._blanks = self._blanks, ""
        if self._open is None and (blanks or not self._began):
            self._begin(_FINAL)
        if blanks:
            self._delta(blanks)
        self._end_message(end)

    def _incident(self, code: str, text: str) -> None:
        if self._strict:
            raise ParseError(
                f"{code.replace('_', ' ')}: {text[:80]!r}", code=code, position=Position(offset=self._position)
            )
        self._events.append(Incident(code, self._position, text))


def _call_header(call: CallStarted) -> Message:
    return Message(
        role=Role.ASSISTANT,
        recipient=call.name if call.name.startswith("functions.") else f"functions.{call.name}",
        channel=Channel.COMMENTARY,
        content_type="json",
        call_id=call.call_id,
    )
